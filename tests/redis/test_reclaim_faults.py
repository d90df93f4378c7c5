"""Redis fails at the very moment at which the work of the dead is freed: nothing is lost, nothing is freed twice."""

import asyncio

import pytest

from lattice.errors import StoreError
from lattice.redis.connection import open_redis
from lattice.redis.run_store import RedisRunStore
from lattice.run_store import StoreOptions
from tests.contracts.work import LEASE, handed_off, item
from tests.processes.commands import eventually
from tests.redis.conftest import TEAM
from tests.redis.proxy import Proxy
from tests.redis_server import own_server

ITEMS = 5


async def lost_work(store, redis_client, keys):
    """A run whose coordinator died, with five items whose worker died; their leases have run out."""
    await handed_off(store, *[item(content=str(n)) for n in range(ITEMS)])
    await store.claim("backend", "worker-1", LEASE, count=ITEMS)
    await redis_client.zadd(keys.leases, dict.fromkeys(await redis_client.zrange(keys.leases, 0, -1), 1))
    await redis_client.delete(keys.grace)
    await redis_client.set(keys.looking, "1", px=600_000)


async def freed_once(store, redis_client, keys):
    """Everything was freed, each once: it can be claimed, in order, as the second attempt, and the run be taken."""
    assert await redis_client.lrange(keys.mailbox("backend") + ":returned", 0, -1) != []
    assert await redis_client.hgetall(keys.counts("backend")) == {b"pending": b"5", b"processing": b"0"}
    claims = await store.claim("backend", "worker-2", LEASE, count=2 * ITEMS)
    assert [(claim.item.message.content, claim.attempt) for claim in claims] == [(str(n), 2) for n in range(ITEMS)]
    assert (await store.take_run("run-1", "lead-2", LEASE)).lease.token == 2


def words_of(expired):
    return sorted((lease.kind, lease.word) for lease in expired)


ALL = [("message", "returned")] * ITEMS + [("run", "run")]


@pytest.fixture
async def proxy(redis_url):
    async with Proxy(redis_url) as proxy:
        yield proxy


@pytest.fixture
async def shaky(proxy):
    """A store behind the proxy, with a connection that is set up, and no grace."""
    client = open_redis(proxy.url)
    store = RedisRunStore(client, TEAM)
    await store.reclaim_expired("lead-2", LEASE)  # the server knows the script from now on
    yield store
    await store.close()
    await client.aclose()


async def test_the_reply_is_lost(store, shaky, proxy, redis_client, keys):
    await lost_work(store, redis_client, keys)
    proxy.swallow, proxy.swallow_any = 1, True
    again = await shaky.reclaim_expired("lead-2", LEASE)
    assert proxy.swallow == 0
    assert words_of(again) == [("run", "run")], "the messages were freed by the lost call, the run is named again"
    await freed_once(store, redis_client, keys)


async def test_the_reply_that_told_of_dead_letters_is_lost(shaky, proxy, redis_client, keys):
    last_try = RedisRunStore(redis_client, TEAM, StoreOptions(max_attempts=1))
    shaky.options = last_try.options
    await lost_work(last_try, redis_client, keys)
    proxy.swallow, proxy.swallow_any = 1, True
    await shaky.reclaim_expired("lead-2", LEASE)
    assert len(await last_try.dead_letters()) == ITEMS
    taken = await last_try.take_run("run-1", "lead-2", LEASE)
    word, reports = await last_try.resume(taken.lease, "batch-1")
    assert (word, len({report.id for report in reports})) == ("complete", ITEMS)
    ends = [event["subtype"] for _, event in await last_try.read_events("run-1") if event["type"] == "team_message"]
    assert sorted(ends) == ["failed"] * ITEMS + ["replied"] * ITEMS
    await last_try.close()


async def test_the_connection_is_killed_before_the_server_has_answered(store, shaky, redis_client, keys):
    await lost_work(store, redis_client, keys)
    await redis_client.execute_command("CLIENT", "PAUSE", 60_000, "WRITE")
    reclaiming = asyncio.create_task(shaky.reclaim_expired("lead-2", LEASE))
    await eventually(lambda: _is_waiting(redis_client))
    await redis_client.client_kill_filter(_type="normal", skipme=True)
    await redis_client.execute_command("CLIENT", "UNPAUSE")
    assert words_of(await reclaiming) == ALL
    await freed_once(store, redis_client, keys)


async def _is_waiting(client):
    return any(connection["cmd"] == "evalsha" for connection in await client.client_list())


async def test_the_server_has_no_memory_left(store, redis_client, keys):
    await lost_work(store, redis_client, keys)
    leases = await redis_client.zrange(keys.leases, 0, -1, withscores=True)
    await redis_client.config_set("maxmemory", "1mb")
    try:
        used = await redis_client.info("memory")
        assert used["used_memory"] > 1024 * 1024
        with pytest.raises(StoreError, match="no memory left"):
            await store.reclaim_expired("lead-2", LEASE)
        assert await redis_client.zrange(keys.leases, 0, -1, withscores=True) == leases
        assert await redis_client.hgetall(keys.counts("backend")) == {b"pending": b"0", b"processing": b"5"}
    finally:
        await redis_client.config_set("maxmemory", "0")
    assert words_of(await store.reclaim_expired("lead-2", LEASE)) == ALL
    await freed_once(store, redis_client, keys)


async def test_the_server_is_no_longer_the_primary(tmp_path):
    with own_server(tmp_path) as server:
        client = open_redis(server.url)
        store = RedisRunStore(client, TEAM)
        await lost_work(store, client, store.keys)
        await client.execute_command("REPLICAOF", "127.0.0.1", "1")
        reclaiming = asyncio.create_task(store.reclaim_expired("lead-2", LEASE))
        await eventually(lambda: _was_refused(client))
        assert not reclaiming.done()
        await client.execute_command("REPLICAOF", "NO", "ONE")
        assert words_of(await reclaiming) == ALL
        await freed_once(store, client, store.keys)
        await store.close()
        await client.aclose()


async def _was_refused(client):
    return "errorstat_READONLY" in await client.info("errorstats")
