"""A provider's pause holds in every process that shares its key, and those that waited do not all start at once."""

import asyncio

import pytest

from lattice.integrations.anthropic.client import AnthropicClient
from lattice.model import ModelRequest, provider_gate
from lattice.redis.connection import open_redis
from lattice.redis.run_store import RedisRunStore
from lattice.testing import MessagesApiServer, http_error
from tests.contracts.backends import TEAM

SECRET = "sk-ant-secret-0123456789"


@pytest.fixture
async def two(redis_client):
    """The stores of two processes."""
    stores = [RedisRunStore(redis_client, TEAM) for _ in range(2)]
    yield stores
    for store in stores:
        await store.close()


async def test_a_pause_that_one_process_hears_of_holds_in_the_other(two, redis_client):
    here, there = two
    await here.hold_off("p1", 30)
    assert 0 < await redis_client.pttl(here.keys.provider_pause("p1")) <= 30_000
    waiting = asyncio.create_task(there.admission("p1"))
    await there.admission("p2")
    assert not waiting.done()
    await redis_client.pexpire(here.keys.provider_pause("p1"), 1)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await here.hold_off("p3", 0.001)
    await asyncio.wait_for(there.admission("p3"), 5)


async def test_a_shorter_pause_does_not_end_a_longer_one(two, redis_client):
    here, there = two
    await here.hold_off("p1", 60)
    await there.hold_off("p1", 1)
    assert await redis_client.pttl(here.keys.provider_pause("p1")) > 10_000


async def test_those_that_waited_are_spread_over_the_length_of_the_pause(two, redis_client, monkeypatch):
    here, there = two
    slept = []

    async def sleep(seconds):
        slept.append(seconds)
        await redis_client.delete(here.keys.provider_pause("p1"))

    await here.hold_off("p1", 10)
    monkeypatch.setattr("lattice.redis.provider_pauses.asyncio.sleep", sleep)
    for _ in range(20):
        await there.hold_off("p1", 10)
        await there.admission("p1")
    assert len(slept) == 20
    assert all(9 < seconds <= 20 for seconds in slept)
    assert max(slept) - min(slept) > 1


async def test_nobody_waits_for_a_redis_that_is_away():
    lost = open_redis("redis://127.0.0.1:9/0")
    store = RedisRunStore(lost, TEAM, patience=0)
    await store.admission("p1")
    await store.hold_off("p1", 5)
    await store.close()
    await lost.aclose()


async def test_a_refusal_with_a_time_to_come_back_is_met_once_by_all_processes(two, redis_client):
    """Two processes with one key: after one was refused, the other's request starts when the pause is over."""
    refused = asyncio.Event()

    def answer(_request):
        if not refused.is_set():
            refused.set()
            return http_error(529, "overloaded_error", "later", headers={"retry-after-ms": "300"})
        return "fine"

    async def ask(store, client):
        provider_gate.set(store)
        return await client.create_message(
            ModelRequest(model="m", max_tokens=9, messages=[{"role": "user", "content": "x"}])
        )

    async with MessagesApiServer(answer) as server:
        clients = [
            AnthropicClient(api_key=SECRET, base_url=server.base_url, default_headers={"x-process": str(n)})
            for n in (1, 2)
        ]
        first = asyncio.create_task(ask(two[0], clients[0]))
        await refused.wait()
        while not (keys := await redis_client.keys("*:pause")):
            await asyncio.sleep(0.005)
        second = asyncio.create_task(ask(two[1], clients[1]))
        for reply in await asyncio.gather(first, second):
            assert reply["content"][0]["text"] == "fine"
        assert len(server.requests) == 3
        assert SECRET.encode() not in b"".join(keys)
        for client in clients:
            await client.close()
