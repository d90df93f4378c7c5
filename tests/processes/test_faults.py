"""Processes that stop, die, or stand still, and a Redis that forgets or hangs up: work goes on, and nothing twice."""

import asyncio
import json
import signal
import time

import pytest

from lattice.redis.keys import Keys
from tests.chaos.apps import MEMBERS
from tests.chaos.checker import check
from tests.chaos.faults import FAULT, SIGNAL
from tests.chaos.matrix import story_of, team_of_processes
from tests.processes.commands import eventually
from tests.processes.servers import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.processes, pytest.mark.timeout(120)]

ZOMBIES = [
    ("worker", "alpha", "tool_begun"),
    ("worker", "alpha", "before_answer"),
    ("worker", "alpha", "before_settle"),
    ("worker", "alpha", "after_claim"),
    ("worker", "beta", "before_hand_off"),
    ("coordinator", None, "after_model"),
    ("coordinator", None, "before_hand_off"),
    ("coordinator", None, "before_finish_run"),
]


def start_all(processes, *, without=()):
    """A coordinator (None) and a worker for each member that plays a part, but for some."""
    kinds = [kind for kind in (None, *MEMBERS[:3]) if kind not in without]
    return {kind: processes.start("worker" if kind else "coordinator", kind) for kind in kinds}


async def submit_all(client, numbers, kind="plain"):
    run_ids = await asyncio.gather(*(client.submit(f"run {number} {kind}") for number in numbers))
    return dict(zip(run_ids, numbers, strict=True))


async def succeed(client, run_ids, timeout=60):
    results = await asyncio.gather(*(client.result(run_id, timeout=timeout) for run_id in run_ids))
    assert {result["status"] for result in results} == {"succeeded"}


async def test_a_process_that_was_frozen_past_its_lease_stops_that_work_and_goes_on_with_the_next(redis_url, tmp_path):
    """Also: a stalled item finished by a worker that had lost its lease."""
    problems = await asyncio.gather(
        *(zombie(redis_url, tmp_path / f"z{n}", f"z{n}", *one) for n, one in enumerate(ZOMBIES)), return_exceptions=True
    )
    assert {str(one): text for one, text in zip(ZOMBIES, problems, strict=True) if text} == {}


async def zombie(redis_url, folder, team, role, member, point):
    async with team_of_processes(redis_url, folder, team) as (processes, client, redis):
        frozen = processes.start(role, member, **{FAULT: point, SIGNAL: "SIGSTOP"})
        start_all(processes, without=(member,))
        first = await client.submit("run 1 plain")
        await eventually(lambda: frozen.frozen)
        since = time.time()
        successor = processes.start(role, member)
        await succeed(client, [first])
        deaf = [(frozen.pid, since, time.time())]
        frozen.thaw()
        await eventually(lambda: "lost" in frozen.log, bound=10)
        successor.kill()
        await successor.ended()
        second = await client.submit("run 2 plain")
        await succeed(client, [second])
        findings = check(await story_of(redis, team, folder, {first: 1, second: 2}, deaf=deaf))
        return [text for _, text in findings.problems]


async def test_poison_becomes_a_dead_letter_and_its_sender_is_told(redis_url, tmp_path):
    environment = {"LATTICE_MAX_ATTEMPTS": "2"}
    async with team_of_processes(redis_url, tmp_path, "poison", environment=environment) as (processes, client, redis):
        start_all(processes)
        run_id = await client.submit("run 1 poison")
        for _ in range(2):
            assert await processes.worker("delta").ended() == 13
        await succeed(client, [run_id])
        ((_, letter),) = await redis.xrange(Keys("poison").dead)
        assert letter[b"member"] == b"delta"
        assert b"lost 2 times" in letter[b"reason"]
        story = await story_of(redis, "poison", tmp_path, {run_id: 1})
        assert check(story).problems == []
        (victim,) = [m for m in story.world.messages.values() if m["id"] == letter[b"id"].decode()]
        report = story.world.messages[victim["report"]]
        assert json.loads(report["metadata"])["error"]["code"] == "worker_lost"
        assert sum(line["what"] == "tool_start" and line["tool"] == "poison" for line in story.record) == 2


async def test_of_two_workers_one_dies_and_the_other_does_its_work(redis_url, tmp_path):
    """Also: one dead worker makes live ones refuse work."""
    async with team_of_processes(redis_url, tmp_path, "pair") as (processes, client, redis):
        start_all(processes)
        processes.worker("alpha", **{FAULT: "tool_begun:3"})
        accepted = await submit_all(client, range(20))
        await succeed(client, accepted)
        findings = check(await story_of(redis, "pair", tmp_path, accepted))
        assert findings.problems == []


async def flush_scripts(redis, _keys):
    await redis.script_flush()


async def hang_up(redis, _keys):
    await redis.client_kill_filter(_type="normal", skipme=True)


async def destroy_groups(redis, keys):
    for member in MEMBERS[:3]:
        if await redis.exists(keys.mailbox(member)):
            await redis.xgroup_destroy(keys.mailbox(member), "workers")


@pytest.mark.parametrize("disturb", [flush_scripts, hang_up, destroy_groups])
async def test_work_goes_on_while_redis_forgets_or_hangs_up(redis_url, tmp_path, disturb):
    """known-bug:34 known-bug:39"""
    team = disturb.__name__
    async with team_of_processes(redis_url, tmp_path, team, lease="3s") as (processes, client, redis):
        started = start_all(processes)
        accepted = await submit_all(client, range(12))
        done = asyncio.gather(*(client.result(run_id, timeout=60) for run_id in accepted))
        for _ in range(6):
            await disturb(redis, Keys(team))
            await asyncio.wait([done], timeout=0.5)
        assert {result["status"] for result in await done} == {"succeeded"}
        more = await submit_all(client, [100])
        await succeed(client, more)
        assert all(process.alive for process in started.values())
        findings = check(await story_of(redis, team, tmp_path, accepted | more))
        assert findings.problems == []


@pytest.fixture
def own_redis(tmp_path):
    """A server of the test's own, with an append-only file."""
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield server
    server.stop()


async def test_a_redis_that_is_restarted_loses_nothing(own_redis, tmp_path):
    """known-bug:39"""
    async with team_of_processes(own_redis.url, tmp_path, "again", lease="2s") as (processes, client, redis):
        started = start_all(processes)
        accepted = await submit_all(client, range(30))
        keys = Keys("again")
        for ended in (3, 12):
            await eventually(lambda ended=ended: has_ended(redis, keys, ended))
            await asyncio.to_thread(own_redis.stop)
            await asyncio.to_thread(own_redis.start)
            await redis.connection_pool.disconnect()
        await succeed(client, accepted)
        assert all(process.alive for process in started.values())
        findings = check(await story_of(redis, "again", tmp_path, accepted))
        assert findings.problems == []


async def has_ended(redis, keys, count):
    return await redis.zcard(keys.retention) >= count


async def test_a_redis_without_memory_is_told_of_and_waited_for(own_redis, tmp_path):
    async with team_of_processes(own_redis.url, tmp_path, "full") as (processes, client, redis):
        started = start_all(processes)
        accepted = await submit_all(client, range(20))
        await eventually(lambda: has_ended(redis, Keys("full"), 1))
        await redis.config_set("maxmemory", 1)
        await eventually(lambda: any("no memory left" in process.log for process in started.values()))
        await redis.config_set("maxmemory", 0)
        await succeed(client, accepted)
        findings = check(await story_of(redis, "full", tmp_path, accepted))
        assert findings.problems == []


async def test_a_socket_timeout_in_the_url_that_is_shorter_than_a_wait_disturbs_nobody(redis_url, tmp_path):
    """known-bug:36"""
    url = f"{redis_url}?socket_timeout=1"
    async with team_of_processes(url, tmp_path, "patient") as (processes, client, redis):
        started = start_all(processes)
        await eventually(lambda: has_waited(redis, 3))
        run_id = await client.submit("run 1 plain")
        await succeed(client, [run_id])
        assert [process.log for process in started.values() if '"warning"' in process.log] == []


async def has_waited(redis, seconds):
    """Whether four processes have waited so long in one blocking call."""
    waiting = [c for c in await redis.client_list() if c["cmd"] == "blpop" and int(c["idle"]) >= seconds]
    return len(waiting) >= 4


@pytest.mark.parametrize("kind", ["block", "hold_gil"])
async def test_a_tool_that_blocks_the_loop_for_three_leases_runs_once(redis_url, tmp_path, kind):
    """known-bug:30. A call into C that stops even the thread which renews leases may lose them; then it is fenced."""
    environment = {"CHAOS_BLOCK": "3"}
    async with team_of_processes(redis_url, tmp_path, kind, environment=environment) as (processes, client, redis):
        start_all(processes)
        processes.worker("alpha")
        run_id = await client.submit(f"run 1 {kind}")
        await succeed(client, [run_id])
        story = await story_of(redis, kind, tmp_path, {run_id: 1})
        assert check(story).problems == []
        starts = [line for line in story.record if line["what"] == "tool_start" and line["tool"] == kind]
        work = [m for m in story.world.work_of(run_id) if m["member"] == "alpha"]
        assert len(starts) == len(work) == 2
        if kind == "block":
            assert [m["attempt"] for m in work] == ["1", "1"]


async def test_sigterm_leaves_no_work_behind_that_is_marked_as_running(redis_url, tmp_path):
    """What does not fit into the drain time is handed back, and somebody else goes on at once."""
    environment = {"CHAOS_LATENCY": "0.2-0.2", "LATTICE_DRAIN_TIMEOUT": "0s"}
    async with team_of_processes(redis_url, tmp_path, "left", lease="60s", environment=environment) as (
        processes,
        client,
        redis,
    ):
        started = start_all(processes)
        accepted = await submit_all(client, range(5))
        await eventually(lambda: has_attempts(redis, Keys("left"), 3))
        for process in started.values():
            process.send(signal.SIGTERM)
        for process in started.values():
            assert await process.ended() == 0
        for member in MEMBERS[:3]:
            assert await redis.hget(Keys("left").counts(member), "processing") in (None, b"0")
        start_all(processes)
        await succeed(client, accepted)  # well within the lease of a minute
        findings = check(await story_of(redis, "left", tmp_path, accepted))
        assert findings.problems == []


async def has_attempts(redis, keys, count):
    return int(await redis.hget(keys.counts("alpha"), "processing") or 0) >= count


async def test_processes_whose_clocks_differ_by_ten_minutes_work_together(redis_url, tmp_path):
    """A worker whose clock is ahead, and a coordinator whose clock is behind, die: they are missed after a lease."""
    async with team_of_processes(redis_url, tmp_path, "clocks") as (processes, client, redis):
        for member in MEMBERS[1:3]:
            processes.worker(member, CHAOS_CLOCK="-600")
        ahead = processes.worker("alpha", CHAOS_CLOCK="600", **{FAULT: "tool_begun:2"})
        behind = processes.coordinator(CHAOS_CLOCK="-600", **{FAULT: "after_hand_off:4"})
        accepted = await submit_all(client, range(12))
        assert (await behind.ended(), await ahead.ended()) == (-9, -9)
        processes.coordinator(CHAOS_CLOCK="600")
        processes.worker("alpha", CHAOS_CLOCK="-600")
        await succeed(client, accepted)
        findings = check(await story_of(redis, "clocks", tmp_path, accepted))
        assert findings.problems == []


async def test_a_run_that_is_due_after_several_leases_is_run_once(redis_url, tmp_path):
    """known-bug:33"""
    async with team_of_processes(redis_url, tmp_path, "due", lease="0.5s") as (processes, client, redis):
        start_all(processes)
        for _ in range(3):
            processes.coordinator()
        run_id = await client.submit("run 1 plain", in_=3)
        await succeed(client, [run_id])
        story = await story_of(redis, "due", tmp_path, {run_id: 1})
        assert check(story).problems == []
        assert story.world.runs[run_id]["epoch"] == "1"
