"""A team of two members and a team as its third: every member calls a tool, so that a trace has all kinds of spans."""

import re

from lattice import create_team, define_agent, team_member, tool
from lattice.testing import ScriptedModel, tool_use, turn

SECRET = "sesame-open-4711"
"""Stands in every task, tool argument and report; no telemetry may hold it."""

USAGE = {"input_tokens": 10, "output_tokens": 5}


def said(request):
    last = request.messages[-1]["content"]
    return last if isinstance(last, str) else "".join(block.get("text", "") for block in last)


def is_resumed(request):
    return any(
        str(message["content"] if isinstance(message["content"], str) else said_in(message)).startswith(
            "Team runtime update"
        )
        for message in request.messages
        if message["role"] == "user"
    )


def said_in(message):
    return "".join(block.get("text", "") for block in message["content"])


def lead_of(*members):
    def reply(request):
        if is_resumed(request):
            return turn(f"all reported {SECRET}", usage=USAGE)
        return turn(
            *(tool_use(name, {"mode": "handoff", "task": f"do {name} {SECRET}"}) for name in members), usage=USAGE
        )

    return reply


def works(request):
    if any(re.search("looked up", str(message["content"])) for message in request.messages):
        return turn(f"done {SECRET}", usage=USAGE)
    return turn(tool_use("look_up", {"what": SECRET}), usage=USAGE)


@tool("look_up", "Looks something up.", {"type": "object"})
def look_up(given):
    return f"looked up {given['what']}"


def agent(name, reply, tools=()):
    return define_agent(
        name=name, model="scripted", workspace=False, tools=list(tools), model_client=ScriptedModel(reply)
    )


def member(name):
    return team_member(name=name, role="executor", agent=agent(name, works, [look_up]))


def build(tracer=None):
    inner = create_team(name="inner", lead=agent("inner-lead", lead_of("delta")), members=[member("delta")])
    return create_team(
        name="outer",
        lead=agent("lead", lead_of("alpha", "beta", "inner")),
        members=[member("alpha"), member("beta"), team_member(name="inner", role="team", agent=inner)],
        tracer=tracer,
    )


team = build()
