"""The heartbeat of a process."""

import asyncio

import pytest

from lattice.errors import StoreError
from lattice.memory.run_store import MemoryRunStore
from workers import presence as module
from workers.presence import announced, this_process


class Flaky(MemoryRunStore):
    """A store that can be away."""

    away = False
    beats = 0

    async def heartbeat(self, info, ttl_ms):
        if self.away:
            raise StoreError("Redis is away")
        self.beats += 1
        await super().heartbeat(info, ttl_ms)

    async def forget_process(self, process_id):
        if self.away:
            raise StoreError("Redis is away")
        await super().forget_process(process_id)


@pytest.fixture
def store():
    return Flaky()


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr(module, "BEAT", 0.01)


INFO = this_process("worker-1", "worker", member="backend", concurrency=3)


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_process_is_listed_from_its_start_to_its_end(store):
    async with announced(store, INFO, lambda: 2):
        (seen,) = await store.processes()
        assert (seen.id, seen.role, seen.member, seen.concurrency, seen.busy) == ("worker-1", "worker", "backend", 3, 2)
        assert seen.version
    assert await store.processes() == []


async def test_it_says_again_and_again_how_busy_it_is(store, fast):
    busy = iter(range(1000))
    async with announced(store, INFO, lambda: next(busy)):
        await until(lambda: store.beats >= 3)
        (seen,) = await store.processes()
        assert seen.busy >= 2


async def test_it_goes_on_when_redis_comes_back_and_is_unwell_meanwhile(store, fast):
    async with announced(store, INFO, lambda: 0) as presence:
        assert presence.fault() is None
        store.away = True
        await until(presence.fault)
        assert "no heartbeat" in presence.fault()
        store.away = False
        await until(lambda: presence.fault() is None)


async def test_it_can_end_while_redis_is_away(store):
    async with announced(store, INFO, lambda: 0):
        store.away = True


async def test_a_redis_that_is_away_at_the_start_is_an_error(store):
    store.away = True
    with pytest.raises(StoreError):
        async with announced(store, INFO, lambda: 0):
            pass
