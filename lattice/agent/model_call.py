"""One model request under way: its stream events, its end, and what cuts it short."""

import asyncio
import inspect
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from lattice.abort import AbortController, AbortSignal
from lattice.errors import APIError
from lattice.model import ModelRequest
from lattice.tools.callbacks import settled

__all__ = ["STUBBORN_SECONDS", "ModelCall"]

STUBBORN_SECONDS = 0.5
"""How long a cancelled client may take to stop before it is left behind."""

_log = logging.getLogger("lattice.agent")


class ModelCall:
    """Runs ``client.create_message(request)`` as a task of its own, so that nothing can hang the loop.

    ``why`` is None, or what cut it short: ``"abort"``, ``"interrupt"``, ``"timeout"`` or ``"mail"``. ``purpose`` is
    ``"turn"`` or ``"compaction"``. ``settled_at`` is when the client came back, in seconds since 1970.
    """

    __slots__ = (
        "_controller",
        "_events",
        "_loop",
        "_task",
        "_thread",
        "_timer",
        "_wake",
        "error",
        "purpose",
        "reply",
        "settled_at",
        "why",
    )

    def __init__(self, purpose: str = "turn") -> None:
        self.purpose = purpose
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._controller = AbortController()
        self._events: deque[dict[str, Any]] = deque()
        self._wake: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.why: str | None = None
        self.reply: Any = None
        self.error: BaseException | None = None
        self.settled_at = 0.0

    @property
    def signal(self) -> AbortSignal:
        """Fires when the call is cut short."""
        return self._controller.signal

    def start(self, client: Any, request: ModelRequest, permit: Callable[[], Any] | None = None) -> None:
        """Send the request, if ``permit()`` does not raise; its deadline starts now."""
        if request.timeout_ms is not None:
            self._timer = self._loop.call_later(request.timeout_ms / 1000, self.cut, "timeout")
        self._task = _start_task(self._ask(client, request, permit), self._loop)

    def take_event(self, event: dict[str, Any]) -> None:
        """Take a stream event from the client, from any thread."""
        if self.why is not None or self._settled:
            return
        self._events.append(event)
        if threading.get_ident() == self._thread:
            self._poke()
        else:
            self._loop.call_soon_threadsafe(self._poke)

    def cut(self, why: str) -> None:
        """End the call early, from any thread; the first reason counts, and only while the client works."""
        if self.why is not None or self._settled:
            return
        self.why = why
        self._controller.abort()
        if threading.get_ident() == self._thread:
            self._poke()
        else:
            self._loop.call_soon_threadsafe(self._poke)

    async def next_event(self) -> dict[str, Any] | None:
        """Return the next stream event, or None once the call has ended and every event was taken."""
        while not self._events:
            if self.why is not None or self._settled:
                return None
            self._wake = self._loop.create_future()
            await self._wake
        return self._events.popleft()

    async def close(self) -> None:
        """Make sure that nothing goes on: cancel the client if it still works."""
        if self._timer is not None:
            self._timer.cancel()
        task = self._task
        if task is None or task.done():
            return
        self._controller.abort()
        task.cancel()
        _, running = await asyncio.wait({task}, timeout=STUBBORN_SECONDS)
        if running:
            _log.warning("the model client ignores that its request was cancelled; it is left behind")

    @property
    def _settled(self) -> bool:
        return self.settled_at > 0

    async def _ask(self, client: Any, request: ModelRequest, permit: Callable[[], Any] | None) -> None:
        # A task must not end with SystemExit or KeyboardInterrupt: asyncio would stop the loop under everybody's feet.
        try:
            if permit is not None:
                await settled(permit())
            reply = client.create_message(request)
            self.reply = await reply if inspect.isawaitable(reply) else reply
        except asyncio.CancelledError:
            self.error = APIError("the model client cancelled its own request", code="cancelled")
        except BaseException as error:  # noqa: BLE001 - handed to the loop, which decides
            self.error = error
        self.settled_at = time.time()
        if self._timer is not None:
            self._timer.cancel()
        self._poke()

    def _poke(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


def _start_task(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> "asyncio.Task[None]":
    if sys.version_info >= (3, 12):
        return asyncio.Task(work, loop=loop, eager_start=True)
    return loop.create_task(work)
