"""The app that the processes of the fault suite load: the team, with the faults that the environment asks for."""

from tests.chaos import broken, faults
from tests.chaos.apps import build

broken.install()
faults.install()
team = build()
