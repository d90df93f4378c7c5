"""A lead that hands off to three members at once, and a member alone; their models answer in no time."""

from lattice import create_team, define_agent, team_member
from lattice.testing import ScriptedModel, text, tool_use, turn

MEMBERS = ("m0", "m1", "m2")


def lead_reply(request):
    last = request.messages[-1]["content"]
    said = last if isinstance(last, str) else "".join(block.get("text", "") for block in last)
    if said.startswith("Team runtime update"):
        return text("done")
    return turn(*(tool_use(name, {"mode": "handoff", "task": f"your part of {said}"}) for name in MEMBERS))


def scripted(name, reply):
    return define_agent(name=name, model="scripted", workspace=False, model_client=ScriptedModel(reply))


team = create_team(
    name="bench",
    lead=scripted("lead", lead_reply),
    members=[
        team_member(name=name, role="executor", agent=scripted(name, lambda _request: text("my part")))
        for name in MEMBERS
    ],
)
