"""A team whose member kills its own process as long as the file that LATTICE_TEST_POISON names exists."""

import os
from pathlib import Path

from lattice import create_team, define_agent, team_member
from lattice.testing import ScriptedModel
from tests.teams import handoff, said


def lead_reply(request):
    text = said(request)
    return text if text.startswith("Team runtime update") else [handoff("fragile", "handle with care")]


def fragile_reply(_request):
    if Path(os.environ["LATTICE_TEST_POISON"]).exists():
        os._exit(9)
    return "handled with care"


def agent(name, script):
    return define_agent(name=name, model="scripted", workspace=False, model_client=ScriptedModel(script))


team = create_team(
    name="poisoned",
    lead=agent("lead", lead_reply),
    members=[team_member(name="fragile", role="executor", agent=agent("fragile", fragile_reply))],
)
