"""The engine over every run store: what a run may use, its members together, and what happens when it is spent."""

import asyncio

import pytest

from lattice import AbortError, team_member, tool
from lattice.runs import Budget
from lattice.testing import tool_use, turn
from tests.contracts.backends import TEAM
from tests.teams import ask, echo, handoff, model_of, said, spec, task_of, team_of

USAGE = {"input_tokens": 10, "cache_read_input_tokens": 30, "output_tokens": 10}


def crew(lead, members, **options):
    return team_of(lead, members, name=TEAM, **options)


def limited(**budget):
    return {"options": {"budget": budget}}


def calls_of(team):
    return model_of(team.lead).calls, [model_of(member.agent).calls for member in team.members]


async def test_a_run_within_its_budget_ends_as_ever_and_says_what_it_used(start):
    cluster = start(crew([turn(handoff("a"), usage=USAGE), turn("done", usage=USAGE)], {"a": [turn("a", usage=USAGE)]}))
    outcome = await cluster.run(**limited(max_model_calls=3, max_tokens=1_000, max_seconds=3_600))
    assert outcome["status"] == "succeeded"
    run = await cluster.store.get_run("run")
    assert (run.model_calls, run.tokens) == (3, 150)


async def test_without_a_budget_nothing_is_counted(start):
    cluster = start(crew([turn(handoff("a")), "done"], {"a": echo("a")}))
    await cluster.run()
    assert (await cluster.store.get_run("run")).model_calls == 0
    assert "draw" not in {name for process in cluster.processes for name in process.store.calls}


async def test_a_run_that_has_used_up_its_model_calls_fails_with_a_clear_code(start):
    cluster = start(crew([turn(handoff("a")), "never"], {"a": echo("a")}))
    outcome = await cluster.run(**limited(max_model_calls=2))
    assert outcome["status"] == "failed"
    assert outcome["error"]["code"] == "budget_exceeded"
    assert "2 of 2 model calls" in outcome["error"]["message"]
    assert calls_of(cluster.team) == (1, [1])


async def test_a_member_that_meets_the_end_of_the_budget_reports_it(start):
    def member(request):
        return turn(tool_use("look"), usage=USAGE)

    look = tool("look", "Look.", {"type": "object"}, lambda _input: "seen")
    team = crew([turn(handoff("a")), said], {"a": spec("a", member, tools=[look])})
    cluster = start(team)
    outcome = await cluster.run(**limited(max_model_calls=5))
    assert outcome["error"]["code"] == "budget_exceeded"
    assert calls_of(team) == (1, [4])
    (report,) = await cluster.store.inbox("manager", "all")
    assert report.metadata["error"]["code"] == "budget_exceeded"


async def test_tokens_are_input_cache_and_output_of_all(start):
    members = {name: spec(name, [turn(name, usage=USAGE)]) for name in ("a", "b")}
    cluster = start(crew([turn(handoff("a"), handoff("b"), usage=USAGE), "never"], members))
    outcome = await cluster.run(**limited(max_tokens=150))
    assert outcome["error"]["code"] == "budget_exceeded"
    assert "150 of 150 tokens" in outcome["error"]["message"]
    assert calls_of(cluster.team) == (1, [1, 1])


async def test_whoever_is_asked_draws_from_the_same_budget(start):
    cluster = start(crew([turn(ask("a")), "never"], {"a": echo("a")}))
    outcome = await cluster.run(**limited(max_model_calls=2))
    assert outcome["error"]["code"] == "budget_exceeded"
    assert calls_of(cluster.team) == (1, [1])


async def test_a_nested_team_draws_from_the_outermost_run(start):
    inner = team_of([turn(handoff("x")), "inner end"], {"x": echo("x")}, name="inner", budget={"max_model_calls": 1})
    outer = crew([turn(handoff("a")), "done"], {"a": team_member(name="a", role="executor", agent=inner)})
    cluster = start(outer)
    outcome = await cluster.run(**limited(max_model_calls=4))
    assert outcome["error"]["code"] == "budget_exceeded"
    assert (await cluster.store.get_run("run")).model_calls == 4
    assert model_of(inner.lead).calls == 2


async def test_the_limits_of_a_run_win_over_those_of_its_team(start):
    def lead(request):
        return "done" if said(request).startswith("Team runtime update") else turn(handoff("a"))

    cluster = start(crew(lead, {"a": echo("a")}, budget={"max_model_calls": 1}))
    assert (await cluster.run(run_id="own", **limited(max_model_calls=3)))["status"] == "succeeded"
    outcome = await cluster.run(run_id="of-the-team")
    assert outcome["error"]["code"] == "budget_exceeded"


@pytest.mark.parametrize("call", [handoff, ask])
async def test_the_lead_is_told_once_when_the_budget_nears_its_end(start, call):
    seen = []

    def lead(request):
        seen.append(str(request.messages[-1]["content"]))
        return turn(call("a")) if len(seen) < 3 else "done"

    cluster = start(crew(lead, {"a": echo("a")}))
    outcome = await cluster.run(**limited(max_model_calls=5))
    assert outcome["status"] == "succeeded"
    told = [number for number, text in enumerate(seen) if "Budget of this run" in text]
    assert told == [2]
    assert "4 of 5 model calls" in seen[2]


async def test_a_run_whose_time_is_up_fails_and_stops_whoever_works_for_it(start):
    stopped = asyncio.Event()

    async def member(request):
        try:
            await request.signal.wait()
        finally:
            stopped.set()

    cluster = start(crew([turn(handoff("a")), "never"], {"a": member}))
    outcome = await cluster.run(**limited(max_seconds=0.2))
    assert outcome["status"] == "failed"
    assert outcome["error"]["code"] == "deadline_exceeded"
    await asyncio.wait_for(stopped.wait(), 5)
    assert [state.message.status for state in await cluster.store.work_items("run")] == ["cancelled"]


async def test_a_lead_whose_time_is_up_is_stopped_in_its_model_call(start):
    async def lead(request):
        await request.signal.wait()
        raise AbortError

    outcome = await start(crew(lead, {"a": echo("a")})).run(**limited(max_seconds=0.2))
    assert (outcome["status"], outcome["error"]["code"]) == ("failed", "deadline_exceeded")


async def test_time_that_passed_before_a_takeover_counts(backend, start):
    cluster = start(crew(["never"], {"a": echo("a")}))
    await cluster.submit(**limited(max_seconds=600))
    taken = await cluster.store.take_run("run", "somebody", 1)
    await backend.pass_time(600_000)
    await cluster.store.hand_back(taken.lease)
    outcome = await asyncio.wait_for((await cluster.coordinator()).drive("run"), 10)
    assert outcome["error"]["code"] == "deadline_exceeded"


async def test_mail_between_members_is_paid_by_the_run_that_it_was_sent_in(start):
    def sender(request):
        if "Sent" in str(request.messages[-1]["content"]) or "tool_result" in str(request.messages[-1]["content"]):
            return "sent it"
        return turn(tool_use("team_send", {"to": "b", "content": "news"}))

    cluster = start(crew([turn(handoff("a")), "done"], {"a": sender, "b": lambda r: task_of(r)[:3]}))
    outcome = await cluster.run(**limited(max_model_calls=9))
    assert outcome["status"] in ("succeeded", "failed")
    run = await cluster.store.get_run("run")
    lead_calls, member_calls = calls_of(cluster.team)
    assert run.model_calls == lead_calls + sum(member_calls)


async def test_a_failed_run_goes_on_where_it_stopped_when_it_may_use_more(start):
    cluster = start(crew([turn(handoff("a")), "done"], {"a": echo("a")}))
    outcome = await cluster.run(**limited(max_model_calls=2))
    assert outcome["error"]["code"] == "budget_exceeded"
    assert await cluster.store.reopen_run("run") == "reopened"
    coordinator = next(process for process in cluster.processes if process.coordinator)
    again = await asyncio.wait_for(coordinator.drive("run"), 10)
    assert again["error"]["code"] == "budget_exceeded"
    assert calls_of(cluster.team) == (1, [1])
    assert await cluster.store.reopen_run("run", Budget(max_model_calls=3)) == "reopened"
    last = await asyncio.wait_for(coordinator.drive("run"), 10)
    assert (last["status"], last["result"]) == ("succeeded", "done")
    assert calls_of(cluster.team) == (2, [1])


async def test_a_conversation_that_is_too_large_is_not_gone_on_with(start):
    look = tool("look", "Look.", {"type": "object"}, lambda _input: "x" * 3_000)
    member = spec("a", lambda _request: turn(tool_use("look")), tools=[look])
    cluster = start(crew([turn(handoff("a")), said], {"a": member}), max_conversation_bytes=20_000)
    outcome = await cluster.run()
    assert "Error code: conversation_full" in outcome["result"]
    assert "the limit is 20000" in outcome["result"]
    assert model_of(member).calls < 10


async def test_a_summary_of_a_long_conversation_is_a_model_call_too(start):
    big = {"input_tokens": 500, "output_tokens": 1}
    look = tool("look", "Look.", {"type": "object"}, lambda _input: "seen")

    def member(request):
        if not request.tools:
            return turn("the summary", usage={"input_tokens": 40, "output_tokens": 2})
        return turn(tool_use("look"), usage=big) if len(request.messages) < 3 else turn("done", usage=USAGE)

    agent = spec("a", member, tools=[look], auto_compact={"threshold_tokens": 100, "keep_recent_messages": 2})
    cluster = start(crew([turn(handoff("a")), said], {"a": agent}))
    await cluster.run(**limited(max_model_calls=5, max_tokens=100_000))
    run = await cluster.store.get_run("run")
    lead_calls, member_calls = calls_of(cluster.team)
    assert any(not request.tools for request in model_of(agent).requests)
    assert run.model_calls == lead_calls + sum(member_calls)
    assert run.tokens == sum(run.total_usage.values())
