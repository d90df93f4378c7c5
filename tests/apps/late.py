"""A team whose lead asks a member that never answers, and may wait for it for a moment only."""

import asyncio
import os
from pathlib import Path

from lattice import create_team, define_agent, team_member
from lattice.testing import ScriptedModel, text
from tests.teams import ask, results

FOLDER = Path(os.environ.get("LATTICE_TEST_GATE", "."))


async def silent(request):
    (FOLDER / "begun").touch()
    try:
        await request.signal.race(asyncio.sleep(600))
    finally:
        (FOLDER / "stopped").touch()


def agent(name, script):
    return define_agent(name=name, model="scripted", workspace=False, model_client=ScriptedModel(script))


team = create_team(
    name="late",
    lead=agent("lead", lambda request: text(results(request)[0]) if results(request) else ask("silent")),
    members=[team_member(name="silent", agent=agent("silent", silent), ask_timeout_ms=3_000)],
)
