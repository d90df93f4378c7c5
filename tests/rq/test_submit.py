import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError
from rq.job import JobStatus

from lattice.rq.results import cancel_waiting_job, job_has_ended
from lattice.rq.submit import Submission, submit_run
from lattice.runs import RunRecord
from tests.rq.house import until

pytestmark = pytest.mark.redis


class Script:
    """Stands in for the store's script: records the run's task under its key."""

    source = "redis.call('SET', KEYS[1], ARGV[1]) return 'started'"

    def start_run_call(self, run):
        return self.source, [f"run:{run.id}"], [run.task]


def record(run_id="run-1", task="do it"):
    return RunRecord(id=run_id, team="trio", task=task)


async def submit(house, run=None, *, script=None, taken=False, **options):
    run = run or record()
    return await submit_run(
        house.redis,
        house.queue,
        script or Script(),
        run,
        keep=600,
        submission=Submission(**options),
        run_key=f"run:{run.id}" if taken else None,
    )


async def test_the_record_and_the_job_appear_together(house):
    assert await submit(house) == "started"
    assert house.blocking.get("run:run-1") == b"do it"
    assert house.queue.get_job_ids() == ["run-1"]
    job = house.job("run-1")
    assert (job.get_status(), job.args, job.timeout, job.description) == (JobStatus.QUEUED, ["run-1"], -1, "do it")
    assert b"lattice-trio" in b" ".join(house.blocking.smembers("rq:queues"))


async def test_a_fresh_run_is_not_watched(house):
    house.blocking.config_resetstat()
    await submit(house)
    commands = house.blocking.info("commandstats")
    assert commands["cmdstat_exec"]["calls"] == 1
    assert "cmdstat_watch" not in commands and "cmdstat_exists" not in commands


async def test_a_lost_script_cache_does_not_split_the_transaction(house):
    house.blocking.script_flush()
    assert await submit(house) == "started"
    assert house.blocking.get("run:run-1") == b"do it"


async def test_a_taken_id_starts_nothing(house):
    assert await submit(house, taken=True) == "started"
    assert await submit(house, record(task="again"), taken=True) == "exists"
    assert house.blocking.get("run:run-1") == b"do it"
    assert house.queue.get_job_ids() == ["run-1"]


async def test_of_many_submits_of_one_id_one_starts(house):
    words = await asyncio.gather(*(submit(house, taken=True) for _ in range(20)))
    assert sorted(words) == ["exists"] * 19 + ["started"]
    assert house.queue.get_job_ids() == ["run-1"]


async def test_a_scheduled_run_waits_in_rqs_registry(house):
    due = datetime.now(UTC) + timedelta(hours=1)
    assert await submit(house, at=due) == "started"
    assert house.queue.get_job_ids() == []
    job = house.job("run-1")
    assert job.get_status() == JobStatus.SCHEDULED
    registered = house.queue.scheduled_job_registry.get_scheduled_time(job)
    assert abs((registered - due).total_seconds()) <= 1


async def test_a_run_that_depends_on_another_is_deferred(house, engine):
    await submit(house)
    assert await submit(house, record("run-2"), depends_on=("run-1",)) == "started"
    assert house.job("run-2").get_status() == JobStatus.DEFERRED
    assert house.blocking.get("run:run-2") == b"do it"
    assert await submit(house, record("run-2"), taken=True, depends_on=("run-1",)) == "exists"
    engine.answers |= {"run-1": "succeeded", "run-2": "succeeded"}
    await house.worker()
    await until(lambda: house.job("run-2").get_status() == JobStatus.FINISHED)
    assert engine.driven == ["run-1", "run-2"]


async def test_retries_and_webhooks_stand_in_the_job(house):
    await submit(house, retry=2, retry_interval=5, webhooks=("http://127.0.0.1:1/x",))
    job = house.job("run-1")
    assert (job.retries_left, job.retry_intervals) == (2, [5])
    assert [hook.url for hook in job.webhooks] == ["http://127.0.0.1:1/x"] * 2


async def test_a_script_that_fails_is_an_error_of_the_submitter(house):
    broken = Script()
    broken.source = "return redis.call('NO SUCH COMMAND')"
    with pytest.raises(ResponseError):
        await submit(house, script=broken)


async def test_a_waiting_job_can_be_cancelled_and_then_runs_no_more(house, engine):
    await submit(house)
    assert not await job_has_ended(house.redis, "run-1")
    assert await cancel_waiting_job(house.redis, house.queue, "run-1", {"status": "cancelled"}, 600)
    assert house.job("run-1").get_status() == JobStatus.CANCELED
    assert house.queue.get_job_ids() == []
    assert house.queue.canceled_job_registry.get_job_ids() == ["run-1"]
    assert await job_has_ended(house.redis, "run-1")
    await submit(house, record("run-2"))
    engine.answers["run-2"] = "succeeded"
    await house.worker()
    await until(lambda: house.job("run-2").get_status() == JobStatus.FINISHED)
    assert engine.driven == ["run-2"]


async def test_a_scheduled_job_can_be_cancelled(house):
    await submit(house, at=datetime.now(UTC) + timedelta(hours=1))
    assert await cancel_waiting_job(house.redis, house.queue, "run-1", {"status": "cancelled"}, 600)
    assert house.queue.scheduled_job_registry.get_job_ids() == []


async def test_a_job_that_runs_is_left_to_its_worker(house, engine):
    await submit(house)
    worker = await house.worker()
    await until(lambda: "run-1" in worker.running)
    assert not await cancel_waiting_job(house.redis, house.queue, "run-1", {}, 600)
    assert not await cancel_waiting_job(house.redis, house.queue, "no-such-run", {}, 600)
    assert house.job("run-1").get_status() == JobStatus.STARTED


async def test_a_redis_that_is_away_is_an_error(house):
    async def refuse(*args, **kwargs):
        raise RedisConnectionError("refused")

    house.redis.connection_pool.get_connection = refuse
    with pytest.raises(RedisConnectionError):
        await submit(house)
