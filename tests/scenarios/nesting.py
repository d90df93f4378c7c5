"""Members that hand off themselves, teams inside teams, and how deep it may go."""

from lattice import agent_tool
from lattice.errors import APIError
from lattice.testing import turn
from tests.contracts.backends import TEAM
from tests.scenarios.description import Scenario, first_result, scenario
from tests.teams import ask, echo, handoff, said, spec, team_of


@scenario("nested")
def a_member_that_hands_off_itself(make):
    """team:HND-15"""

    def expect(outcome):
        assert f"mailbox: {TEAM}::middle" in outcome.text
        assert outcome.text.index("helper did x") < outcome.text.index("helper did y")

    tools = [agent_tool("helper", spec("helper", echo("helper")))]
    middle = spec("middle", [turn(handoff("helper", "x"), handoff("helper", "y")), said], tools=tools)
    return Scenario(make([handoff("middle"), said], {"middle": middle}), expect)


@scenario("nested")
def handoffs_three_deep(make):
    def expect(outcome):
        assert outcome.text.rstrip().endswith("third did deep")

    third = spec("third", echo("third"))
    second = spec("second", [handoff("third", "deep"), said], tools=[agent_tool("third", third)])
    first = spec("first", [handoff("second"), said], tools=[agent_tool("second", second)])
    return Scenario(make([handoff("first"), said], {"first": first}), expect)


@scenario("nested")
def questions_three_deep(make):
    def expect(outcome):
        assert outcome.text == "third did deep"

    third = spec("third", echo("third"))
    second = spec("second", [ask("third", "deep"), first_result], tools=[agent_tool("third", third)])
    first = spec("first", [ask("second"), first_result], tools=[agent_tool("second", second)])
    return Scenario(make([ask("first"), first_result], {"first": first}), expect)


@scenario("nested")
def too_deep(make):
    def expect(outcome):
        assert "Reached maximum delegate depth (1)" in outcome.text

    middle = spec("middle", [ask("helper"), first_result], tools=[agent_tool("helper", spec("helper", ["never"]))])
    team = make([ask("middle"), first_result], {"middle": middle}, runner={"max_delegate_depth": 1})
    return Scenario(team, expect)


@scenario("nested")
def no_delegation_at_all(make):
    """team:RUN-05"""

    def expect(outcome):
        assert "Reached maximum delegate depth (0)" in outcome.text

    return Scenario(make([ask("a"), first_result], {"a": echo("a")}, runner={"max_delegate_depth": 0}), expect)


@scenario("nested")
def a_failure_inside_a_member(make):
    """The member is told, and decides; the lead hears only what the member makes of it."""

    def expect(outcome):
        assert outcome.statuses("middle") == ["done"]
        assert "Delegated work assigned to helper failed." in outcome.text
        assert "Reason: down" in outcome.text

    tools = [agent_tool("helper", spec("helper", [APIError("down")]))]
    middle = spec("middle", [handoff("helper"), said], tools=tools)
    return Scenario(make([handoff("middle"), said], {"middle": middle}), expect)


@scenario("nested")
def a_team_inside_a_team(make):
    def expect(outcome):
        assert outcome.text.endswith("backend did build")
        assert "sent engineering::backend" in outcome.briefs
        assert "engineering:result" in outcome.briefs

    inner = team_of([handoff("backend", "build"), said], {"backend": echo("backend")}, name="engineering")
    return Scenario(make([handoff("engineering"), said], {"engineering": inner}), expect)


@scenario("nested")
def a_question_to_a_team(make):
    def expect(outcome):
        assert outcome.text.endswith("backend did build")
        assert outcome.statuses("engineering") == ["done"]

    inner = team_of([handoff("backend", "build"), said], {"backend": echo("backend")}, name="engineering")
    return Scenario(make([ask("engineering"), first_result], {"engineering": inner}), expect)


@scenario("nested")
def teams_three_deep(make):
    def expect(outcome):
        assert outcome.text.endswith("d did question")
        assert "sent b::c" in outcome.briefs
        assert outcome.statuses("b") == ["done"]

    innermost = team_of([ask("d"), first_result], {"d": echo("d")}, name="c")
    middle = team_of([handoff("c"), said], {"c": innermost}, name="b")
    return Scenario(make([handoff("b"), said], {"b": middle}), expect)


@scenario("nested")
def two_inner_teams_with_members_of_the_same_names(make):
    def expect(outcome):
        assert "x-dev did question" in outcome.text
        assert "y-dev did question" in outcome.text

    teams = {name: team_of([ask("dev"), first_result], {"dev": echo(f"{name}-dev")}, name=name) for name in ("x", "y")}
    return Scenario(make([turn(handoff("x"), handoff("y")), said], teams), expect)


@scenario("nested")
def a_failed_inner_lead_fails_its_work_item_only(make):
    """team:NEST-07"""

    def expect(outcome):
        assert outcome.status == "succeeded"
        assert (outcome.statuses("inner"), outcome.statuses("a")) == (["failed"], ["done"])
        assert "Reason: no credit" in outcome.text
        assert outcome.text.endswith("a did work")

    inner = team_of([APIError("no credit")], {"x": echo("x")}, name="inner")
    return Scenario(make([turn(handoff("inner"), handoff("a")), said], {"inner": inner, "a": echo("a")}), expect)
