"""What waits inside one process: mail of a mailbox, signals to a process, readers of an event stream."""

import asyncio
from collections import deque

__all__ = ["Bell", "MailQueue"]

_MAX_RINGS = 64


class Bell:
    """Wakes one waiter a ring; rings that nobody waits for are kept, up to a limit."""

    __slots__ = ("_rings", "_waiters")

    def __init__(self) -> None:
        self._rings = 0
        self._waiters: deque[asyncio.Future[None]] = deque()

    def ring(self) -> None:
        """Wake one waiter, or be remembered."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._rings = min(self._rings + 1, _MAX_RINGS)

    def ring_all(self) -> None:
        """Wake everybody who waits now."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    def silence(self) -> None:
        """Forget the rings that nobody heard."""
        self._rings = 0

    async def wait(self, timeout_ms: int) -> bool:
        """Return True at the next ring, False after ``timeout_ms``."""
        if self._rings:
            self._rings -= 1
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await waiter
        except TimeoutError:
            return waiter.done() and not waiter.cancelled()
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.ring()
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return True


class MailQueue:
    """The claimable messages of one mailbox: those given back come first."""

    __slots__ = ("bell", "depth", "ready", "returned")

    def __init__(self) -> None:
        self.bell = Bell()
        self.depth = 0
        self.ready: deque[str] = deque()
        self.returned: deque[str] = deque()

    def add(self, message_id: str) -> None:
        """Make a message claimable, last in line."""
        self.ready.append(message_id)
        self.bell.ring()

    def give_back(self, message_id: str, *, first: bool = True) -> None:
        """Make a message claimable again before all new ones, and ``first`` before others that were given back."""
        if first:
            self.returned.appendleft(message_id)
        else:
            self.returned.append(message_id)
        self.bell.ring()

    def pop(self) -> str | None:
        """Take the next id, or return None."""
        if self.returned:
            return self.returned.popleft()
        return self.ready.popleft() if self.ready else None
