import asyncio
from datetime import timedelta

import pytest
from rq.command import send_shutdown_command, send_stop_job_command
from rq.job import JobStatus
from rq.utils import now
from rq.worker import BaseWorker

from lattice.errors import RunHeldError
from lattice.rq.queue import make_job
from lattice.rq.upkeep import Upkeep
from tests.rq.house import until

pytestmark = pytest.mark.redis


@pytest.fixture
async def upkeep_of():
    kept = []

    def make(worker, *, lease=0.2, stop_run=None):
        async def ignore(run_id):
            raise AssertionError(f"nobody asked to stop {run_id}")

        upkeep = Upkeep(worker, lease=lease, stop_run=stop_run or ignore)
        kept.append(upkeep)
        return upkeep

    yield make
    for upkeep in kept:
        await upkeep.stop()


async def test_a_job_that_died_between_queue_and_begin_is_run_by_another_worker(house, engine, upkeep_of):
    house.enqueue("run-1")
    house.blocking.lmove(house.queue.key, house.queue.intermediate_queue_key)
    engine.answers["run-1"] = "succeeded"
    worker = await house.worker()
    upkeep_of(worker).start()
    await until(lambda: house.job("run-1").get_status() == JobStatus.FINISHED)
    assert house.blocking.exists(house.queue.intermediate_queue_key) == 0


async def test_a_job_whose_worker_is_silent_is_looked_at_by_another(house, engine, upkeep_of):
    house.enqueue("run-1")
    dead = await house.worker()
    await until(lambda: "run-1" in dead.running)
    for task in list(dead._tasks.values()):
        task.cancel()
    await until(lambda: not dead.running)
    assert house.job("run-1").get_status() == JobStatus.STARTED
    engine.answers["run-1"] = "succeeded"
    upkeep_of(await house.worker()).start()
    await until(lambda: house.job("run-1").get_status() == JobStatus.FINISHED)
    assert house.queue.started_job_registry.count == 0


async def test_heartbeats_keep_a_running_job_from_being_taken(house, engine, upkeep_of):
    house.enqueue("run-1")
    first = await house.worker()
    await until(lambda: "run-1" in first.running)
    before = house.blocking.zrange(house.queue.started_job_registry.key, 0, -1, withscores=True)
    upkeep = upkeep_of(first)
    await upkeep.heartbeat()
    after = house.blocking.zrange(house.queue.started_job_registry.key, 0, -1, withscores=True)
    assert [key for key, _ in before] == [key for key, _ in after]
    assert after[0][1] >= before[0][1]
    second = await house.worker()
    await upkeep_of(second, lease=30).mend()
    assert not second.running


async def test_a_heartbeat_is_written_whole_or_not_at_all(house, engine, upkeep_of, monkeypatch):
    """A record and its expiry are two commands; a process that dies between them would leave it for ever."""
    house.enqueue("run-1")
    worker = await house.worker()
    await until(lambda: "run-1" in worker.running)
    upkeep, whole = upkeep_of(worker), []
    pipeline = upkeep.books.redis.pipeline
    monkeypatch.setattr(
        upkeep.books.redis, "pipeline", lambda transaction=True: whole.append(transaction) or pipeline(transaction)
    )
    await upkeep.heartbeat()
    assert len(whole) >= 2
    assert all(whole)


async def test_a_live_worker_that_was_taken_for_dead_is_missed_when_it_dies(house, engine, upkeep_of):
    house.enqueue("run-1")
    first = await house.worker()
    await until(lambda: "run-1" in first.running and first.running["run-1"].written.is_set())
    hasty = await house.worker()
    engine.answers["run-1"] = RunHeldError()
    assert await hasty.adopt(["run-1"]) == {"run-1": "adopted"}
    await until(lambda: not hasty.running)
    assert house.queue.started_job_registry.count == 0
    await upkeep_of(first).heartbeat()
    assert house.queue.started_job_registry.count == 1
    for task in list(first._tasks.values()):
        task.cancel()
    await until(lambda: not first.running)
    engine.answers["run-1"] = "succeeded"
    upkeep_of(hasty).start()
    await until(lambda: house.job("run-1").get_status() == JobStatus.FINISHED)
    assert house.queue.started_job_registry.count == 0


async def test_a_worker_whose_clock_is_ten_minutes_behind_keeps_its_jobs(house, engine, upkeep_of):
    """Also: two workers whose clocks differ by ten minutes."""
    house.enqueue("run-1")
    first = await house.worker()
    await until(lambda: "run-1" in first.running)
    registry = house.queue.started_job_registry.key
    (entry,) = house.blocking.zrange(registry, 0, -1)
    house.blocking.zincrby(registry, -600, entry)
    second = await house.worker()
    patient = upkeep_of(second)
    for _ in range(5):
        house.blocking.zincrby(registry, 1, entry)
        await patient.mend()
    assert second.running == {}
    assert engine.driven == ["run-1"]


async def test_a_worker_whose_record_expired_is_listed_again(house, upkeep_of):
    worker = await house.worker()
    house.blocking.delete(worker.key)
    assert BaseWorker.all(queue=house.queue) == []
    await upkeep_of(worker).heartbeat()
    assert [w.name for w in BaseWorker.all(queue=house.queue)] == [worker.name]
    assert 0 < house.blocking.ttl(worker.key) <= 61


async def test_rq_does_not_fail_a_stuck_job_during_its_maintenance(house, upkeep_of):
    house.enqueue("run-1")
    house.blocking.lmove(house.queue.key, house.queue.intermediate_queue_key)
    worker = await house.worker()
    upkeep = upkeep_of(worker, lease=30)
    await upkeep.maintain()
    await upkeep.maintain()
    assert house.job("run-1").get_status() == JobStatus.QUEUED
    assert house.blocking.lrange(house.queue.intermediate_queue_key, 0, -1) == [b"run-1"]


async def test_a_scheduled_job_runs_when_it_is_due(house, engine, upkeep_of):
    engine.answers["run-1"] = "succeeded"
    house.queue.schedule_job(
        make_job(house.queue, "run-1", description="later", keep=600), now() + timedelta(seconds=0.2)
    )
    assert house.job("run-1").get_status() == JobStatus.SCHEDULED
    worker = await house.worker()
    upkeep_of(worker).start()
    await until(lambda: house.job("run-1").get_status() == JobStatus.FINISHED)
    assert house.blocking.get(f"rq:scheduler-lock:{house.queue.name}").decode() == worker.name


async def test_the_scheduler_lock_of_another_worker_is_respected(house, upkeep_of):
    house.blocking.set(f"rq:scheduler-lock:{house.queue.name}", "somebody else")
    job = make_job(house.queue, "run-1", description="later", keep=600)
    house.queue.schedule_job(job, now() - timedelta(seconds=5))
    upkeep = upkeep_of(await house.worker())
    task = asyncio.create_task(upkeep.schedule())
    await until(lambda: upkeep._scheduler is not None and upkeep._scheduler.lock_acquisition_time)
    task.cancel()
    assert house.job("run-1").get_status() == JobStatus.SCHEDULED
    await upkeep.stop()
    assert house.blocking.get(f"rq:scheduler-lock:{house.queue.name}") == b"somebody else"


async def test_the_scheduler_lock_is_given_back(house, upkeep_of):
    upkeep = upkeep_of(await house.worker())
    await upkeep.schedule()
    assert house.blocking.exists(f"rq:scheduler-lock:{house.queue.name}")
    await upkeep.stop()
    assert not house.blocking.exists(f"rq:scheduler-lock:{house.queue.name}")


async def test_a_stop_command_of_rq_reaches_the_run(house, engine, upkeep_of):
    stopped = []

    async def stop(run_id):
        stopped.append(run_id)

    house.enqueue("run-1")
    worker = await house.worker()
    upkeep_of(worker, stop_run=stop).start()
    await until(lambda: "run-1" in worker.running)
    await until(lambda: house.blocking.pubsub_numsub(worker.pubsub_channel_name)[0][1])
    send_stop_job_command(house.blocking, "run-1", serializer=house.queue.serializer)
    await until(lambda: stopped == ["run-1"])


async def test_a_shutdown_command_of_rq_is_an_interrupt(house, upkeep_of, monkeypatch):
    signals = []
    monkeypatch.setattr("lattice.rq.upkeep.os.kill", lambda pid, number: signals.append(number))
    worker = await house.worker()
    upkeep_of(worker).start()
    await until(lambda: house.blocking.pubsub_numsub(worker.pubsub_channel_name)[0][1])
    send_shutdown_command(house.blocking, worker.name)
    await until(lambda: signals == [2])


@pytest.mark.parametrize(
    ("end", "registry"), [("succeeded", "finished"), ("failed", "failed"), ("cancelled", "canceled")]
)
async def test_ended_jobs_leave_rqs_registries_when_their_time_is_over(house, engine, upkeep_of, end, registry):
    engine.answers["run-1"] = end
    house.enqueue("run-1")
    worker = await house.worker()
    registered = getattr(house.queue, f"{registry}_job_registry")
    await until(lambda: house.blocking.zcard(registered.key))
    await upkeep_of(worker).mend()
    assert house.blocking.zcard(registered.key) == 1
    house.blocking.zadd(registered.key, {"run-1": 1})
    await upkeep_of(worker).mend()
    assert house.blocking.zcard(registered.key) == 0
