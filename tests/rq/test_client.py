import asyncio

import pytest
from opentelemetry import trace

from lattice.client import LatticeClient
from lattice.errors import OptionError, SizeLimitError
from lattice.errors import TimeoutError as RunTimeoutError
from lattice.run_store import StoreOptions
from lattice.runs import ProcessInfo, RunStatus, Step
from tests.rq.house import until

pytestmark = pytest.mark.redis


@pytest.fixture
async def client(redis_url):
    async with LatticeClient(team="trio", redis_url=redis_url) as client:
        yield client


@pytest.fixture
def store(client):
    return client._store


async def take(store, run_id):
    return (await store.take_run(run_id, "coordinator-1", 30_000)).lease


async def finish(store, lease, status=RunStatus.SUCCEEDED, *, error=None, events=()):
    result = {"type": "result", "subtype": "success", "result": "the answer", "usage": {"input_tokens": 3}}
    step = Step(conversation=lease.id, events=tuple(events), usage={"input_tokens": 7})
    return await store.finish_run(lease, status, result, step, error)


async def test_the_result_is_what_the_run_ended_with(client, store):
    run_id = await client.submit("do it")
    waiting = asyncio.create_task(client.result(run_id))
    lease = await take(store, run_id)
    assert await finish(store, lease) == "finished"
    assert await asyncio.wait_for(waiting, 5) == {
        "run_id": run_id,
        "status": "succeeded",
        "result": "the answer",
        "usage": {"input_tokens": 7},
        "error": None,
    }
    assert (await client.result(run_id))["result"] == "the answer"


async def test_a_run_belongs_to_the_trace_that_it_is_submitted_in(client):
    here = trace.SpanContext(int("a" * 32, 16), int("b" * 16, 16), is_remote=False, trace_flags=trace.TraceFlags(1))
    with trace.use_span(trace.NonRecordingSpan(here)):
        inside = await client.submit("do it")
        named = await client.submit("do it", traceparent=f"00-{'c' * 32}-{'d' * 16}-01")
    outside = await client.submit("do it")
    runs = [await client.run(run_id) for run_id in (inside, named, outside)]
    assert [run.traceparent for run in runs] == [
        f"00-{'a' * 32}-{'b' * 16}-01",
        f"00-{'c' * 32}-{'d' * 16}-01",
        None,
    ]


async def test_many_results_are_waited_for_on_few_connections(client, store, redis_url):
    runs = await asyncio.gather(*(client.submit(f"task {n}") for n in range(300)))
    waiting = [asyncio.create_task(client.result(run_id)) for run_id in runs]
    await until(lambda: len(client._ends._waiting) == 300)
    clients = await client._client.client_list()
    assert len(clients) < 40
    for run_id in runs:
        await finish(store, await take(store, run_id))
    outcomes = await asyncio.wait_for(asyncio.gather(*waiting), 20)
    assert [outcome["run_id"] for outcome in outcomes] == runs


async def test_a_run_that_is_waited_for_later_does_not_wait_for_the_read_under_way(client, store):
    first, second = await client.submit("one"), await client.submit("two")
    waiting = [asyncio.create_task(client.result(first))]
    await until(lambda: client._ends._blocked is not None)
    waiting.append(asyncio.create_task(client.result(second)))
    await until(lambda: len(client._ends._reading) == 2)
    await finish(store, await take(store, second))
    assert (await asyncio.wait_for(waiting[1], 3))["run_id"] == second
    waiting[0].cancel()


async def test_a_result_that_does_not_come_in_time_leaves_the_run_alone(client):
    run_id = await client.submit("do it")
    with pytest.raises(RunTimeoutError, match="it goes on"):
        await client.result(run_id, timeout=0.05)
    assert (await client.run(run_id)).status is RunStatus.QUEUED


async def test_waiting_survives_killed_connections(client, store, redis_url):
    run_id = await client.submit("do it")
    waiting = asyncio.create_task(client.result(run_id))
    await until(lambda: client._ends._blocked is not None)
    for _ in range(3):
        await store._lane.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    lease = await take(store, run_id)
    await finish(store, lease)
    assert (await asyncio.wait_for(waiting, 10))["status"] == "succeeded"


async def test_events_come_once_from_any_offset_and_end_with_the_run(client, store):
    run_id = await client.submit("do it")
    lease = await take(store, run_id)
    seen = []

    async def follow(after="0"):
        async for offset, event in client.events(run_id, after):
            seen.append((offset, event["type"]))

    following = asyncio.create_task(follow())
    await store.append(lease, Step(conversation=run_id, events=(b'{"type":"assistant"}',)))
    await until(lambda: len(seen) == 1)
    await finish(store, lease, events=(b'{"type":"result"}',))
    await asyncio.wait_for(following, 5)
    assert [kind for _, kind in seen] == ["assistant", "result"]
    offset = seen[0][0]
    seen.clear()
    await asyncio.wait_for(follow(offset), 5)
    assert [kind for _, kind in seen] == ["result"]
    offset = seen[0][0]
    seen.clear()
    await asyncio.wait_for(follow(offset), 5)
    assert seen == []


async def test_a_reader_that_comes_too_late_is_told_how_many_events_are_gone(redis_url):
    async with LatticeClient(team="trio", redis_url=redis_url, options=StoreOptions(max_events=50)) as client:
        store = client._store
        run_id = await client.submit("do it")
        lease = await take(store, run_id)
        await finish(store, lease, events=[b'{"type":"assistant","n":%d}' % n for n in range(500)])
        (_, gap), *kept = [entry async for entry in client.events(run_id)]
        assert gap == {"type": "events_dropped", "dropped": kept[0][1]["n"]}
        assert gap["dropped"] > 0
        assert [event["n"] for _, event in kept] == list(range(gap["dropped"], 500))
        assert [event["n"] async for _, event in client.events(run_id, kept[0][0])] == list(range(kept[1][1]["n"], 500))


async def test_events_of_a_run_that_failed_end_with_its_status(client, store):
    run_id = await client.submit("do it")
    await finish(store, await take(store, run_id), RunStatus.FAILED, error={"message": "broken"})
    events = [event async for _, event in client.events(run_id)]
    assert events[-1] == {"type": "run_ended", "status": "failed"}
    assert (await client.result(run_id))["error"] == {"message": "broken"}


async def test_a_failed_run_that_rq_will_try_again_has_not_ended(client, store):
    run_id = await client.submit("do it", retry=1)
    await finish(store, await take(store, run_id), RunStatus.FAILED, error={"message": "broken"})
    with pytest.raises(RunTimeoutError):
        await client.result(run_id, timeout=0.1)
    assert await store.reopen_run(run_id) == "reopened"
    waiting = asyncio.create_task(client.result(run_id))
    await finish(store, await take(store, run_id))
    assert (await asyncio.wait_for(waiting, 10))["status"] == "succeeded"


async def test_cancelling_a_queued_run_takes_it_out_of_rqs_queue(client):
    run_id = await client.submit("do it")
    assert await client.cancel(run_id, "changed my mind") == "cancelled"
    assert await client.cancel(run_id) == "ended"
    assert await client._client.llen("rq:queue:lattice-trio") == 0
    assert await client._client.hget(f"rq:job:{run_id}", "status") == b"canceled"
    outcome = await client.result(run_id)
    assert outcome["status"] == "cancelled"
    assert outcome["error"]["message"] == "changed my mind"


async def test_a_run_that_does_not_exist_is_an_error(client):
    for ask in (client.run, client.result, client.cancel, client.unattended):
        with pytest.raises(OptionError, match="there is no run 'nope'"):
            await ask("nope")
    with pytest.raises(OptionError):
        [event async for event in client.events("nope")]


async def test_what_cannot_be_submitted_writes_nothing(redis_url):
    options = StoreOptions(max_message_bytes=10)
    async with LatticeClient(team="trio", redis_url=redis_url, options=options) as client:
        with pytest.raises(SizeLimitError):
            await client.submit("x" * 11)
        for task, arguments in [("", {}), ("x", {"id": " "}), ("x", {"retry": -1}), ("x", {"in_": -5})]:
            with pytest.raises(OptionError):
                await client.submit(task, **arguments)
        assert await client._client.dbsize() == 0


async def test_one_key_is_one_run_for_all_teams_apart(client, redis_url):
    first = await client.submit("do it", id="order-17")
    assert await client.submit("do it", id="order-17") == first
    async with LatticeClient(team="other", redis_url=redis_url) as other:
        assert await other.submit("do it", id="order-17") != first
    assert [run.id for run in await client.runs()] == [first]


async def test_a_lost_reply_does_not_submit_twice(client):
    execute = client._redis.pipeline().__class__.execute
    lost = []

    async def lose_the_first(self, *args, **kwargs):
        replies = await execute(self, *args, **kwargs)
        if not lost:
            lost.append(replies)
            raise ConnectionError("the reply is lost")
        return replies

    client._redis.pipeline().__class__.execute = lose_the_first
    try:
        run_id = await client.submit("do it")
    finally:
        client._redis.pipeline().__class__.execute = execute
    assert lost
    assert [run.id for run in await client.runs()] == [run_id]
    assert await client._client.lrange("rq:queue:lattice-trio", 0, -1) == [run_id.encode()]


async def test_a_run_names_whom_it_waits_for(client, store):
    run_id = await client.submit("do it")
    assert await client.unattended(run_id) == ["coordinator"]
    info = ProcessInfo(id="c", role="coordinator", host="h", pid=1)
    await store.heartbeat(info, 60_000)
    assert await client.unattended(run_id) == []
    assert [process.id for process in await client.processes()] == ["c"]
    await client.cancel(run_id)
    await store.forget_process("c")
    assert await client.unattended(run_id) == []


async def test_who_may_not_break_off_reads_still_gets_results(redis_url, redis_client):
    await redis_client.execute_command(
        "ACL", "SETUSER", "plain", "on", ">secret", "~*", "&*", "+@all", "-client|id", "-client|unblock"
    )
    try:
        url = redis_url.replace("redis://", "redis://plain:secret@")
        async with LatticeClient(team="trio", redis_url=url) as client:
            runs = [await client.submit(f"task {n}") for n in range(3)]
            waiting = [asyncio.create_task(client.result(run_id)) for run_id in runs]
            for run_id in runs:
                await finish(client._store, await take(client._store, run_id))
            assert len(await asyncio.wait_for(asyncio.gather(*waiting), 10)) == 3
    finally:
        await redis_client.execute_command("ACL", "DELUSER", "plain")
