"""The engine over every run store: work that is tried again after failures that may pass."""

import asyncio

import pytest

from lattice import AbortError, team_member
from lattice.errors import APIError, ToolPermissionDeniedError
from lattice.testing import turn
from tests.cluster import until
from tests.contracts.backends import TEAM
from tests.teams import echo, handoff, model_of, said, spec, team_of

BUSY = APIError("busy", status=529, code="overloaded_error", retryable=True)
SOON = {"attempts": 3, "first_delay": 0.001}


def crew(**members):
    return team_of([turn(*(handoff(name) for name in members)), said], members, name=TEAM)


def member(name, script, **options):
    return team_member(name=name, role="executor", agent=spec(name, script), **options)


async def ended(backend, cluster, **options):
    """Run to the end while time passes."""
    running = asyncio.create_task(cluster.run(**options))
    while not running.done():
        await backend.pass_time(100)
        await asyncio.wait({running}, timeout=0.02)
    return running.result()


async def retries_of(cluster, run_id="run"):
    return [state.retries for state in await cluster.store.work_items(run_id)]


async def test_a_member_is_tried_again_after_a_failure_that_may_pass(backend, start):
    """team:W-35"""
    cluster = start(crew(a=member("a", [BUSY, "second try"], retry=SOON)))
    outcome = await ended(backend, cluster)
    assert outcome["result"].endswith("second try")
    assert await retries_of(cluster) == [1]
    told = [event["subtype"] for event in await cluster.events() if event["type"] == "team_message"]
    assert told == ["sent", "claimed", "retrying", "claimed", "done", "replied"]


async def test_what_was_done_before_the_failure_is_not_done_again(backend, start):
    """Each try goes on in the same conversation: the task entered it once."""
    cluster = start(crew(a=member("a", [BUSY, BUSY, "third try"], retry=SOON)))
    outcome = await ended(backend, cluster)
    assert outcome["result"].endswith("third try")
    asked = model_of(cluster.team.members[0].agent).requests
    assert [len(request.messages) for request in asked] == [1, 1, 1]


async def test_a_failure_is_reported_when_the_tries_are_used_up(backend, start):
    cluster = start(crew(a=member("a", [BUSY, BUSY, BUSY, "too late"], retry=SOON)))
    outcome = await ended(backend, cluster)
    assert "Error code: api_error" in outcome["result"]
    assert await retries_of(cluster) == [2]


@pytest.mark.parametrize(
    "failure",
    [
        APIError("no such model", status=404),
        APIError("who are you", status=401),
        ToolPermissionDeniedError({"reason": "not there"}),
        RuntimeError("a bug"),
    ],
)
async def test_a_failure_that_stays_is_reported_at_once(backend, start, failure):
    cluster = start(crew(a=member("a", [failure, "never"], retry=SOON)))
    outcome = await ended(backend, cluster)
    assert "failed" in outcome["result"]
    assert await retries_of(cluster) == [0]


async def test_waiting_for_a_retry_takes_no_place(backend, start):
    replies = iter([BUSY, "first", "second"])

    def script(_request):
        return next(replies)

    both = team_of(
        [turn(handoff("a", "one"), handoff("a", "two")), said],
        {"a": member("a", script, retry={"attempts": 2, "first_delay": 3_600})},
        name=TEAM,
    )
    cluster = start(both)
    running = asyncio.create_task(cluster.run())

    async def other_is_done():
        return [str(state.message.status) for state in await cluster.store.work_items("run")] == ["pending", "done"]

    await until(other_is_done)
    (waiting, _) = await cluster.store.work_items("run")
    assert (waiting.owner, waiting.lease_until) == (None, None)
    await backend.pass_time(3_600_000)
    assert (await asyncio.wait_for(running, 10))["status"] == "succeeded"


async def test_another_worker_takes_the_retry_when_the_first_one_died(backend, start):
    cluster = start(crew(a=member("a", [BUSY, "second try"], retry={"attempts": 2, "first_delay": 3_600})))
    first = await cluster.worker("a")
    coordinator = await cluster.coordinator()
    await cluster.submit()
    running = coordinator.drive("run")

    async def put_off():
        return await retries_of(cluster) == [1]

    await until(put_off)
    await first.kill()
    await cluster.worker("a")
    await backend.pass_time(3_600_000)
    assert (await asyncio.wait_for(running, 10))["result"].endswith("second try")


async def test_a_deadline_counts_for_each_try(backend, start):
    tries = []

    async def slow_once(request):
        tries.append(1)
        if len(tries) > 1:
            return "in time"
        await request.signal.wait()
        raise AbortError

    cluster = start(crew(a=member("a", slow_once, retry=SOON, timeout_ms=50)))
    assert (await ended(backend, cluster))["result"].endswith("in time")


async def test_a_team_as_member_goes_on_where_its_run_failed(backend, start):
    inner = team_of([turn(handoff("x", "inner work")), BUSY, "inner end"], {"x": echo("x")}, name="inner")
    outer = team_of(
        [turn(handoff("a")), said], {"a": team_member(name="a", role="executor", agent=inner, retry=SOON)}, name=TEAM
    )
    cluster = start(outer)
    assert (await ended(backend, cluster))["result"].endswith("inner end")
    assert model_of(inner.lead).calls == 3
