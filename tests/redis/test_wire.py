"""A connection used directly: replies as the client would give them, limits, breaks, and a pool that gets it back."""

import asyncio

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from lattice.redis.connection import open_redis
from lattice.redis.wire import Wire
from tests.redis.proxy import Proxy


@pytest.fixture
async def wire(redis_client):
    wire = Wire(redis_client)
    yield wire
    await wire.close()


async def test_replies_come_in_the_order_of_the_commands_and_refusals_among_them(wire):
    replies = await wire.exchange([("ECHO", "a"), ("INCR",), ("ECHO", "b")], 5)
    assert (replies[0], replies[2]) == (b"a", b"b")
    assert isinstance(replies[1], ResponseError)


async def test_replies_are_what_the_client_makes_of_them(redis_client, wire):
    await redis_client.hset("hash", "field", "value")
    entry = await redis_client.xadd("stream", {"field": "value"})
    await redis_client.zadd("set", {"member": 1.5})
    commands = [("HGETALL", "hash"), ("XRANGE", "stream", "-", "+"), ("ZSCORE", "set", "member"), ("TIME",)]
    found, entries, score, time = await wire.exchange(commands, 5)
    assert found == await redis_client.hgetall("hash")
    assert entries == [(entry, {b"field": b"value"})] == await redis_client.xrange("stream")
    assert score == 1.5
    assert all(isinstance(part, int) for part in time)


async def test_no_answer_within_the_limit_is_an_error_and_the_next_exchange_is_clean(redis_client, wire):
    with pytest.raises(TimeoutError):
        await wire.exchange([("BLPOP", "nothing", 0)], 0.05)
    await redis_client.rpush("nothing", "late")
    assert await wire.exchange([("ECHO", "clean")], 5) == [b"clean"]
    assert await redis_client.lpop("nothing") == b"late", "the wait that was given up takes nothing"


async def test_a_wait_that_is_cancelled_leaves_a_clean_wire(redis_client, wire):
    waiting = asyncio.create_task(wire.exchange([("BLPOP", "nothing", 0)], 60))
    while not (await redis_client.info("clients"))["blocked_clients"]:
        await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert await wire.exchange([("ECHO", "clean")], 5) == [b"clean"]


async def test_a_broken_connection_is_an_error_and_then_made_anew(redis_url):
    async with Proxy(redis_url) as proxy:
        client = open_redis(proxy.url)
        wire = Wire(client)
        await wire.exchange([("PING",)], 5)
        proxy.refuse()
        with pytest.raises((RedisConnectionError, OSError)):
            await wire.exchange([("PING",)], 5)
        await proxy.accept_again()
        assert await wire.exchange([("ECHO", "back")], 5) == [b"back"]
        await wire.close()
        await client.aclose()


async def test_a_closed_wire_gives_its_connection_back_as_it_was(redis_url):
    client = open_redis(f"{redis_url}?max_connections=1")
    wire = Wire(client)
    await wire.exchange([("PING",)], 5)
    await wire.close()
    connection = await client.connection_pool.get_connection()
    assert connection.socket_timeout >= 15
    await client.connection_pool.release(connection)
    assert await client.ping()
    await client.aclose()
