"""A team whose member works when it is let: it reports that it has begun, then waits for a file to appear."""

import asyncio
import os
from pathlib import Path

from lattice import create_team, define_agent, team_member
from lattice.testing import ScriptedModel, text, tool_use

FOLDER = Path(os.environ.get("LATTICE_TEST_GATE", "."))


async def reply(request):
    number = len(list(FOLDER.glob("begun-*")))
    (FOLDER / f"begun-{number}").touch()
    while not (FOLDER / "open").exists():
        await request.signal.race(asyncio.sleep(0.01))
    return text("worked")


def agent(name, script):
    return define_agent(name=name, model="scripted", workspace=False, model_client=ScriptedModel(script))


def build(lead=lambda _request: text("nothing to do"), **member):
    return create_team(
        name="gated",
        lead=agent("lead", lead),
        members=[team_member(name="backend", agent=agent("backend", reply), **member)],
    )


team = build()
lasting = build(conversation="member")
leading = build(lead=reply)
"""Its lead is let to work, as the members of the others are."""


def inner_lead(request):
    said = str(request.messages[-1]["content"])
    return (
        text("the team worked")
        if "Team runtime update" in said
        else tool_use("backend", {"mode": "handoff", "task": "do it"})
    )


outer = create_team(
    name="gated",
    lead=agent("lead", lambda _request: text("nothing to do")),
    members=[
        team_member(
            name="backend",
            agent=create_team(
                name="inner",
                lead=agent("inner-lead", inner_lead),
                members=[team_member(name="backend", agent=agent("backend", reply))],
            ),
        )
    ],
)
"""Its member is itself a team."""
