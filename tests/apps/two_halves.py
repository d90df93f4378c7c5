"""A team whose lead hands off to two members: one says by a file that it has begun, and ends when another file appears."""

import asyncio
import os
from pathlib import Path

from lattice import create_team, define_agent, team_member
from lattice.testing import ScriptedModel, text
from tests.teams import batch, handoff, said

FOLDER = Path(os.environ.get("LATTICE_TEST_GATE", "."))


async def first(request):
    (FOLDER / "begun").touch()
    while not (FOLDER / "open").exists():
        await request.signal.race(asyncio.sleep(0.01))
    (FOLDER / "finished").touch()
    return text("the first half")


def lead(request):
    if "Team runtime update" in said(request):
        (FOLDER / "asked-again").touch()
        return text("both halves")
    return batch(handoff("first"), handoff("second"))


def agent(name, script):
    return define_agent(name=name, model="scripted", workspace=False, model_client=ScriptedModel(script))


team = create_team(
    name="halves",
    lead=agent("lead", lead),
    members=[
        team_member(name="first", agent=agent("first", first)),
        team_member(name="second", agent=agent("second", lambda _request: text("the second half"))),
    ],
)
