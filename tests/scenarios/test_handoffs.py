"""Handing work off: order, receipts, rounds, and how many members work at once."""

import asyncio
import json

import pytest

from lattice.testing import turn
from tests.teams import ask, echo, handoff, model_of, results, said, spec


def then_says(request):
    return said(request)


class Meter:
    """Counts who is at work at once, and remembers who began when."""

    def __init__(self):
        self.now, self.most, self.order = 0, 0, []

    def member(self, name, rounds=5):
        async def reply(request):
            self.now += 1
            self.most = max(self.most, self.now)
            self.order.append(name)
            for _ in range(rounds):
                await asyncio.sleep(0.001)
            self.now -= 1
            return f"{name}: {said(request).rpartition(chr(10))[2]}"

        return reply


async def test_no_handoff_at_all(world):
    outcome = await world.run(world.team(["just an answer"], {"a": echo("a")}))
    assert (outcome.text, outcome.briefs) == ("just an answer", ["system", "assistant", "result"])


async def test_a_team_without_members(world):
    assert (await world.run(world.team(["alone"]))).text == "alone"


async def test_the_lead_is_not_asked_while_members_work(world):
    lead = spec("lead", [turn(handoff("a"), handoff("b")), "done"])

    def member(request):
        assert model_of(lead).calls == 1
        return "ok"

    outcome = await world.run(world.team(lead, {"a": member, "b": member}))
    assert outcome.text == "done"
    assert model_of(lead).calls == 2


async def test_reports_stand_in_the_order_of_the_handoffs(world):
    late = asyncio.Event()

    async def slow(request):
        await late.wait()
        return "the slow one"

    def fast(request):
        late.set()
        return "the fast one"

    team = world.team(
        [turn(handoff("slow"), handoff("fast")), then_says],
        {"slow": slow, "fast": fast},
        runner={"max_concurrent_work_items": 2},
    )
    text = (await world.run(team)).text
    assert text.index("the slow one") < text.index("the fast one")


async def test_one_at_a_time(world):
    meter = Meter()
    team = world.team(
        [turn(*map(handoff, "abc")), "x"],
        {name: meter.member(name) for name in "abc"},
        runner={"max_concurrent_work_items": 1},
    )
    await world.run(team)
    assert meter.most == 1
    assert meter.order == ["a", "b", "c"]


async def test_two_at_a_time(world):
    meter = Meter()
    team = world.team(
        [turn(*map(handoff, "abcd")), "x"],
        {name: meter.member(name) for name in "abcd"},
        runner={"max_concurrent_work_items": 2},
    )
    await world.run(team)
    assert meter.most == 2
    assert sorted(meter.order) == ["a", "b", "c", "d"]


async def test_all_at_once(world):
    meeting = asyncio.Barrier(3)

    async def member(request):
        await meeting.wait()
        return "met"

    team = world.team(
        [turn(*map(handoff, "abc")), "x"], dict.fromkeys("abc", member), runner={"max_concurrent_work_items": 3}
    )
    outcome = await world.run(team)
    assert [r.content for r in outcome.reports] == ["met"] * 3


async def test_one_member_works_one_after_another_in_order(world):
    meter = Meter()
    team = world.team(
        [turn(handoff("a", "one"), handoff("a", "two"), handoff("a", "three")), then_says],
        {"a": meter.member("a")},
        runner={"max_concurrent_work_items": 3},
    )
    outcome = await world.run(team)
    assert meter.most == 1
    assert [m.content for m in outcome.mail["a"]] == ["one", "two", "three"]
    assert [r.content for r in outcome.reports] == ["a: one", "a: two", "a: three"]


async def test_too_many_rounds(world):
    """team:HND-13"""
    outcome = None
    team = world.team(lambda request: turn(handoff("a")), {"a": echo("a")})
    if world.is_local:
        with pytest.raises(Exception, match=r"maximum handoff follow-up rounds \(50\)"):
            await world.run(team, within=30)
        return
    outcome = await world.run(team, within=30)
    assert outcome.status == "failed"
    assert "maximum handoff follow-up rounds (50)" in outcome.error["message"]


async def test_other_tools_of_the_response_run_before_the_pause(world):
    """team:HND-05"""
    from lattice import tool

    noted = []
    lead = spec(
        "lead",
        [turn(handoff("a"), {"type": "tool_use", "name": "note", "input": {}}), "done"],
        tools=[tool("note", "Note.", {"type": "object"}, lambda value: noted.append(1) or "noted")],
    )
    outcome = await world.run(world.team(lead, {"a": echo("a")}))
    assert noted == [1]
    user = next(event for event in outcome.events if event["type"] == "user")
    assert user["tool_use_result"][1]["content"] == "noted"
    assert outcome.text == "done"


async def test_the_pause_wins_over_a_tool_that_ends_the_turn(world):
    """The tool's output stays in the conversation. team:W-33 team:HND-07"""
    from lattice import tool

    finish = tool("finish", "Finish.", {"type": "object"}, lambda value: {"content": "over", "end_turn": True})

    def lead(request):
        if said(request).startswith("Team runtime update"):
            return str(
                [b["content"] for m in request.messages[1:3] for b in m["content"] if b["type"] == "tool_result"][1]
            )
        return turn(handoff("a"), {"type": "tool_use", "name": "finish", "input": {}})

    outcome = await world.run(world.team(spec("lead", lead, tools=[finish]), {"a": echo("a")}))
    assert outcome.text == "over"


async def test_the_turn_limit_does_not_count_against_a_pause(world):
    """team:HND-08"""
    lead = spec("lead", [turn(handoff("a")), "in time"], max_turns=1)
    outcome = await world.run(world.team(lead, {"a": echo("a")}))
    assert (outcome.status, outcome.text) == ("succeeded", "in time")


async def test_a_refused_handoff_does_not_pause(world):
    """team:HND-09"""
    lead = spec("lead", [turn(handoff("a", mode="shout")), lambda request: results(request)[0]])
    outcome = await world.run(world.team(lead, {"a": echo("a")}))
    assert outcome.text.startswith("Tool a failed:")
    assert outcome.mail["a"] == []


async def test_a_rejected_batch_sends_nothing_and_a_split_retry_works(world):
    """team:HND-16 team:HND-17"""

    def policy(context):
        agents = [call for call in context.tool_calls if call.kind == "agent_tool"]
        if len(agents) > 1:
            return {"allowed": False, "code": "one_at_a_time", "message": "one at a time"}
        return {"allowed": True}

    def lead(request):
        if said(request).startswith("Team runtime update"):
            return "done"
        if results(request):
            return turn(handoff("a"))
        return turn(handoff("a"), ask("a"))

    outcome = await world.run(world.team(spec("lead", lead, tool_batch_policy=policy), {"a": echo("a")}))
    assert outcome.text == "done"
    rejected = next(event for event in outcome.events if event["type"] == "user")["message"]["content"]
    assert [json.loads(block["content"])["code"] for block in rejected] == ["one_at_a_time"] * 2
    assert len(outcome.mail["a"]) == 1
