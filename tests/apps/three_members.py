"""A lead that hands off to three members at once, on models that answer in no time.

The lead's first response hands the task to all three; its second one quotes the reports in the order in which it was
shown them, so that a checker can read from the result what the lead got, and in which order.
"""

import re

from lattice import create_team, define_agent, team_member
from lattice.testing import ScriptedModel, text, tool_use, turn

MEMBERS = ("alpha", "beta", "gamma")
_REPORT = re.compile(r"answer (\w+) <([^>]*)>")
_TASK = re.compile(r"--- delegated task ---\s*(.*)", re.DOTALL)


def _texts(request):
    last = request.messages[-1]["content"]
    return last if isinstance(last, str) else "".join(b.get("text", "") for b in last if b["type"] == "text")


def lead_reply(request):
    said = _texts(request)
    if said.startswith("Team runtime update"):
        return text("; ".join(f"{name} {task}" for name, task in _REPORT.findall(said)))
    return turn(*(tool_use(name, {"mode": "handoff", "task": f"{said} / {name}"}) for name in MEMBERS))


def member_reply(name):
    def reply(request):
        task = _TASK.search(_texts(request))
        return text(f"answer {name} <{task.group(1).strip() if task else '?'}>")

    return reply


def build(*, reply_of=member_reply, tools=(), name="trio"):
    """Make the team; ``reply_of(member)`` gives each member's model."""
    return create_team(
        name=name,
        lead=define_agent(name="lead", model="scripted", workspace=False, model_client=ScriptedModel(lead_reply)),
        members=[
            team_member(
                name=member,
                role="executor",
                agent=define_agent(
                    name=member,
                    model="scripted",
                    workspace=False,
                    tools=list(tools),
                    model_client=ScriptedModel(reply_of(member)),
                ),
            )
            for member in MEMBERS
        ],
    )


team = build()
