"""Who works when, in one process: a bounded number of work items at once, one per mailbox and per live agent."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from lattice.errors import LatticeError

__all__ = ["Crew", "Job"]


class Job:
    """One work item that waits for its turn, or has it.

    ``keys`` are what it needs for itself (a mailbox, a live agent); ``parent`` is the job whose agent asked for it.
    A job without ``takes_place`` (an ask) does not count against the limit.
    """

    __slots__ = ("children", "keys", "parent", "started", "takes_place", "turn")

    def __init__(self, keys: frozenset[Hashable], *, parent: "Job | None", takes_place: bool) -> None:
        self.keys = keys
        self.parent = parent
        self.takes_place = takes_place
        self.started = False
        self.children: set[Job] = set()
        self.turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Crew:
    """The working places of one run.

    When a place is free, the first job in line starts whose keys are all idle; those behind busy keys are overtaken.
    """

    __slots__ = ("_free", "_holders", "_line", "_returning")

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._holders: dict[Hashable, Job] = {}
        self._line: list[Job] = []
        self._returning: deque[asyncio.Future[None]] = deque()

    def enter(self, job: Job) -> None:
        """Put a job in line.

        Raises:
            LatticeError: it would wait for something that waits for it.
        """
        if job.parent is not None:
            if self._waits_for(job, job.parent, set()):
                raise LatticeError(
                    "this agent is waiting for you: asking it now would never end. Answer with what you have, or ask"
                    " somebody else."
                )
            job.parent.children.add(job)
        self._line.append(job)
        self._start_jobs()

    async def turn(self, job: Job) -> None:
        """Return when a job may start."""
        await job.turn

    def leave(self, job: Job) -> None:
        """A job is over, or is taken out of the line."""
        if job.parent is not None:
            job.parent.children.discard(job)
        if job in self._line:
            self._line.remove(job)
        if job.started:
            job.started = False
            for key in job.keys:
                if self._holders.get(key) is job:
                    del self._holders[key]
            if job.takes_place:
                self._free += 1
        self._start_jobs()

    @asynccontextmanager
    async def waiting(self, job: Job) -> AsyncIterator[None]:
        """Give a job's place to others while it waits for work of its own."""
        if not job.takes_place:
            yield
            return
        self._free += 1
        self._start_jobs()
        try:
            yield
        except BaseException:
            self._free -= 1
            raise
        await self._come_back()

    async def _come_back(self) -> None:
        if self._free > 0:
            self._free -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._returning.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.done() or place.cancelled():
                self._free -= 1
            raise

    def _start_jobs(self) -> None:
        while self._free > 0 and self._returning:
            place = self._returning.popleft()
            if not place.done():
                self._free -= 1
                place.set_result(None)
        for job in list(self._line):
            if (job.takes_place and self._free <= 0) or any(key in self._holders for key in job.keys):
                continue
            self._line.remove(job)
            self._holders.update(dict.fromkeys(job.keys, job))
            self._free -= job.takes_place
            job.started = True
            if not job.turn.done():
                job.turn.set_result(None)

    def _waits_for(self, job: Job, target: Job, seen: set[Job]) -> bool:
        """Whether ``job`` cannot end before ``target`` has: through what it needs, and what that waits for."""
        if job is target:
            return True
        if job in seen:
            return False
        seen.add(job)
        needed = () if job.started else [self._holders[key] for key in job.keys if key in self._holders]
        return any(self._waits_for(other, target, seen) for other in (*needed, *job.children))
