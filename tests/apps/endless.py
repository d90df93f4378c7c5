"""A team whose work never ends by itself: each place says in a file that it has begun, and goes on leaving marks.

The task is ``MODE MEMBER`` (``handoff model``, ``ask tool``), or ``lead model`` and ``lead tool`` for the lead itself.
"""

import asyncio
import os
import time
from pathlib import Path

from lattice import create_team, define_agent, team_member, tool
from lattice.errors import APIError
from lattice.testing import ScriptedModel, tool_use, turn
from tests.teams import said

FOLDER = Path(os.environ.get("LATTICE_TEST_MARKS", "."))
NOTHING = {"type": "object", "properties": {}}


async def go_on(name):
    """Leave marks for ever; the last one stays when the work is stopped."""
    while True:
        mark(name)
        await asyncio.sleep(0.01)


def mark(name):
    fresh = FOLDER / f".{name}.{os.getpid()}"
    fresh.write_text(str(time.time()))
    fresh.rename(FOLDER / name)


def in_tool(name):
    async def endless(_input):
        await go_on(name)

    return tool("endless", "Never ends.", NOTHING, endless)


def in_model(name):
    async def reply(_request):
        await go_on(name)

    return reply


def agent(name, script, **options):
    model = ScriptedModel(script)
    return define_agent(name=name, model="scripted", model_client=model, **{"workspace": False, **options})


def lead_reply(request):
    mode, _, member = said(request).partition(" ")
    if mode == "lead":
        return go_on("lead-model") if member == "model" else turn(tool_use("endless"))
    return turn(tool_use(member, {"mode": mode, "task": "never end"}))


def shell_reply(_request):
    command = f"echo $$ > {FOLDER}/shell; sleep 600 & sleep 600"
    return turn(tool_use("Bash", {"command": command}))


def busy(_request):
    mark("retry")
    raise APIError("busy", status=529, retry_after=600)


def inner_lead(request):
    return turn(tool_use("inner", {"mode": "handoff", "task": "never end"}))


def member(name, agent, **options):
    return team_member(name=name, role="executor", agent=agent, **options)


inner_team = create_team(
    name="inside",
    lead=agent("inner-lead", inner_lead),
    members=[member("inner", agent("inner", in_model("team")))],
)
team = create_team(
    name="endless",
    lead=agent("lead", lead_reply, tools=[in_tool("lead-tool")]),
    members=[
        member("model", agent("model", in_model("model"))),
        member("tool", agent("tool", lambda _request: turn(tool_use("endless")), tools=[in_tool("tool")])),
        member("shell", agent("shell", shell_reply, workspace={"cwd": str(FOLDER)})),
        member("retry", agent("retry", busy), retry=3),
        member("team", inner_team),
    ],
)
