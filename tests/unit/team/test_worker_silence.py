"""A worker knows for how long its mailbox has not answered: that is what liveness means."""

import asyncio

import pytest

from lattice.memory.run_store import MemoryRunStore
from lattice.team import worker as module
from lattice.team.host import Host
from lattice.team.worker import MemberWorker
from tests.cluster import until
from tests.teams import echo, team_of


class Stuck(MemoryRunStore):
    """A store whose claims get no answer while ``stuck`` is set."""

    stuck = False
    asked = 0

    async def claim(self, *args, **kwargs):
        self.asked += 1
        while self.stuck:
            await asyncio.sleep(0.001)
        return await super().claim(*args, **kwargs)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
async def store():
    return Stuck()


@pytest.fixture
async def worker(store, clock, request):
    store.stuck = "stuck" in request.node.name
    host = Host(store, process_id="w")
    await host.start()
    worker = MemberWorker(host, team_of(["done"], {"a": echo("a")}), "a")
    task = asyncio.create_task(worker.run())
    yield worker
    store.stuck = False
    await worker.stop()
    await task
    await host.stop()


async def test_a_stuck_claim_is_silence(worker, store, clock):
    await until(lambda: store.asked >= 1)
    clock.now += 40
    assert worker.silent_for == 40
    clock.now += 5
    assert worker.silent_for == 45
    store.stuck = False
    await until(lambda: worker.silent_for == 0)


async def test_an_idle_worker_that_is_not_woken_is_silent_until_it_asks_again(worker, store, clock):
    await until(lambda: worker._waiting is not None)
    clock.now += 4
    assert worker.silent_for == 4


async def test_a_worker_that_leaves_is_not_silent_even_if_it_is_stuck(worker, store, clock):
    await until(lambda: store.asked >= 1)
    worker._stop_taking()
    clock.now += 400
    assert worker.silent_for == 0
