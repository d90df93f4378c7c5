"""What a team refuses to be made of."""

import pytest
from pydantic import BaseModel

from lattice import create_team, create_team_runner, team_member, tool
from lattice.errors import OptionError
from lattice.testing import ScriptedModel, tool_use, turn
from tests.teams import echo, handoff, results, said, spec, team_of


class Output(BaseModel):
    ok: bool


def own_tool(name):
    return tool(name, "Ours.", {"type": "object"}, lambda value: "x")


def test_options_that_do_not_exist_are_refused_everywhere():
    """team:TEAM-16 team:TEAM-03"""
    lead = spec("lead", ["x"])
    with pytest.raises(TypeError, match="bogus"):
        create_team(name="x", lead=lead, bogus=1)
    with pytest.raises(TypeError, match="bogus"):
        team_member(name="x", agent=lead, bogus=1)
    with pytest.raises(OptionError, match="bogus"):
        create_team(name="x", lead=lead, runner={"bogus": 1})
    with pytest.raises(OptionError, match="bogus"):
        create_team_runner(root=lead, bogus=1)


def test_limits_are_checked_when_the_team_is_made():
    """team:RUN-04 team:RUN-05"""
    with pytest.raises(OptionError, match="max_delegate_depth"):
        team_of(["x"], {}, runner={"max_delegate_depth": -1})
    with pytest.raises(OptionError, match="max_concurrent_work_items"):
        team_of(["x"], {}, runner={"max_concurrent_work_items": 0})


@pytest.mark.parametrize("live", [False, True])
def test_a_tool_of_the_leads_own_cannot_be_called_like_a_member(live):
    """team:TEAM-10"""
    lead = spec("lead", ["x"], tools=[own_tool("backend")])
    with pytest.raises(OptionError, match="lead of team 'squad' has a tool \"backend\".*rename"):
        team_of(lead.spawn() if live else lead, {"backend": echo("backend")})


def test_a_member_cannot_be_called_like_a_tool_of_the_leads_workspace(tmp_path):
    from lattice import define_agent

    lead = define_agent(name="lead", model="m", workspace=str(tmp_path), model_client=ScriptedModel(["x"]))
    with pytest.raises(OptionError, match='"Read"'):
        team_of(lead, {"Read": echo("Read")})
    assert list(tmp_path.iterdir()) == []


def test_a_member_cannot_be_called_like_the_tool_that_submits():
    """team:OUT-19"""
    lead = spec("lead", ["x"], output_schema=Output)
    with pytest.raises(OptionError, match='"submit_output".*reserved'):
        team_of(lead, {"submit_output": echo("x")})
    with pytest.raises(OptionError, match="reserved"):
        lead.spawn().add_tools([own_tool("submit_output")])


def test_mailbox_tools_do_not_hide_behind_tools_of_that_name():
    with pytest.raises(OptionError, match="member 'a' of team 'squad' has a tool \"team_send\""):
        team_of(["x"], {"a": spec("a", ["x"], tools=[own_tool("team_send")])})
    lead = spec("lead", ["x"], tools=[own_tool("team_inbox")])
    assert team_of(lead, {"a": ["x"]}).name == "squad"
    with pytest.raises(OptionError, match="lead of team 'squad' has a tool \"team_inbox\""):
        team_of(lead, {"a": ["x"]}, expose_lead_mailbox_tools=True)


async def test_a_lead_cannot_hand_off_and_submit_in_one_response():
    """team:OUT-17"""
    lead = spec(
        "lead",
        [
            turn(handoff("a"), tool_use("submit_output", {"ok": True})),
            lambda request: pytest.fail(said(request)) if not results(request) else turn(handoff("a")),
            turn(tool_use("submit_output", {"ok": True})),
        ],
        output_schema=Output,
    )
    team = team_of(lead, {"a": echo("a")})
    result = await team.prompt("go")
    rejected = lead.options["model_client"].requests[1]
    assert all("submit_output_exclusive_batch" in text for text in results(rejected))
    assert len(results(rejected)) == 2
    assert len(team.mailbox.inbox("squad::a", "all")) == 1
    assert (result.subtype, result.structured_result) == ("success", Output(ok=True))
