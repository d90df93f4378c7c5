"""A team with a team inside, whose member kills its process as long as the file that LATTICE_TEST_POISON names exists."""

from lattice import create_team, team_member
from tests.apps.poison import agent, fragile_reply
from tests.teams import handoff, said


def lead_reply(request):
    text = said(request)
    return text if text.startswith("Team runtime update") else [handoff("inner", "pass this on")]


def inner_lead_reply(request):
    text = said(request)
    return text if text.startswith("Team runtime update") else [handoff("fragile", "handle with care inside")]


inner = create_team(
    name="inside",
    lead=agent("inner-lead", inner_lead_reply),
    members=[team_member(name="fragile", role="executor", agent=agent("fragile", fragile_reply))],
)
team = create_team(
    name="around",
    lead=agent("lead", lead_reply),
    members=[team_member(name="inner", role="executor", agent=inner)],
)
