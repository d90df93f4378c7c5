"""All scenarios, and the app that the commands of a scenario's processes load."""

from tests.scenarios import (
    aborting,
    asking,
    differing,
    failing,
    handing_off,
    interrupting,
    mailing,
    nesting,
    noting,
    sharing,
    waiting,
)
from tests.scenarios.description import KIND_OF, KINDS, SCENARIOS, Making, team

__all__ = ["KINDS", "KIND_OF", "SCENARIOS", "THEMES", "Making", "team"]

THEMES = (handing_off, asking, waiting, failing, aborting, interrupting, nesting, mailing, noting, sharing, differing)
