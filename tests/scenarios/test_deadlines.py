"""Questions with a deadline: in time, too late, and late questions behind questions."""

import asyncio

import pytest

from lattice import OptionError, agent_tool, team_member
from lattice.testing import tool_use
from tests.scenarios.worlds import TEAM
from tests.teams import ask, brief, echo, results, said, spec

SHORT = 80
"""Milliseconds that a question may wait which is not answered."""


def first_result(request):
    return results(request)[0]


def slow(cut=None):
    """A member that never answers by itself; ``cut`` says that it was stopped."""

    async def reply(request):
        try:
            await request.signal.wait()
        finally:
            if cut is not None:
                cut.set()

    return reply


def asked(name, script, timeout_ms=SHORT, **options):
    return team_member(name=name, agent=spec(name, script, **options), ask_timeout_ms=timeout_ms)


async def test_an_answer_in_time_is_an_answer(world):
    outcome = await world.run(world.team([ask("a"), first_result], {"a": asked("a", echo("a"), 10_000)}))
    assert outcome.text == "a did question"
    assert outcome.statuses("a") == ["done"]


async def test_no_answer_in_time_is_an_error_that_names_member_and_seconds(world):
    cut = asyncio.Event()
    outcome = await world.run(world.team([ask("a"), first_result], {"a": asked("a", slow(cut))}))
    assert outcome.status == "succeeded"
    assert "Error code: timeout\nReason: a has not answered within 0.08 s; the question was cancelled" in outcome.text
    assert outcome.statuses("a") == ["cancelled"]
    assert outcome.reports == []
    await asyncio.wait_for(cut.wait(), 5)


async def test_what_is_late_has_one_end_and_it_is_told_once(world):
    outcome = await world.run(world.team([ask("a"), first_result], {"a": asked("a", slow())}))
    assert [brief(event) for event in outcome.events].count(f"cancelled {TEAM}::a") == 1


async def test_the_lead_may_ask_again(world):
    def lead(request):
        if not results(request):
            return ask("a")
        return ask("b") if "timeout" in first_result(request) else first_result(request)

    outcome = await world.run(world.team(lead, {"a": asked("a", slow()), "b": echo("b")}))
    assert outcome.text == "b did question"


async def test_what_was_asked_for_a_late_question_is_cancelled_with_it(world):
    cut = asyncio.Event()
    helper = spec("helper", slow(cut))
    tool = agent_tool("helper", helper, target_mailbox_id=f"{TEAM}::helper")
    middle = team_member(
        name="middle", agent=spec("middle", [ask("helper"), "never"], tools=[tool]), ask_timeout_ms=300
    )
    outcome = await world.run(world.team([ask("middle"), first_result], {"middle": middle, "helper": helper}))
    assert "Error code: timeout\nReason: middle has" in outcome.text
    assert outcome.statuses("middle") == ["cancelled"]
    assert outcome.statuses("helper") == ["cancelled"]
    await asyncio.wait_for(cut.wait(), 5)


async def test_a_deadline_inside_a_question_is_the_members_to_deal_with(world):
    helper = spec("helper", slow())
    tool = agent_tool("helper", helper, target_mailbox_id=f"{TEAM}::helper", ask_timeout_ms=SHORT)
    middle = spec("middle", [ask("helper"), lambda request: f"without help: {first_result(request)}"], tools=[tool])
    outcome = await world.run(world.team([ask("middle"), first_result], {"middle": middle, "helper": helper}))
    assert outcome.text.startswith("without help: ")
    assert "Error code: timeout\nReason: helper has not answered" in outcome.text
    assert outcome.statuses("middle") == ["done"]


async def test_handoffs_have_no_deadline_of_that_kind(world):
    async def member(request):
        await asyncio.wait_for(late.wait(), 5)
        return "late but welcome"

    late = asyncio.Event()
    asyncio.get_running_loop().call_later(3 * SHORT / 1000, late.set)
    lead = [tool_use("a", {"mode": "handoff", "task": "x"}), said]
    outcome = await world.run(world.team(lead, {"a": asked("a", member)}))
    assert outcome.text.endswith("late but welcome")


async def test_the_agent_alone_has_the_deadline_as_well():
    child = spec("child", slow())
    agent = spec("lead", [ask("child"), first_result], tools=[agent_tool("child", child, ask_timeout_ms=SHORT)]).spawn()
    result = await agent.prompt("go")
    assert "Error code: timeout\nReason: child has not answered within 0.08 s" in result.result


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "5"])
def test_a_deadline_that_cannot_be_used_is_refused(value):
    with pytest.raises(OptionError, match="ask_timeout_ms must be a positive integer"):
        agent_tool("a", spec("a", []), ask_timeout_ms=value)
    with pytest.raises(OptionError, match="ask_timeout_ms must be a positive integer"):
        team_member(name="a", agent=spec("a", []), ask_timeout_ms=value)
