"""The app that the processes of the fault suite load: the team, with the faults that the environment asks for."""

import os
import time

from tests.chaos import broken, faults
from tests.chaos.apps import build


def shift_clock(seconds):
    """Let the clock of this process be wrong."""
    clock, clock_ns = time.time, time.time_ns
    time.time = lambda: clock() + seconds
    time.time_ns = lambda: clock_ns() + int(seconds * 1e9)


if "CHAOS_CLOCK" in os.environ:
    shift_clock(float(os.environ["CHAOS_CLOCK"]))
broken.install()
faults.install()
team = build()
