"""Working places: how many work items may be worked on at once, those that wait for others not counted."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Slots"]


class Slots:
    """A counting semaphore that can be left while waiting; whoever comes back goes before whoever is new."""

    __slots__ = ("_returning", "_waiter", "free")

    def __init__(self, count: int) -> None:
        self.free = count
        self._returning: deque[asyncio.Future[None]] = deque()
        self._waiter: asyncio.Future[None] | None = None

    @property
    def wanted(self) -> bool:
        """Whether somebody waits to come back."""
        return any(not waiter.done() for waiter in self._returning)

    def take(self) -> None:
        """Take a place that is known to be free."""
        assert self.free > 0, "no place is free"
        self.free -= 1

    def reserve(self) -> int:
        """Take every place that is free; returns how many."""
        places = max(0, self.free)
        self.free -= places
        return places

    def give_back(self) -> None:
        """Free a place: the next who comes back gets it, else whoever waits is told."""
        while self.free >= 0 and self._returning:
            waiter = self._returning.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self.free += 1
        if self.free > 0:
            self.wake()

    async def some_free(self) -> None:
        """Return when a place is free, or when ``wake`` was called."""
        if self.free > 0:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        """Let whoever waits for a place look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @asynccontextmanager
    async def left(self) -> AsyncIterator[None]:
        """Leave one's place while the block runs, and take one again after it.

        Whoever is stopped meanwhile does not wait for a place: one is owed until it is given back.
        """
        self.give_back()
        try:
            yield
        except BaseException:
            self.free -= 1
            raise
        await self._come_back()

    async def _come_back(self) -> None:
        if self.free > 0 and not self._returning:
            self.free -= 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._returning.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.done() or waiter.cancelled():
                self.free -= 1
            raise
