"""How a job ended, as RQ keeps it; the commands are only queued, on a pipeline of either kind."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import WatchError
from rq import Queue
from rq.exceptions import InvalidJobOperation, NoSuchJobError
from rq.executions import Execution
from rq.job import Job, JobStatus
from rq.registry import CanceledJobRegistry
from rq.results import Result
from rq.utils import now, utcformat

__all__ = [
    "JobStanding",
    "cancel_waiting_job",
    "job_has_ended",
    "job_standing",
    "requeue_failed_job",
    "write_cancelled",
    "write_result",
]

_ENDED = frozenset({JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.STOPPED})
_LONGEST_LOOK = 9_999
_WAITING = frozenset({JobStatus.QUEUED, JobStatus.SCHEDULED, JobStatus.DEFERRED})


def write_result(
    pipe: Any, job: Job, kind: Result.Type, keep: int, value: Any, worker_name: str, execution: Execution | None
) -> None:
    """Queue the command that stores a result for ``keep`` seconds."""
    Result.create(
        job,
        kind,
        keep,
        return_value=value,
        worker_name=worker_name,
        pipeline=pipe,
        execution_id=execution.id if execution else None,
        execution_started_at=execution.created_at if execution else None,
        execution_ended_at=job.ended_at,
    )


def write_cancelled(
    pipe: Any,
    job: Job,
    outcome: Mapping[str, Any],
    keep: int,
    worker_name: str = "",
    execution: Execution | None = None,
) -> None:
    """Queue the commands that make a job a cancelled one, with the outcome of its run as its result."""
    job.ended_at = now()
    pipe.hset(job.key, mapping={"status": JobStatus.CANCELED.value, "ended_at": utcformat(job.ended_at)})
    write_result(pipe, job, Result.Type.STOPPED, keep, dict(outcome), worker_name, execution)
    registry = CanceledJobRegistry(job.origin, connection=job.connection, serializer=job.serializer)
    registry.add(job, keep, pipeline=pipe)
    job.cleanup(keep, pipeline=pipe, remove_from_queue=False)


async def job_has_ended(redis: Redis, job_id: str) -> bool:
    """Whether RQ has nothing more to do for a job, because it has ended or is no longer known."""
    client: Any = redis
    status = await client.hget(Job.key_for(job_id), "status")
    return status is None or status.decode() in _ENDED


@dataclass(frozen=True, slots=True)
class JobStanding:
    """What RQ says of a job: its status (None if it has no such job), its place in the queue, when it is due."""

    status: str | None
    ahead: int | None = None
    due: datetime | None = None


async def job_standing(redis: Redis, queue: Queue, job_id: str) -> JobStanding:
    """Return where a job stands in its queue."""
    client: Any = redis
    status = await client.hget(Job.key_for(job_id), "status")
    if status is None:
        return JobStanding(None)
    if status == JobStatus.QUEUED.value.encode():
        ids = await client.lrange(queue.key, 0, _LONGEST_LOOK)
        return JobStanding(status.decode(), ids.index(job_id.encode()) if job_id.encode() in ids else None)
    if status == JobStatus.SCHEDULED.value.encode():
        due = await client.zscore(queue.scheduled_job_registry.key, job_id)
        return JobStanding(status.decode(), due=None if due is None else datetime.fromtimestamp(float(due), UTC))
    return JobStanding(status.decode())


def requeue_failed_job(queue: Queue, job_id: str) -> bool:
    """Put a failed job back into its queue (blocking); False if it is not among the failed ones."""
    try:
        queue.failed_job_registry.requeue(job_id)
    except (InvalidJobOperation, NoSuchJobError):
        return False
    return True


async def cancel_waiting_job(redis: Redis, queue: Queue, job_id: str, outcome: Mapping[str, Any], keep: int) -> bool:
    """Cancel a job that nobody has begun; False when there is none: then its worker writes what became of it."""
    client: Any = redis
    job = Job(job_id, connection=queue.connection, serializer=queue.serializer)
    while True:
        try:
            async with client.pipeline() as pipe:
                await pipe.watch(job.key)
                raw = await pipe.hgetall(job.key)
                if not raw:
                    return False
                job.restore(raw)
                if job.get_status(refresh=False) not in _WAITING:
                    return False
                pipe.multi()
                pipe.lrem(queue.key, 0, job_id)
                pipe.zrem(queue.scheduled_job_registry.key, job_id)
                pipe.zrem(queue.deferred_job_registry.key, job_id)
                write_cancelled(pipe, job, outcome, keep)
                await pipe.execute()
                return True
        except WatchError:
            continue
