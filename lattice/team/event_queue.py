"""The events of one run on their way to whoever iterates: delivered in order, and a brake on those who tell them."""

import asyncio
from collections import deque
from typing import Any

__all__ = ["EventQueue"]

_CROWDED = 1_000


class EventQueue:
    """Events from a run to its listener.

    ``put`` never blocks; whoever calls a model waits for ``room`` first, so a listener that stops taking events stops
    the run instead of filling the memory.
    """

    __slots__ = ("_changed", "_ended", "_events")

    def __init__(self) -> None:
        self._events: deque[Any] = deque()
        self._changed: set[asyncio.Future[None]] = set()
        self._ended = False

    def put(self, event: Any) -> None:
        """Add an event; after the end it is dropped."""
        if not self._ended:
            self._events.append(event)
            self._wake()

    def end(self) -> None:
        """Nothing follows."""
        self._ended = True
        self._wake()

    async def room(self) -> None:
        """Return when the listener is not far behind."""
        while len(self._events) >= _CROWDED and not self._ended:
            await self._change()

    async def next(self) -> Any:
        """Return the next event; None at the end."""
        while not self._events:
            if self._ended:
                return None
            await self._change()
        event = self._events.popleft()
        if len(self._events) == _CROWDED - 1:
            self._wake()
        return event

    async def _change(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed.add(future)
        try:
            await future
        finally:
            self._changed.discard(future)

    def _wake(self) -> None:
        for future in self._changed:
            if not future.done():
                future.set_result(None)
