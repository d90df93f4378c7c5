"""What tests of teams share: scripted agents, teams of them, and events in a form that is easy to compare."""

import re

from lattice import create_team, define_agent, team_member
from lattice.testing import ScriptedModel, tool_use, turn

TASK = re.compile(r"--- delegated task ---\n(.*)", re.DOTALL)


def spec(name, script, **options):
    """A template on a scripted model, kept as ``.model``'s requests."""
    return define_agent(name=name, model="scripted", workspace=False, model_client=ScriptedModel(script), **options)


def model_of(agent):
    return agent.options["model_client"]


def said(request):
    """The text of the last message that a model was sent."""
    content = request.messages[-1]["content"]
    return content if isinstance(content, str) else "".join(b.get("text", "") for b in content if b["type"] == "text")


def results(request):
    """The tool results in the last message that a model was sent, as text."""
    content = request.messages[-1]["content"]
    return [] if isinstance(content, str) else [b["content"] for b in content if b["type"] == "tool_result"]


def task_of(request):
    """The bare task in the envelope that a member was sent."""
    found = TASK.search(said(request))
    return found.group(1) if found else said(request)


def handoff(name, task="work", **more):
    return tool_use(name, {"mode": "handoff", "task": task, **more})


def ask(name, task="question", **more):
    return tool_use(name, {"mode": "ask", "task": task, **more})


def echo(name):
    """A member that answers every task by naming itself and the task."""
    return lambda request: f"{name} did {task_of(request)}"


def team_of(lead, members, **options):
    """A team with a scripted lead; members are scripts, agents or definitions by name."""
    definitions = []
    for name, member in members.items():
        if hasattr(member, "mailbox_id"):
            definitions.append(member)
            continue
        agent = member if hasattr(member, "query") or hasattr(member, "spawn") else spec(name, member)
        definitions.append(team_member(name=name, role="executor", agent=agent))
    agent = lead if hasattr(lead, "query") or hasattr(lead, "spawn") else spec("lead", lead)
    return create_team(name=options.pop("name", "squad"), lead=agent, members=definitions, **options)


def batch(*calls):
    return turn(*calls)


def brief(event):
    """An event as a short text: ``team_message/sent``, ``worker:assistant``."""
    wire = event if isinstance(event, dict) else event.to_dict()
    kind = wire["type"]
    if kind == "agent_message":
        inner = wire["message"]
        who = wire["source"].get("member", "lead")
        return f"{who}:{inner['type']}"
    subtype = wire.get("subtype")
    if kind == "team_message":
        return f"{subtype} {wire['message']['to']}"
    if kind == "team_agent":
        return f"{subtype} {wire['source']['member']}"
    return kind


async def collect(stream):
    return [event async for event in stream]
