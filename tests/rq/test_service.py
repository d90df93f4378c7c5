import asyncio
import contextlib
import logging

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from rq.job import JobStatus
from rq.worker import BaseWorker

from lattice.memory.run_store import MemoryRunStore
from lattice.redis.connection import StoreUnreachableError
from lattice.rq.service import ServiceOptions, run_service
from lattice.rq.worker import AsyncWorker
from lattice.runs import RunRecord
from tests.rq.house import until

pytestmark = pytest.mark.redis


@contextlib.asynccontextmanager
async def serving(house, store, *, name="coordinator-1", lease_ms=200):
    options = ServiceOptions(process_id=name, concurrency=10, lease_ms=lease_ms, keep=600)
    async with run_service(house.redis, house.blocking, "trio", store, house.engine, options) as service:
        task = asyncio.create_task(service.serve())
        yield service
        await service.stop_taking()
        for running in list(service.worker._tasks.values()):
            running.cancel()
        await task


async def test_a_run_whose_coordinator_died_is_driven_on_and_its_job_finishes(house):
    store = MemoryRunStore(expire_leases=True)
    await store.start_run(RunRecord(id="run-1", team="trio", task="do it"))
    house.enqueue("run-1")
    dead = await house.worker()
    await until(lambda: "run-1" in dead.running)
    await dead.stop_taking()
    assert (await store.take_run("run-1", "dead", 1)).run.id == "run-1"
    async with serving(house, store):
        await until(lambda: house.engine.driven == ["run-1", "run-1"])
        assert house.job("run-1").worker_name == "coordinator-1"
        house.engine.answers["run-1"].set_result("succeeded")
        await until(lambda: house.job("run-1").get_status() == JobStatus.FINISHED)
        assert house.queue.finished_job_registry.get_job_ids() == ["run-1"]
        assert house.queue.failed_job_registry.count == 0


async def test_a_run_whose_rq_job_was_deleted_is_driven_all_the_same(house):
    store = MemoryRunStore(expire_leases=True)
    await store.start_run(RunRecord(id="run-1", team="trio", task="do it"))
    await store.take_run("run-1", "dead", 1)
    house.engine.answers["run-1"] = "succeeded"
    async with serving(house, store):
        await until(lambda: house.engine.driven)
    assert house.engine.driven[0] == "run-1"


async def test_a_service_looks_for_dead_coordinators_soon_after_an_outage(house, monkeypatch, caplog):
    """However long it lasted: the pauses between two looks never grow over a quarter of the lease."""
    caplog.set_level(logging.DEBUG, "lattice.rq")
    store = MemoryRunStore()
    reclaim, tries = store.reclaim_expired, []

    async def reclaim_expired(*args, **options):
        tries.append(1)
        if len(tries) <= 8:
            raise StoreUnreachableError("Redis is away")
        return await reclaim(*args, **options)

    monkeypatch.setattr(store, "reclaim_expired", reclaim_expired)
    async with serving(house, store, lease_ms=200):
        await until(lambda: len(tries) > 8)
    pauses = [record.args[2] for record in caplog.records if record.args[0].startswith("looking for runs")]
    assert len(pauses) == 8 and max(pauses) <= 0.05


async def test_a_service_waits_for_a_redis_that_hangs_up_while_it_starts(house, monkeypatch):
    """Before it knows Redis, and after Redis has listed it without saying so."""
    tries = []

    def hanging_up(name, *, done):
        step = getattr(AsyncWorker, name)

        def once(self, *args):
            tries.append(name)
            if tries.count(name) > 1:
                return step(self, *args)
            if done:
                step(self, *args)
            raise RedisConnectionError("hung up")

        monkeypatch.setattr(AsyncWorker, name, once)

    hanging_up("_set_ip_address", done=False)
    hanging_up("register_birth", done=True)
    async with serving(house, MemoryRunStore()):
        assert [worker.name for worker in BaseWorker.all(queue=house.queue)] == ["coordinator-1"]
    assert tries == ["_set_ip_address"] * 2 + ["register_birth"] * 2


async def test_a_service_is_listed_while_it_serves(house):
    store = MemoryRunStore()
    async with serving(house, store):
        assert [worker.name for worker in BaseWorker.all(queue=house.queue)] == ["coordinator-1"]
        house.enqueue("run-1")
        await until(lambda: "run-1" in house.engine.answers)
        house.engine.answers["run-1"].set_result("succeeded")
        await until(lambda: house.job("run-1").get_status() == JobStatus.FINISHED)
    assert BaseWorker.all(queue=house.queue) == []
