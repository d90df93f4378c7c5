"""Blocking waits on a real server, through a proxy that breaks."""

import asyncio

import pytest

from lattice.errors import StoreError
from lattice.redis.connection import StoreUnreachableError, open_redis
from lattice.redis.run_store import RedisRunStore
from lattice.runs import RunStatus
from tests.contracts.work import LEASE, handed_off, item, started_run, step
from tests.redis.proxy import Proxy


@pytest.fixture
async def proxy(redis_url):
    async with Proxy(redis_url) as proxy:
        yield proxy


@pytest.fixture
async def shaky(proxy):
    client = open_redis(proxy.url)
    store = RedisRunStore(client, "crew")
    yield store
    await store.close()
    await client.aclose()


async def blocked_clients(redis_client, number):
    """Wait until so many clients block."""
    async with asyncio.timeout(10):
        while (await redis_client.info("clients"))["blocked_clients"] != number:
            await asyncio.sleep(0.005)


async def test_one_message_wakes_one_worker(store, redis_client):
    waiting = [asyncio.create_task(store.await_claims("backend", "w", LEASE, 1, 20_000)) for _ in range(3)]
    await blocked_clients(redis_client, 3)
    await handed_off(store, item())
    done, still = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    await blocked_clients(redis_client, 2)
    assert (len(done), len(still)) == (1, 2)
    for task in still:
        task.cancel()
    await asyncio.gather(*still, return_exceptions=True)


async def test_a_cancelled_wait_gives_its_connection_up(store, redis_client):
    for _ in range(3):
        waiting = asyncio.create_task(store.await_claims("backend", "w", LEASE, 1, 20_000))
        await blocked_clients(redis_client, 1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await blocked_clients(redis_client, 0)
    await handed_off(store, item())
    assert len(await store.await_claims("backend", "w", LEASE, 1, 5_000)) == 1


async def test_a_wait_that_loses_its_connection_says_so_at_once_and_the_next_one_works(shaky, proxy, redis_client):
    waiting = asyncio.create_task(shaky.wait_for_signals("lead-1", 20_000))
    await blocked_clients(redis_client, 1)
    proxy.cut()
    with pytest.raises(StoreUnreachableError):
        await waiting
    await redis_client.rpush(shaky.keys.signals("lead-1"), "batch:x")
    assert await shaky.wait_for_signals("lead-1", 5_000) == ["batch:x"]


async def test_a_server_that_went_silent_is_noticed(shaky, proxy, monkeypatch):
    assert await shaky.wait_for_signals("p", 1) == []
    monkeypatch.setattr("lattice.redis.base._MARGIN", 0.1)
    proxy.silent = True
    with pytest.raises(StoreUnreachableError, match="BLPOP"):
        await shaky.wait_for_signals("p", 50)


async def test_a_wait_for_mail_whose_reply_was_lost_gets_what_it_had_claimed(shaky, proxy, store, redis_client):
    waiting = asyncio.create_task(shaky.await_claims("backend", "w", LEASE, 1, 20_000))
    await blocked_clients(redis_client, 1)
    proxy.swallow, proxy.swallow_any = 1, True
    await handed_off(store, item())
    (claim,) = await waiting
    assert (claim.attempt, proxy.swallow) == (1, 0)
    assert await store.claim("backend", "other", LEASE) == []


async def test_a_wait_for_mail_survives_a_lost_connection_and_a_lost_script(shaky, proxy, store, redis_client):
    waiting = asyncio.create_task(shaky.await_claims("backend", "w", LEASE, 1, 20_000))
    await blocked_clients(redis_client, 1)
    proxy.cut()
    assert await waiting == []
    waiting = asyncio.create_task(shaky.await_claims("backend", "w", LEASE, 1, 20_000))
    await blocked_clients(redis_client, 1)
    await redis_client.script_flush()
    await handed_off(store, item())
    assert len(await waiting) == 1


async def test_a_key_of_the_wrong_type_is_a_store_error(store, redis_client):
    await redis_client.set(store.keys.doorbell("backend"), "x")
    with pytest.raises(StoreError, match="WRONGTYPE"):
        await store.await_claims("backend", "w", LEASE, 1, 50)


async def test_a_refused_doorbell_holds_no_work_up(store, redis_client):
    await handed_off(store, item())
    await redis_client.set(store.keys.doorbell("backend"), "x")
    assert len(await store.await_claims("backend", "w", LEASE, 1, 50)) == 1


async def test_all_signals_come_at_once(store, redis_client):
    await redis_client.rpush(store.keys.signals("p"), *[f"batch:{n}" for n in range(50)])
    assert await store.wait_for_signals("p", 1_000) == [f"batch:{n}" for n in range(50)]
    assert await store.wait_for_signals("p", 10) == []


async def test_whoever_waits_for_the_end_of_a_run_does_not_follow_it(store, redis_client, keys):
    lease = await started_run(store)
    tip = await store.last_event("run-1")
    waiting = asyncio.create_task(store.wait_for_events("run-1", tip, 20_000))
    await blocked_clients(redis_client, 1)
    assert await redis_client.exists(keys.followers("run-1")) == 0
    await store.finish_run(lease, RunStatus.SUCCEEDED, {}, step())
    assert await waiting is True
    tip = await store.last_event("run-1")
    assert await store.wait_for_events("run-1", tip, 10) is False


async def test_long_streams_are_read_page_by_page(store):
    lease = await started_run(store)
    for n in range(5):
        await store.append(lease, step(events=tuple(b'{"n":%d}' % (n * 500 + m) for m in range(500))))
    seen, after = [], "0"
    while page := await store.read_events("run-1", after):
        seen += [event["n"] for _, event in page]
        after = page[-1][0]
    assert seen == list(range(2500))


async def test_the_members_a_run_waits_for_are_known(store):
    lease, _ = await handed_off(store, item("backend"), item("qa"), item("qa"))
    assert await store.waiting_members("run-1") == ["backend", "qa"]
    (claim,) = await store.claim("backend", "worker-1", LEASE)
    assert await store.waiting_members("run-1") == ["backend", "qa"]
    await store.cancel_run("run-1", "x")
    assert await store.waiting_members("run-1") == []


async def test_a_run_starts_inside_a_foreign_transaction(store, redis_client, keys):
    from tests.contracts.work import run_record

    source, names, args = store.start_run_call(run_record())
    async with redis_client.pipeline(transaction=True) as pipe:
        pipe.eval(source, len(names), *names, *args)
        pipe.set("beside", "1")
        assert (await pipe.execute())[0] == b"started"
    assert (await store.get_run("run-1")).task == "build it"


async def test_a_store_whose_connections_break_at_every_step_loses_and_repeats_nothing(shaky, proxy, store):
    """Each reply of a whole run is lost once."""
    lease = await started_run(store)
    script_calls = 0

    async def losing(call):
        nonlocal script_calls
        script_calls += 1
        await store.counts("backend")
        await shaky.counts("backend")
        proxy.swallow = 1
        result = await call
        proxy.swallow = 0
        return result

    from tests.contracts.work import batch, outcome

    word, _ = await losing(shaky.hand_off(lease, batch(item(), item()), step("run-1", b"receipts")))
    assert word in ("accepted", "exists")
    while claims := await losing(shaky.claim("backend", "w", LEASE)):
        (claim,) = claims
        name = claim.item.conversation
        assert await losing(shaky.append(claim.lease, step(name, b"task", once=claim.lease.id))) == "written"
        settled = await losing(shaky.settle(claim.lease, outcome("x"), step(name, b"answer", usage={"n": 1})))
        assert settled.word == "settled"
        assert claim.attempt == 1
        assert (await store.load(name)).messages == (b"task", b"answer")
    word, reports = await losing(shaky.resume(lease, "batch-1"))
    assert (word, len(reports)) == ("complete", 2)
    assert await losing(shaky.finish_run(lease, RunStatus.SUCCEEDED, {}, step("run-1", b"end"))) == "finished"
    assert (await store.load("run-1")).messages == (b"receipts", b"end")
    assert (await store.get_run("run-1")).total_usage == {"n": 2}
    assert await store.counts("backend") == {"done": 2}
    assert await store.counts("manager") == {"pending": 2}
    assert script_calls == 10
