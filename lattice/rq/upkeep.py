"""What an RQ worker does beside its jobs: heartbeats, RQ's commands, maintenance, what dead workers left behind."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

from redis.exceptions import RedisError
from rq.command import parse_payload
from rq.executions import Execution
from rq.scheduler import RQScheduler

from lattice.abort import end_tasks
from lattice.rq.backoff import Backoff
from lattice.rq.worker import REDIS_DOWN, AsyncWorker

__all__ = ["Upkeep"]

_log = logging.getLogger("lattice.rq")
_WHOLE_SECONDS = 2.5
"""Seconds within which a heartbeat surely changes: it is written in whole seconds."""

_SCHEDULER_TRIES = 5
"""Seconds between two tries to become the scheduler of a queue while another worker is."""


class Upkeep:
    """The background duties of one worker; each is a loop of its own that outlives a Redis that goes away."""

    def __init__(self, worker: AsyncWorker, *, lease: float, stop_run: Callable[[str], Awaitable[Any]]) -> None:
        """Take the worker, the lease of runs in seconds, and what stops a run that RQ was asked to stop."""
        self.worker = worker
        self.books = worker.books
        self.beat = min(10.0, lease / 6)
        self.patience = max(lease - 2 * self.beat, _WHOLE_SECONDS)
        self.stop_run = stop_run
        self._stuck: dict[str, float] = {}
        self._beats: dict[str, tuple[float, float]] = {}
        """What the last heartbeat of each execution wrote, and since when it has been seen here."""
        self._looked_at = time.monotonic()
        self._scheduler: Any = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start all duties."""
        duties = (
            self._repeat("heartbeat", self.beat, self.heartbeat),
            self._repeat("mending", self.beat, self.mend),
            self._repeat("RQ maintenance", self.worker.maintenance_interval, self.maintain),
            self._repeat("scheduling", 1.0, self.schedule),
            self._repeat("listening for commands", 0.0, self.listen),
        )
        self._tasks = [asyncio.get_running_loop().create_task(duty) for duty in duties]

    async def stop(self) -> None:
        """Stop all duties, and let another worker be the scheduler."""
        await end_tasks(self._tasks)
        if self._scheduler is not None and self._scheduler.acquired_locks:
            try:
                await self.worker.in_thread(self._scheduler.stop)
            except REDIS_DOWN:
                _log.debug("the scheduler lock expires by itself", exc_info=True)

    async def _repeat(self, what: str, seconds: float, step: Callable[[], Awaitable[None]]) -> None:
        backoff = Backoff()
        while True:
            try:
                await step()
                backoff.reset()
                await asyncio.sleep(seconds)
            except REDIS_DOWN as error:
                await backoff.pause(what, error)
            except RedisError as error:
                _log.exception("%s failed", what)
                await backoff.pause(what, error)

    # --- duties -------------------------------------------------------------------------------------------------

    async def heartbeat(self) -> None:
        """Say that the worker and its jobs live."""
        await self.books.heartbeat(list(self.worker.running.values()), worker_ttl=int(6 * self.beat) + 1)

    async def mend(self) -> None:
        """Drop what is over, put back jobs that died between queue and begin, adopt jobs whose worker is silent."""
        await self.books.trim()
        await self._return_stuck()
        silent = await self._silent()
        words = await self.worker.adopt([execution.job_id for execution in silent])
        for execution in silent:
            word = words[execution.job_id]
            if word == "adopted":
                _log.info("job %s has no live worker; this one goes on with it", execution.job_id)
            elif word != "running":
                await self.books.forget(execution)

    async def _silent(self) -> list[Execution]:
        """Return executions whose heartbeat has not changed for long, by the clock of this process alone.

        What a heartbeat writes is the time of its own machine, which may be minutes away from that of this one.
        """
        here = time.monotonic()
        beats = await self.books.heartbeats()
        # After a server that was away nobody can have written a heartbeat: everybody gets the time to do so.
        known = self._beats if here - self._looked_at < self.patience / 2 else {}
        self._looked_at = here
        self._beats = {
            entry: known[entry] if entry in known and known[entry][0] == beat else (beat, here)
            for entry, beat in beats.items()
        }
        silent = [entry for entry, (_, since) in self._beats.items() if here - since >= self.patience]
        return [self.books.execution(entry) for entry in silent]

    async def _return_stuck(self) -> None:
        # An id is between queue and begin for milliseconds. Should its worker live after all, the run is still driven
        # once: whoever begins it second finds its lease held.
        here = time.monotonic()
        ids = [job_id for job_id in await self.books.stuck_ids() if job_id not in self.worker.running]
        self._stuck = {job_id: self._stuck.get(job_id, here) for job_id in ids}
        for job_id, seen in list(self._stuck.items()):
            if here - seen >= self.beat:
                _log.info("job %s was taken by a worker that died; it is queued again", job_id)
                await self.books.put_back(job_id)
                del self._stuck[job_id]

    async def maintain(self) -> None:
        """Let RQ clean its registries."""
        await self.worker.in_thread(self.worker.run_maintenance_tasks)

    async def schedule(self) -> None:
        """Enqueue scheduled jobs that are due, if this worker holds RQ's scheduler lock."""
        if self._scheduler is None:
            self._scheduler = RQScheduler(
                [self.worker.queue],
                connection=self.worker.queue.connection,
                serializer=self.worker.queue.serializer,
                name=self.worker.name,
                logging_level=logging.WARNING,
            )
        held = await self.worker.in_thread(self._schedule_once)
        if not held:
            await asyncio.sleep(_SCHEDULER_TRIES)

    def _schedule_once(self) -> bool:
        scheduler = self._scheduler
        if not scheduler.acquired_locks:
            if not scheduler.acquire_locks():
                return False
            scheduler.register_birth()
        scheduler.heartbeat()
        scheduler.enqueue_scheduled_jobs()
        return bool(scheduler.acquired_locks)

    async def listen(self) -> None:
        """Obey ``rq``'s commands: stop a job, shut down."""
        async with self.books.redis.pubsub() as pubsub:
            await pubsub.subscribe(self.worker.pubsub_channel_name)
            while True:
                message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=15)
                if message is not None:
                    await self._obey(parse_payload(message))

    async def _obey(self, payload: dict[str, Any]) -> None:
        command = payload.get("command")
        if command == "shutdown":
            os.kill(os.getpid(), signal.SIGINT)
        elif command in ("stop-job", "stop-execution") and payload.get("job_id") in self.worker.running:
            await self.stop_run(payload["job_id"])
        else:
            _log.warning("RQ command %s is ignored", payload)
