"""An RQ worker that runs many jobs at once on one event loop instead of forking a process for each."""

import asyncio
import inspect
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeVar

from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import OutOfMemoryError, ReadOnlyError, RedisError, WatchError
from redis.exceptions import TimeoutError as RedisTimeoutError
from rq import Queue
from rq.job import Job
from rq.registry import clean_registries
from rq.suspension import WORKERS_SUSPENDED
from rq.timeouts import TimerDeathPenalty
from rq.utils import now
from rq.worker import BaseWorker
from rq.worker_registration import clean_worker_registry

from lattice.errors import RunHeldError, RunParkedError
from lattice.rq.backoff import Backoff
from lattice.rq.books import Books, Ended, Running
from lattice.rq.jobs import RunCancelledError, RunFailedError, again

__all__ = ["REDIS_DOWN", "AsyncWorker"]

REDIS_DOWN = (RedisConnectionError, RedisTimeoutError, OSError, OutOfMemoryError, ReadOnlyError)
"""What a Redis raises that is away, full, or no longer the primary: all of it may pass."""

_BATCH = 32
"""Job ids taken in one go; more would let one coordinator starve the others."""

_SLICE = 5
"""Seconds of one blocking wait, far below any socket timeout."""

_log = logging.getLogger("lattice.rq")
T = TypeVar("T")


class AsyncWorker(BaseWorker):
    """Runs the jobs of one queue on the running event loop, up to ``concurrency`` at once.

    Coroutine functions run on the loop, plain ones in a thread. What is rare (retries,
    callbacks, webhooks, dependents) runs RQ's own code in a thread; the common path is one pipeline for many jobs.
    """

    death_penalty_class = TimerDeathPenalty
    log_result_lifespan = False

    def __init__(
        self, queue: Queue, redis: Redis, *, name: str, concurrency: int, keep: int, context: Context | None = None
    ) -> None:
        """Take a queue with a blocking connection, an asyncio client, and for how many seconds results are kept.

        Jobs run in ``context``, by default the current one. Talks to Redis; call it in a thread.
        """
        super().__init__(
            [queue],
            name=name,
            connection=queue.connection,
            default_result_ttl=keep,
            serializer=queue.serializer,
            log_job_description=False,
        )
        self.log = _log
        self.queue = queue
        self.concurrency = concurrency
        self.keep = keep
        self._context = copy_context() if context is None else context
        self.books = Books(self, queue, redis)
        self.running: dict[str, Running] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._later: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._ended: list[Ended] = []
        self._flush: asyncio.Task[None] | None = None
        self._threads = ThreadPoolExecutor(4, thread_name_prefix="rq")
        self._moved: list[str] = []
        """Ids that were moved out of the queue for this worker; kept until their jobs are known, Redis away or not."""
        self._taking = True
        self._asking_since: float | None = None
        self._stopped = asyncio.Event()
        self._stopped.set()

    # --- the life of the worker ---------------------------------------------------------------------------------

    async def open(self) -> None:
        """Appear in RQ's list of workers."""
        await self.in_thread(self.register_birth)
        await self.in_thread(partial(self.set_state, "idle"))

    async def close(self) -> None:
        """Disappear from RQ's list of workers."""
        try:
            await self.in_thread(self.register_death)
        except REDIS_DOWN:
            _log.warning("Redis is away: worker %s stays listed until its record expires", self.name)
        await self.books.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def take_jobs(self, *, burst: bool = False) -> None:
        """Take jobs and start them until told to stop; with ``burst`` until nothing is queued or running."""
        backoff = Backoff()
        self._stopped.clear()
        try:
            while self._taking:
                try:
                    taken = await self._take(burst=burst)
                    backoff.reset()
                except REDIS_DOWN as error:
                    await backoff.pause("taking jobs", error)
                    continue
                if burst and not taken:
                    if not self.running:
                        return
                    await self._wait_for_change()
        finally:
            self._stopped.set()

    @property
    def is_taking(self) -> bool:
        """Whether it takes jobs."""
        return self._taking and not self._stopped.is_set()

    @property
    def silent_for(self) -> float:
        """Seconds since the queue last answered; 0 while there is no place for more jobs, or none is wanted."""
        return time.monotonic() - self._asking_since if self._taking and self._asking_since is not None else 0.0

    async def stop_taking(self) -> None:
        """Take no further job; a wait that is under way is broken off at the server, so that it takes none either."""
        self._taking = False
        self._changed.set()
        while not self._stopped.is_set():
            try:
                await self.books.break_off()
            except (RedisError, OSError):
                _log.debug("the wait for jobs ends by itself", exc_info=True)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), 0.2)

    async def drained(self) -> None:
        """Return when no job runs here and all that ended has been written."""
        while self.running:
            await self._wait_for_change()

    async def _take(self, *, burst: bool) -> bool:
        while self._free() <= 0 and self._taking:
            await self._wait_for_change()
        if not self._taking:
            return False
        if self._asking_since is None:
            self._asking_since = time.monotonic()
        if await self.books.redis.exists(WORKERS_SUSPENDED):
            self._asking_since = None
            await asyncio.sleep(1)
            return not burst
        if not self._moved:
            first = await self.books.next_id(None if burst else _SLICE)
            self._moved = [] if first is None else [first]
        self._asking_since = None
        taken = bool(self._moved)
        while self._moved:
            waiting = await self._start(self._moved)
            self._moved = await self.books.more_ids(self._room(waiting))
        return taken

    async def _start(self, ids: list[str]) -> int:
        jobs, waiting = await self.books.fetch(ids)
        self._moved = []
        for job in jobs:
            if job.id in self.running:
                self._start_later(job.id)
        await self._begin([job for job in jobs if job.id not in self.running])
        return waiting

    async def _begin(self, jobs: Sequence[Job]) -> None:
        """Start jobs, and tell RQ meanwhile: they get that round trip for free."""
        begun = [self.books.begin(job) for job in jobs]
        for running in begun:
            self._launch(running)
        if begun:
            # Also when whoever waits here is cancelled, as by a worker that leaves: their ends wait for it.
            await asyncio.shield(self._keep(self._tell_begun(begun)))

    async def _tell_begun(self, begun: Sequence[Running]) -> None:
        await self._surely("begin", partial(self.books.write_begun, begun))
        for running in begun:
            running.written.set()

    def _start_later(self, job_id: str) -> None:
        """A job that is queued again before its last execution has been written to the end (a retry) waits for that."""

        async def start() -> None:
            while job_id in self.running:
                await self._wait_for_change()
            await self._surely("starting a job", partial(self._start, [job_id]))

        _ = self._keep(start())

    def _keep(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)
        return task

    def _room(self, waiting: int) -> int:
        return min(waiting, self._free(), _BATCH) if self._taking else 0

    def _free(self) -> int:
        return self.concurrency - len(self.running)

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def handle_exception(self, job: Job, *exc_info: Any) -> None:
        """Tell the log; a run that failed as runs fail has been told of already, anything else is a traceback."""
        if isinstance(exc_info[1], RunFailedError):
            _log.debug("run %s failed", job.id, extra={"run_id": job.id})
        else:
            super().handle_exception(job, *exc_info)

    def clean_registries(self) -> None:
        """Let RQ clean the registries of the queue, but not fail jobs that died between queue and begin."""
        queue: Any = self.queue
        if queue.acquire_maintenance_lock():
            clean_registries(queue, self._exc_handlers)
            clean_worker_registry(queue)
            queue.release_maintenance_lock()
        vars(self)["last_cleaned_at"] = now()

    # --- one job ------------------------------------------------------------------------------------------------

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Start a job that was dequeued; it runs on the loop while this method returns at once."""
        del queue  # a job knows where it came from
        _ = self._keep(self._begin([job]))

    async def adopt(self, job_ids: Sequence[str]) -> dict[str, str]:
        """Run jobs that a dead worker left behind; returns what became of each.

        Words: adopted, running (here already), ended (somebody finished it), unknown (RQ forgot it).
        """
        words = dict.fromkeys(job_ids, "running")
        found = await self.books.adopt([job_id for job_id in words if job_id not in self.running])
        for job_id, job in found.items():
            if job_id not in self.running:  # it may have come through the queue meanwhile
                words[job_id] = job if isinstance(job, str) else "adopted"
        await self._begin([job for job in found.values() if isinstance(job, Job) and words[job.id] == "adopted"])
        return words

    def _launch(self, running: Running) -> None:
        job = running.job
        self.running[job.id] = running
        task = asyncio.get_running_loop().create_task(self._perform(running), context=self._context.copy())
        self._tasks[job.id] = task

    async def _call(self, job: Job) -> Any:
        function = job.func
        if inspect.iscoroutinefunction(function):
            limit = job.timeout if job.timeout and job.timeout > 0 else None
            async with asyncio.timeout(limit):
                return await function(*job.args, **job.kwargs)
        return await self.in_thread(job.perform)

    async def _outcome(self, running: Running) -> Any:
        try:
            return await self._call(running.job)
        except RunHeldError:
            # The holder may have told RQ of the end before RQ was told of this beginning, which would then stand for
            # ever; a run that has ended by now says so.
            await running.written.wait()
            return await self._call(running.job)

    async def _perform(self, running: Running) -> None:
        again.set(running.again)
        try:
            value = await self._outcome(running)
        except RunHeldError:
            await self._write(running, "release", partial(self.books.release, running))
        except RunParkedError:
            await self._write(running, "hand over", partial(self.books.hand_over, running))
        except RunCancelledError as error:
            await self._write(running, "cancel", partial(self.books.cancel, running, error.outcome, self.keep))
        except asyncio.CancelledError:
            self._done(running)
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a job raises is the job's failure
            _log.debug("job %s failed", running.job.id, exc_info=error)
            await self._fail(running, sys.exc_info())
        else:
            await self._succeed(running, value)
            return
        self._done(running)

    def _done(self, running: Running) -> None:
        self.running.pop(running.job.id, None)
        self.executions.pop(running.execution.id, None)
        self._tasks.pop(running.job.id, None)
        self._changed.set()

    # --- how it ended -------------------------------------------------------------------------------------------

    async def _write(self, running: Running, what: str, step: Callable[[], Awaitable[None]]) -> None:
        await running.written.wait()
        await self._surely(what, step)

    async def _succeed(self, running: Running, value: Any) -> None:
        ended = Ended(running, value)
        await running.written.wait()
        if _is_plain(running.job):
            self._ended.append(ended)
            if self._flush is None or self._flush.done():
                self._flush = asyncio.get_running_loop().create_task(self._write_ended())
            return
        await self._finish_by_rq(ended)

    async def _write_ended(self) -> None:
        while self._ended:
            batch, self._ended = self._ended, []
            idle = len(batch) == len(self.running)
            try:
                left = await self._surely("finish", partial(self.books.finish, batch, idle=idle))
            except WatchError:
                left = batch
            for ended in left:
                await self._finish_by_rq(ended)
            for ended in batch:
                self._done(ended.running)

    async def _finish_by_rq(self, ended: Ended) -> None:
        finish = partial(self._finalize_success, ended.job, self.queue, ended.running.execution, ended.value)
        await self._surely("finish", lambda: self.in_thread(finish))
        self._done(ended.running)

    async def _fail(self, running: Running, exc_info: Any) -> None:
        finish = partial(self._finalize_failure, running.job, self.queue, running.execution, exc_info)
        await self._write(running, "fail", lambda: self.in_thread(finish))

    async def _surely(self, what: str, step: Callable[[], Awaitable[T]]) -> T:
        """Repeat a step until Redis answers; what ended must be told even if Redis is away for a while."""
        backoff = Backoff()
        while True:
            try:
                return await step()
            except REDIS_DOWN as error:
                await backoff.pause(what, error)

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run one of RQ's blocking calls in the worker's own small pool."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


def _is_plain(job: Job) -> bool:
    """Whether finishing it needs nothing but its result; its dependents are looked at later."""
    return not (
        job.webhooks
        or job._success_callback_name  # noqa: SLF001 - the public property imports the callback
        or job.has_rate_limit
        or job.repeats_left
        or job.group_id
        or job.get_result_ttl(1) == 0
    )
