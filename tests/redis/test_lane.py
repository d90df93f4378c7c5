"""The shared connection: few round trips, neighbours that do not hurt each other, repeats after a break."""

import asyncio

import pytest

from lattice.errors import StoreError
from lattice.redis.connection import StoreUnreachableError, open_redis
from lattice.redis.lane import Lane
from lattice.redis.scripts import Script, load_scripts
from lattice.redis.wire import Wire
from tests.redis.proxy import Proxy


@pytest.fixture
async def lane(redis_client):
    lane = Lane(redis_client)
    yield lane
    await lane.close()


@pytest.fixture
async def proxy(redis_url):
    async with Proxy(redis_url) as proxy:
        yield proxy


@pytest.fixture
async def shaky(proxy):
    """A lane through the proxy."""
    client = open_redis(proxy.url)
    lane = Lane(client)
    yield lane
    await lane.close()
    await client.aclose()


def script(text):
    import hashlib

    source = text.encode()
    return Script("test", source, hashlib.sha1(source).hexdigest().encode())


@pytest.fixture
def trips(monkeypatch):
    """What goes over the wires, one entry for each write."""
    trips = []
    write = Wire.write
    monkeypatch.setattr(Wire, "write", lambda *args: trips.append(args[1]) or write(*args))
    return trips


async def test_calls_made_at_once_share_a_round_trip(lane, trips):
    replies = await asyncio.gather(*[lane.command("ECHO", str(n)) for n in range(100)])
    assert replies == [str(n).encode() for n in range(100)]
    assert 1 <= len(trips) <= 2


async def test_replies_reach_their_callers_however_many_there_are(lane):
    replies = await asyncio.gather(*[lane.command("ECHO", str(n)) for n in range(1000)])
    assert replies == [str(n).encode() for n in range(1000)]


async def test_a_call_that_fails_fails_alone(lane):
    results = await asyncio.gather(
        lane.command("ECHO", "a"),
        lane.command("INCR"),
        lane.run(script("return redis.call('NOSUCH')"), "p"),
        lane.command("ECHO", object()),
        lane.command("ECHO", "\ud800"),
        lane.command("ECHO", "b"),
        return_exceptions=True,
    )
    assert (results[0], results[5]) == (b"a", b"b")
    assert all(isinstance(result, StoreError) for result in results[1:5])
    assert "INCR" in str(results[1])


async def test_a_lost_script_cache_is_healed_once_for_all_callers(redis_client, lane):
    """The body runs once for each call, and with its own arguments, not with those for a repeat."""
    append = script("redis.call('RPUSH', KEYS[1], ARGV[1]); return 'ok'")
    for _ in range(3):
        await redis_client.script_flush()
        calls = [lane.run(append, "list", str(n), on_repeat=("repeat",)) for n in range(20)]
        assert await asyncio.gather(*calls) == [b"ok"] * 20
    kept = await redis_client.lrange("list", 0, -1)
    assert len(kept) == 60
    assert b"repeat" not in kept


async def test_a_flush_in_a_loop_stops_nobody(redis_client, lane):
    increment = script("return redis.call('INCR', KEYS[1])")
    stop = asyncio.Event()

    async def flush():
        while not stop.is_set():
            await redis_client.script_flush()

    flushing = asyncio.create_task(flush())
    for _ in range(50):
        await asyncio.gather(*[lane.run(increment, "n") for _ in range(10)])
    stop.set()
    await flushing
    assert await redis_client.get("n") == b"500"


async def test_a_cancelled_caller_leaves_the_others_alone(lane):
    calls = [asyncio.create_task(lane.command("ECHO", str(n))) for n in range(10)]
    await asyncio.sleep(0)
    calls[3].cancel()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(results.pop(3), asyncio.CancelledError)
    assert results == [str(n).encode() for n in range(10) if n != 3]
    assert await lane.command("ECHO", "next") == b"next"


async def test_a_call_whose_reply_was_lost_is_sent_again_as_a_repeat(shaky, proxy, redis_client):
    append = script("redis.call('RPUSH', KEYS[1], ARGV[1]); return 1")
    await shaky.command("PING")
    await redis_client.script_load(append.source)
    proxy.swallow = 1
    assert await shaky.run(append, "list", "first", on_repeat=("again",)) == 1
    assert await redis_client.lrange("list", 0, -1) == [b"first", b"again"]
    assert proxy.swallow == 0


async def test_broken_connections_are_replaced_without_a_caller_noticing(shaky, proxy):
    for n in range(20):
        calls = [asyncio.create_task(shaky.command("ECHO", f"{n}.{m}")) for m in range(10)]
        await asyncio.sleep(0)
        proxy.cut()
        assert await asyncio.gather(*calls) == [f"{n}.{m}".encode() for m in range(10)]


async def test_an_outage_is_waited_for(shaky, proxy):
    await shaky.command("PING")
    proxy.refuse()
    calls = [asyncio.create_task(shaky.command("ECHO", str(n))) for n in range(10)]
    done, _ = await asyncio.wait(calls, timeout=0.3)
    assert not done
    await proxy.accept_again()
    assert await asyncio.gather(*calls) == [str(n).encode() for n in range(10)]


async def test_an_outage_that_lasts_is_an_error_that_says_so(proxy):
    client = open_redis(proxy.url)
    lane = Lane(client, patience=0.2)
    proxy.refuse()
    with pytest.raises(StoreUnreachableError, match="Redis stayed away") as caught:
        await lane.command("PING")
    assert isinstance(caught.value, ConnectionError)
    await proxy.accept_again()
    assert await lane.command("ECHO", "back") == b"back"
    await lane.close()
    await client.aclose()


async def test_tries_during_an_outage_are_few(proxy, trips):
    client = open_redis(proxy.url)
    lane = Lane(client, patience=1.0)
    proxy.refuse()
    await asyncio.gather(*[lane.command("PING") for _ in range(50)], return_exceptions=True)
    assert 2 <= len(trips) <= 30
    await lane.close()
    await client.aclose()


async def test_a_full_memory_is_an_error_that_says_so(redis_client, lane):
    await lane.command("CONFIG", "SET", "maxmemory", "1")
    try:
        with pytest.raises(StoreError, match="no memory left"):
            await lane.command("SET", "k", "v")
        with pytest.raises(StoreError):
            await lane.run(load_scripts()["start_run"], "p", "r", "id", "r")
    finally:
        await lane.command("CONFIG", "SET", "maxmemory", "0")
    assert await lane.command("SET", "k", "v") in (True, b"OK")


async def test_closing_lets_what_waits_arrive(redis_client):
    lane = Lane(redis_client)
    calls = [asyncio.create_task(lane.command("INCR", "n")) for _ in range(5)]
    await asyncio.sleep(0)
    await lane.close()
    assert sorted(await asyncio.gather(*calls)) == [1, 2, 3, 4, 5]


async def test_a_closed_lane_refuses_and_opens_nothing(redis_client):
    lane = Lane(redis_client)
    await lane.command("PING")
    await lane.close()
    with pytest.raises(StoreError, match="PING: the store was closed"):
        await lane.command("PING")
