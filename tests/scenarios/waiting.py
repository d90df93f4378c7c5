"""Questions with a deadline: in time, too late, and late questions behind questions."""

from lattice import agent_tool, team_member
from lattice.testing import turn
from tests.contracts.backends import TEAM
from tests.scenarios.description import Scenario, first_result, never_answers, scenario
from tests.teams import ask, echo, handoff, results, said, spec

SHORT = 80
"""Milliseconds that a question may wait which is not answered."""


def stops(stage):
    """A model that never answers, and notes that it was stopped."""

    async def reply(request):
        try:
            return await never_answers(request)
        finally:
            stage.note("stopped")

    return reply


def asked(name, script, timeout_ms=SHORT, **options):
    return team_member(name=name, agent=spec(name, script, **options), ask_timeout_ms=timeout_ms)


@scenario("deadlines")
def an_answer_in_time_is_an_answer(make):
    def expect(outcome):
        assert outcome.text == "a did question"
        assert outcome.statuses("a") == ["done"]

    return Scenario(make([ask("a"), first_result], {"a": asked("a", echo("a"), 10_000)}), expect)


@scenario("deadlines")
def no_answer_in_time_is_an_error_that_names_member_and_seconds(make):
    """What is late is stopped, has one end, and is told of once."""

    def expect(outcome):
        assert outcome.status == "succeeded"
        reason = "a has not answered within 0.08 s; the question was cancelled"
        assert f"Error code: timeout\nReason: {reason}" in outcome.text
        assert outcome.statuses("a") == ["cancelled"]
        assert outcome.reports == []
        assert outcome.briefs.count(f"cancelled {TEAM}::a") == 1

    return Scenario(make([ask("a"), first_result], {"a": asked("a", never_answers)}), expect)


@scenario("deadlines")
def somebody_else_is_asked_when_nobody_answers_in_time(make):
    def expect(outcome):
        assert outcome.text == "b did question"
        assert (outcome.statuses("a"), outcome.statuses("b")) == (["cancelled"], ["done"])

    def lead(request):
        if not results(request):
            return ask("a")
        return ask("b") if "timeout" in first_result(request) else first_result(request)

    return Scenario(make(lead, {"a": asked("a", never_answers), "b": echo("b")}), expect)


@scenario("deadlines")
def what_was_asked_for_a_late_question_is_cancelled_with_it(make):
    async def play(world):
        outcome = await world.run(team)
        assert "Error code: timeout\nReason: middle has" in outcome.text
        assert outcome.statuses("middle") == outcome.statuses("helper") == ["done", "cancelled"]
        await make.stage.reached("stopped")

    async def helper(request):
        return "yes" if "ready?" in said(request) else await stops(make.stage)(request)

    def middle(request):
        return "yes" if "ready?" in said(request) else ask("helper")

    agent = spec("helper", helper)
    tools = [agent_tool("helper", agent, target_mailbox_id=f"{TEAM}::helper")]
    members = {"middle": asked("middle", middle, 500, tools=tools), "helper": agent}
    # Who has answered once is at work, so the time of the question that counts is not spent on a start.
    team = make([ask("helper", "ready?"), ask("middle", "ready?"), ask("middle"), first_result], members)
    return Scenario(team, play=play)


@scenario("deadlines")
def a_deadline_inside_a_question_is_the_members_to_deal_with(make):
    def expect(outcome):
        assert outcome.text.startswith("without help: ")
        assert "Error code: timeout\nReason: helper has not answered" in outcome.text
        assert outcome.statuses("middle") == ["done"]

    helper = spec("helper", never_answers)
    tools = [agent_tool("helper", helper, target_mailbox_id=f"{TEAM}::helper", ask_timeout_ms=SHORT)]
    middle = spec("middle", [ask("helper"), lambda request: f"without help: {first_result(request)}"], tools=tools)
    return Scenario(make([ask("middle"), first_result], {"middle": middle, "helper": helper}), expect)


@scenario("deadlines")
def handoffs_have_no_deadline_of_that_kind(make):
    """The member answers when a question with the same deadline, asked by its colleague meanwhile, is over."""

    def expect(outcome):
        assert "late but welcome" in outcome.text
        assert outcome.statuses("a") == outcome.statuses("b") == ["done"]

    async def member(request):
        await make.stage.reached("over")
        return "late but welcome"

    def over(request):
        make.stage.note("over")
        return "asked"

    tools = [agent_tool("c", spec("c", never_answers), ask_timeout_ms=SHORT)]
    members = {"a": asked("a", member), "b": spec("b", [ask("c"), over], tools=tools)}
    lead = [turn(handoff("a"), handoff("b")), said]
    return Scenario(make(lead, members, runner={"max_concurrent_work_items": 2}), expect)
