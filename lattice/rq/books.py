"""What RQ is told about jobs that run on the event loop: started, heartbeat, finished, handed over.

RQ's own objects write into an asyncio pipeline: their methods only queue commands there, so that one round trip
serves many jobs and no thread is needed.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any
from uuid import uuid4

from redis.asyncio import ConnectionPool, Redis
from rq import Queue
from rq.executions import Execution, ExecutionRegistry
from rq.job import Job, JobStatus
from rq.registry import CanceledJobRegistry
from rq.results import Result
from rq.utils import current_timestamp, now, utcformat
from rq.worker import BaseWorker

from lattice.rq.results import write_cancelled, write_result

__all__ = ["EXECUTION_TTL", "Books", "Ended", "Running"]

EXECUTION_TTL = 86_400
"""Seconds that an execution outlives its last heartbeat. The lease of the run says far sooner that its coordinator is
dead and moves it to another; until then RQ must not call the job abandoned."""

_SOCKET_TIMEOUT = 20
"""Seconds after which a server that says nothing counts as away; longer than any blocking wait."""

_log = logging.getLogger("lattice.rq")
_ENDED = frozenset({JobStatus.FINISHED, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.STOPPED})

_SETTLED = frozenset({JobStatus.FINISHED, JobStatus.CANCELED})
"""Ends that follow from the end of the run; RQ itself calls a job failed when its worker is silent for too long."""


@dataclass(slots=True)
class Running:
    """A job that this worker has begun; ``again`` says that it was run to an end before (a retry, a requeue).

    ``written`` is set when RQ knows that it runs.
    """

    job: Job
    execution: Execution
    again: bool = False
    written: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Ended:
    """A job that returned; ``value`` is what it returned."""

    running: Running
    value: Any
    ended_at: datetime = field(default_factory=now)

    @property
    def job(self) -> Job:
        """The job."""
        return self.running.job


class Books:
    """Reads and writes RQ's records of one queue, many jobs a round trip."""

    def __init__(self, worker: BaseWorker, queue: Queue, redis: Redis) -> None:
        """Take the worker in whose name jobs run, and a client that returns bytes."""
        self.worker = worker
        self.queue = queue
        self.redis = redis
        self._client: Any = redis
        self._waiter: Any = _named_like(redis, f"{worker.name}-waits")
        self.started = queue.started_job_registry
        self.finished = queue.finished_job_registry
        self.failed = queue.failed_job_registry
        self.scheduled = queue.scheduled_job_registry
        self.canceled = CanceledJobRegistry(queue=queue)

    def _pipeline(self, *, transaction: bool = True) -> Any:
        # RQ's annotations ask for a blocking pipeline, but RQ only queues commands on it.
        return self.redis.pipeline(transaction=transaction)

    # --- taking jobs --------------------------------------------------------------------------------------------

    async def next_id(self, block: int | None) -> str | None:
        """Move a job id to the intermediate queue; ``block`` is how many seconds to wait for one."""
        source, target = self.queue.key, self.queue.intermediate_queue_key
        move = self._client.lmove if block is None else partial(self._waiter.blmove, timeout=block)
        found = await move(source, target)
        return None if found is None else _text(found)

    async def break_off(self) -> None:
        """End the wait of ``next_id`` at the server: no id is moved and then lost on the way."""
        name = f"{self.worker.name}-waits"
        for client in await self._client.client_list():
            if client.get("name") == name:
                await self._client.client_unblock(client["id"])

    async def close(self) -> None:
        """Close the connection that waits for jobs."""
        await self._waiter.aclose()

    async def more_ids(self, limit: int) -> list[str]:
        """Move up to ``limit`` further job ids, without waiting."""
        if limit <= 0:
            return []
        async with self._pipeline(transaction=False) as pipe:
            for _ in range(limit):
                pipe.lmove(self.queue.key, self.queue.intermediate_queue_key)
            return [_text(found) for found in await pipe.execute() if found is not None]

    async def fetch(self, ids: Sequence[str]) -> tuple[list[Job], int]:
        """Return the jobs that are to be run, and the length of the queue.

        Ids without a (readable) job, and second copies of jobs that have ended, are dropped.
        """
        async with self._pipeline(transaction=False) as pipe:
            for job_id in ids:
                pipe.hgetall(Job.key_for(job_id))
            pipe.llen(self.queue.key)
            *records, waiting = await pipe.execute()
        jobs = [self._restore(job_id, raw) for job_id, raw in zip(ids, records, strict=True) if raw]
        wanted = [job for job in jobs if job is not None and job.get_status(refresh=False) not in _ENDED]
        for job_id in set(ids).difference(job.id for job in wanted):
            await self._client.lrem(self.queue.intermediate_queue_key, 1, job_id)
        return wanted, waiting

    def _restore(self, job_id: str, raw: Mapping[bytes, bytes]) -> Job | None:
        job = Job(job_id, connection=self.queue.connection, serializer=self.queue.serializer)
        try:
            job.restore(raw)
        except Exception:  # noqa: BLE001 - whatever is wrong with it, it is one job of many
            # One record that nobody can read must not stop the queue.
            _log.exception("job %s has a record that RQ cannot read; it is dropped from the queue", job_id)
            return None
        return job

    def begin(self, job: Job) -> Running:
        """Make a job one that runs here; ``write_begun`` tells RQ."""
        again = job.get_status(refresh=False) == JobStatus.QUEUED and bool(job.worker_name)
        execution = Execution(uuid4().hex, job.id, self.queue.connection, worker_name=self.worker.name)
        self.worker.executions[execution.id] = execution
        return Running(job, execution, again)

    async def write_begun(self, begun: Iterable[Running]) -> None:
        """Write that these jobs run here."""
        async with self._pipeline() as pipe:
            for running in begun:
                self._write_begun(pipe, running.job, running.execution)
            self.worker.set_state("busy", pipeline=pipe)
            await pipe.execute()

    def _write_begun(self, pipe: Any, job: Job, execution: Execution) -> None:
        execution.save(EXECUTION_TTL, pipeline=pipe)
        registry = self._executions_of(job.id)
        registry.add(execution, EXECUTION_TTL, pipeline=pipe)
        self.started.add_execution(execution, pipeline=pipe, ttl=EXECUTION_TTL)
        pipe.sadd(execution.worker_executions_key, execution.composite_key)
        pipe.expire(execution.worker_executions_key, EXECUTION_TTL)
        job.prepare_for_execution(self.worker.name, pipeline=pipe)
        pipe.persist(job.key)
        pipe.lrem(self.queue.intermediate_queue_key, 1, job.id)

    async def adopt(self, job_ids: Sequence[str]) -> dict[str, Job | str]:
        """Take jobs from a worker that died: forget their executions and whatever RQ made of them meanwhile.

        They are in the intermediate queue until they are begun: should this worker die before, they are put back.
        The word unknown for one that RQ does not know, ended for one that somebody has finished already.
        """
        if not job_ids:
            return {}
        async with self._pipeline(transaction=False) as pipe:
            for job_id in job_ids:
                pipe.hgetall(Job.key_for(job_id))
                pipe.zrange(self._executions_of(job_id).key, 0, -1)
            replies = await pipe.execute()
        found: dict[str, Job | str] = {}
        async with self._pipeline() as pipe:
            for job_id, raw, execution_ids in zip(job_ids, replies[::2], replies[1::2], strict=True):
                job = self._restore(job_id, raw) if raw else None
                if job is None:
                    found[job_id] = "unknown"
                elif job.get_status(refresh=False) in _SETTLED:
                    found[job_id] = "ended"
                else:
                    found[job_id] = job
                    self._strike_out(pipe, job_id, map(_text, execution_ids))
            await pipe.execute()
        return found

    def _executions_of(self, job_id: str) -> ExecutionRegistry:
        return ExecutionRegistry(job_id, connection=self.queue.connection)

    def _strike_out(self, pipe: Any, job_id: str, execution_ids: Iterable[str]) -> None:
        for execution_id in execution_ids:
            old = Execution(execution_id, job_id, connection=self.queue.connection)
            pipe.delete(old.key)
            pipe.zrem(self.started.key, old.composite_key)
        pipe.delete(self._executions_of(job_id).key)
        pipe.zrem(self.failed.key, job_id)
        pipe.zrem(self.scheduled.key, job_id)
        pipe.lrem(self.queue.key, 0, job_id)
        pipe.lrem(self.queue.intermediate_queue_key, 0, job_id)
        pipe.lpush(self.queue.intermediate_queue_key, job_id)

    # --- while they run -----------------------------------------------------------------------------------------

    async def heartbeat(self, running: Sequence[Running], worker_ttl: int) -> None:
        """Say that the worker and its jobs live; a worker record that had expired is written again."""
        stamp = now()
        # Each in one piece: a heartbeat cut in two would leave a record without its expiry.
        async with self._pipeline() as pipe:
            self.worker.heartbeat(worker_ttl, pipeline=pipe)
            created, *_ = await pipe.execute()
        if created == 1:
            await self._enlist(worker_ttl)
        for start in range(0, len(running), 100):
            async with self._pipeline() as pipe:
                for one in running[start : start + 100]:
                    one.execution.heartbeat(self.started, EXECUTION_TTL, pipeline=pipe)
                    if one.written.is_set():
                        self._list_again(pipe, one.execution)
                    one.job.last_heartbeat = stamp
                await pipe.execute()

    def _list_again(self, pipe: Any, execution: Execution) -> None:
        """Stay listed: who took this worker for dead has struck it out, and it would not be missed when it dies."""
        execution.save(EXECUTION_TTL, pipeline=pipe)
        self.started.add_execution(execution, pipeline=pipe, ttl=EXECUTION_TTL)
        registry = self._executions_of(execution.job_id)
        registry.add(execution, EXECUTION_TTL, pipeline=pipe)

    async def _enlist(self, worker_ttl: int) -> None:
        async with self._pipeline() as pipe:
            pipe.hset(self.worker.key, mapping={**self.worker.serialize(), "state": self.worker.get_state()})
            pipe.sadd(self.worker.redis_workers_keys, self.worker.key)
            pipe.sadd(f"rq:workers:{self.queue.name}", self.worker.key)
            pipe.expire(self.worker.key, worker_ttl)
            await pipe.execute()

    # --- ends ---------------------------------------------------------------------------------------------------

    async def finish(self, ended: Sequence[Ended], *, idle: bool) -> list[Ended]:
        """Write that these jobs succeeded; returns those that have dependents, for RQ's own code to finish."""
        async with self._pipeline() as pipe:
            keys = [one.job.dependents_key for one in ended]
            await pipe.watch(*keys)
            if await pipe.exists(*keys):
                return list(ended)
            pipe.multi()
            for one in ended:
                self._finish(pipe, one)
            self._count(pipe, ended)
            if idle:
                self.worker.set_state("idle", pipeline=pipe)
            await pipe.execute()
        return []

    def _finish(self, pipe: Any, one: Ended) -> None:
        job, execution = one.job, one.running.execution
        job.ended_at = one.ended_at
        keep = job.get_result_ttl(self.worker.default_result_ttl)
        stamp = utcformat(one.ended_at)
        pipe.hset(job.key, mapping={"status": JobStatus.FINISHED.value, "ended_at": stamp, "last_heartbeat": stamp})
        write_result(pipe, job, Result.Type.SUCCESSFUL, keep, one.value, self.worker.name, execution)
        self.finished.add(job, keep, pipeline=pipe)
        job.cleanup(keep, pipeline=pipe, remove_from_queue=False)
        self.worker.cleanup_execution(job, pipe, execution)

    def _count(self, pipe: Any, ended: Sequence[Ended]) -> None:
        seconds = sum((one.ended_at - one.job.started_at).total_seconds() for one in ended if one.job.started_at)
        pipe.hincrby(self.worker.key, "successful_job_count", len(ended))
        pipe.hincrbyfloat(self.worker.key, "total_working_time", seconds)

    async def cancel(self, running: Running, outcome: Mapping[str, Any], keep: int) -> None:
        """Write that a job was cancelled."""
        async with self._pipeline() as pipe:
            write_cancelled(pipe, running.job, outcome, keep, self.worker.name, running.execution)
            self.worker.cleanup_execution(running.job, pipe, running.execution)
            await pipe.execute()

    async def release(self, running: Running) -> None:
        """Forget an execution of a job that somebody else runs."""
        async with self._pipeline() as pipe:
            self.worker.cleanup_execution(running.job, pipe, running.execution)
            await pipe.execute()

    async def hand_over(self, running: Running) -> None:
        """Put a job back at the front of the queue, for another worker to take at once."""
        async with self._pipeline() as pipe:
            self.worker.cleanup_execution(running.job, pipe, running.execution)
            pipe.hset(running.job.key, mapping={"status": JobStatus.QUEUED.value, "worker_name": ""})
            pipe.lpush(self.queue.key, running.job.id)
            await pipe.execute()

    # --- what the dead left behind ------------------------------------------------------------------------------

    async def stuck_ids(self) -> list[str]:
        """Return the ids in the intermediate queue: taken, but not begun (yet)."""
        return [_text(found) for found in await self._client.lrange(self.queue.intermediate_queue_key, 0, 999)]

    async def put_back(self, job_id: str) -> None:
        """Return a job from the intermediate queue to the front of the queue.

        Two workers may do so at once; whoever takes the second copy finds the run held or ended.
        """
        async with self._pipeline() as pipe:
            pipe.lpush(self.queue.key, job_id)
            pipe.lrem(self.queue.intermediate_queue_key, 1, job_id)
            await pipe.execute()

    async def trim(self) -> None:
        """Drop ended jobs whose time is over; RQ does so every ten minutes, and never with cancelled ones."""
        now_is = current_timestamp()
        async with self._pipeline(transaction=False) as pipe:
            for registry in (self.finished, self.failed, self.canceled):
                pipe.zremrangebyscore(registry.key, 0, now_is)
            await pipe.execute()

    async def heartbeats(self, limit: int = 10_000) -> dict[str, float]:
        """Return what the last heartbeat of each execution wrote: a number that tells it from the one before."""
        entries = await self._client.zrange(self.started.key, 0, limit - 1, withscores=True)
        return {_text(entry): score for entry, score in entries}

    def execution(self, entry: str) -> Execution:
        """Return the execution of an entry of ``heartbeats``."""
        return Execution.from_composite_key(entry, connection=self.queue.connection)

    async def forget(self, execution: Execution) -> None:
        """Remove an execution whose job no longer runs."""
        registry = self._executions_of(execution.job_id)
        async with self._pipeline() as pipe:
            pipe.delete(execution.key)
            pipe.zrem(self.started.key, execution.composite_key)
            pipe.zrem(registry.key, execution.id)
            await pipe.execute()


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _named_like(redis: Redis, name: str) -> Redis:
    pool = redis.connection_pool
    kwargs = {**pool.connection_kwargs, "client_name": name, "socket_timeout": _SOCKET_TIMEOUT}
    return Redis.from_pool(ConnectionPool(connection_class=pool.connection_class, **kwargs))
