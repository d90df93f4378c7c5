"""The app that the processes of the fault suite load: the team, with the faults that the environment asks for."""

from tests.chaos import faults
from tests.chaos.apps import build

faults.install()
team = build()
