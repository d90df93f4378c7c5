"""A team that tells its secrets wherever it can: in a log line, a tool's result, an error, a trace."""

import logging
import os
from pathlib import Path

from lattice import create_jsonl_context_tracer, create_team, define_agent, team_member, tool
from lattice.testing import ScriptedModel, tool_use, turn
from tests.teams import handoff, said

KEY = os.environ.get("FAKE_PROVIDER_API_KEY", "")
URL = os.environ.get("LATTICE_REDIS_URL", "")


def lead_reply(request):
    return "done" if said(request).startswith("Team runtime update") else turn(handoff("leaky", "tell all"))


def leaky_reply(request):
    if "tool_result" in str(request.messages[-1]["content"]):
        raise RuntimeError(f"refused for {KEY} at {URL}")
    return turn(f"I know {KEY}", tool_use("tell"))


def tell(_input):
    logging.getLogger("leaky").warning("the key is %s, the server %s", KEY, URL)
    try:
        raise ValueError(KEY)
    except ValueError:
        logging.getLogger("leaky").exception("and again")
    return f"{KEY} {URL}"


def agent(name, script, **options):
    model = ScriptedModel(script)
    return define_agent(name=name, model="scripted", workspace=False, model_client=model, **options)


team = create_team(
    name="leaky",
    lead=agent("lead", lead_reply),
    members=[
        team_member(
            name="leaky",
            role="executor",
            agent=agent("leaky", leaky_reply, tools=[tool("tell", "Tell.", {"type": "object"}, tell)]),
        )
    ],
    tracer=create_jsonl_context_tracer(dir=Path(os.environ.get("LATTICE_TEST_TRACES", "."))),
)
