"""A coordinator's working parts put together: the RQ worker, its upkeep, and the takeover of runs of the dead."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import redis as blocking_redis
from redis.asyncio import Redis

from lattice.abort import end_tasks
from lattice.errors import RunHeldError, RunParkedError, StoreError
from lattice.rq.backoff import Backoff
from lattice.rq.jobs import Engine, context_of
from lattice.rq.queue import queue_of
from lattice.rq.upkeep import Upkeep
from lattice.rq.worker import REDIS_DOWN, AsyncWorker
from lattice.run_store import RunStore
from lattice.runs import RunStatus
from lattice.team.upkeep import LeaseWatch

__all__ = ["RunService", "ServiceOptions", "run_service"]

_LOOK = 0.1
"""Seconds between two looks at the legs of a process that leaves."""

_log = logging.getLogger("lattice.rq")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """Who serves, how many runs at once, for how long a dead one keeps its runs, how many seconds results are kept."""

    process_id: str
    concurrency: int
    lease_ms: int
    keep: int


class RunService:
    """Drives the runs of a team's RQ queue with an engine until it is told to stop."""

    def __init__(
        self, worker: AsyncWorker, upkeep: Upkeep, store: RunStore, engine: Engine, options: ServiceOptions
    ) -> None:
        """Take the parts; ``run_service`` makes them."""
        self.worker = worker
        self.upkeep = upkeep
        self._store = store
        self._engine = engine
        self._options = options
        self._leases = LeaseWatch(store, options.process_id, options.lease_ms, runs=True)
        self._orphans: dict[str, asyncio.Task[None]] = {}

    async def serve(self, *, burst: bool = False) -> None:
        """Take and drive runs; returns when ``stop_taking`` was called, or with ``burst`` when nothing is left."""
        taking_over = asyncio.get_running_loop().create_task(self._take_over_for_ever())
        try:
            await self.worker.take_jobs(burst=burst)
        finally:
            await end_tasks([taking_over])

    async def stop_taking(self) -> None:
        """Take no further run; those that are under way go on."""
        await self.worker.stop_taking()

    async def legs_ended(self, within: float) -> bool:
        """Wait until every run here waits for members (or has ended); False if ``within`` seconds were not enough."""
        deadline = time.monotonic() + within
        while await self._legs():
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(_LOOK)
        return True

    async def _legs(self) -> bool:
        for run_id in list(self.worker.running):
            run = await self._store.get_run(run_id)
            if run is not None and run.status is RunStatus.RUNNING:
                return True
        return False

    async def drained(self) -> None:
        """Return when no run is under way here."""
        await self.worker.drained()
        await asyncio.gather(*self._orphans.values(), return_exceptions=True)

    async def _take_over_for_ever(self) -> None:
        backoff = Backoff(longest=self._leases.longest)
        while True:
            try:
                freed = await self.take_over()
                await self._store.forget_runs()
                pause = await self._leases.pause(freed)
                backoff.reset()
                await asyncio.sleep(pause)
            except (*REDIS_DOWN, StoreError) as error:
                await backoff.pause("looking for runs of dead coordinators", error)

    async def take_over(self) -> int:
        """Free expired work items, go on with runs whose coordinator died; returns how many there were of both."""
        expired = await self._leases.look()
        words = await self.worker.adopt([lease.id for lease in expired if lease.kind == "run"])
        for run_id, word in words.items():
            _log.info("run %s lost its coordinator (%s)", run_id, word, extra={"run_id": run_id})
            if word == "unknown" and run_id not in self._orphans:
                task = asyncio.get_running_loop().create_task(self._drive_orphan(run_id))
                self._orphans[run_id] = task
        return len(expired)

    async def _drive_orphan(self, run_id: str) -> None:
        """A run whose RQ job somebody deleted still reaches its end."""
        try:
            with suppress(RunHeldError, RunParkedError):
                await self._engine.drive(run_id)
        finally:
            self._orphans.pop(run_id, None)


async def _made(make: Callable[[], AsyncWorker]) -> AsyncWorker:
    """Make a worker, which asks Redis things; wait for a Redis that hangs up just then."""
    backoff = Backoff()
    while True:
        try:
            return await asyncio.to_thread(make)
        except REDIS_DOWN as error:
            await backoff.pause("starting", error)


async def _open(worker: AsyncWorker) -> None:
    backoff = Backoff()
    while True:
        try:
            return await worker.open()
        except REDIS_DOWN as error:
            await backoff.pause("appearing as a worker", error)
        except ValueError:
            # RQ refuses a name that is taken: after a reply that was lost, it is this worker's own.
            if backoff.tries == 0:
                raise
            return None


@asynccontextmanager
async def run_service(
    redis: Redis, blocking: "blocking_redis.Redis", team: str, store: RunStore, engine: Engine, options: ServiceOptions
) -> AsyncIterator[RunService]:
    """Appear as a worker of the team's queue, and disappear at the end.

    ``redis`` and ``blocking`` return bytes; the latter is for RQ's own blocking calls, which run in threads.
    """
    queue = queue_of(team, blocking)
    worker = await _made(
        partial(
            AsyncWorker,
            queue,
            redis,
            name=options.process_id,
            concurrency=options.concurrency,
            keep=options.keep,
            context=context_of(engine),
        )
    )

    async def stop_run(run_id: str) -> None:
        await store.cancel_run(run_id, "stopped through RQ")

    upkeep = Upkeep(worker, lease=options.lease_ms / 1000, stop_run=stop_run)
    await _open(worker)
    upkeep.start()
    try:
        yield RunService(worker, upkeep, store, engine, options)
    finally:
        await upkeep.stop()
        await worker.close()
