"""Abort signals: how a caller tells work that is under way to stop."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Self, TypeVar

from lattice.errors import AbortError, OptionError

__all__ = ["AbortController", "AbortSignal", "end_tasks"]

T = TypeVar("T")


class AbortSignal:
    """Says whether its controller has aborted; listeners hear it once.

    Safe to read and to fire from any thread. ``reason`` is what the controller was given, an ``AbortError`` by default.
    """

    __slots__ = ("_listeners", "_lock", "_reason", "_timer", "_upstream")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[object, Callable[[], Any]] = {}
        self._reason: BaseException | None = None
        self._timer: threading.Timer | None = None
        self._upstream: list[Callable[[], None]] = []

    @property
    def aborted(self) -> bool:
        """Whether the signal has fired."""
        return self._reason is not None

    @property
    def reason(self) -> BaseException | None:
        """Why it fired; None while it has not."""
        return self._reason

    def throw_if_aborted(self) -> None:
        """Raise ``AbortError`` if the signal has fired."""
        if self._reason is not None:
            raise AbortError("Operation aborted", cause=self._reason)

    def add_listener(self, listener: Callable[[], Any]) -> Callable[[], None]:
        """Call ``listener`` once when the signal fires (at once if it has); returns a function that takes it back."""
        key = object()
        with self._lock:
            if self._reason is None:
                self._listeners[key] = listener
                return lambda: self._forget(key)
        listener()
        return lambda: None

    def _forget(self, key: object) -> None:
        with self._lock:
            self._listeners.pop(key, None)

    def _fire(self, reason: BaseException) -> None:
        with self._lock:
            if self._reason is not None:
                return
            self._reason = reason
            listeners = list(self._listeners.values())
            self._listeners.clear()
        if self._timer is not None:
            self._timer.cancel()
        for listener in listeners:
            listener()

    async def wait(self) -> None:
        """Return when the signal has fired."""
        loop = asyncio.get_running_loop()
        fired = loop.create_future()

        def settle() -> None:
            if not fired.done():
                fired.set_result(None)

        forget = self.add_listener(lambda: loop.call_soon_threadsafe(settle))
        try:
            await fired
        finally:
            forget()

    @classmethod
    def timeout(cls, ms: int) -> Self:
        """Return a signal that fires after ``ms`` milliseconds.

        Raises:
            OptionError: ``ms`` is not a positive integer.
        """
        if type(ms) is not int or ms <= 0:
            raise OptionError(f"AbortSignal.timeout: ms must be a positive integer, not {ms!r}")
        signal = cls()
        timer = threading.Timer(ms / 1000, signal._fire, [AbortError(f"Timed out after {ms}ms")])
        timer.daemon = True
        signal._timer = timer
        timer.start()
        return signal

    @classmethod
    def any(cls, signals: "Iterable[AbortSignal | None]") -> "AbortSignal":
        """Return a signal that fires as soon as one of ``signals`` does; call ``release`` when it is done with."""
        combined = AbortSignal()
        for source in signals:
            if source is not None:
                combined._upstream.append(source.add_listener(partial(combined._follow, source)))
        return combined

    def _follow(self, source: "AbortSignal") -> None:
        self._fire(source.reason if source.reason is not None else AbortError())

    def release(self) -> None:
        """Stop listening to the signals that this one was made from."""
        for forget in self._upstream:
            forget()
        self._upstream.clear()

    async def race(self, work: Awaitable[T]) -> T:
        """Await ``work``, or cancel it and raise ``AbortError`` as soon as the signal fires.

        Raises:
            AbortError: the signal fired first.
        """
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        forget = self.add_listener(lambda: loop.call_soon_threadsafe(task.cancel))
        try:
            return await task
        except asyncio.CancelledError:
            if self.aborted and not _cancelled_from_outside():
                raise AbortError("Operation aborted", cause=self._reason) from None
            raise
        finally:
            forget()
            if not task.done():
                task.cancel()


def _cancelled_from_outside() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class AbortController:
    """Owns a signal; ``abort()`` fires it."""

    __slots__ = ("signal",)

    def __init__(self) -> None:
        self.signal = AbortSignal()

    def abort(self, reason: BaseException | str | None = None) -> None:
        """Fire the signal; only the first call counts."""
        if not isinstance(reason, BaseException):
            reason = AbortError(reason)
        self.signal._fire(reason)  # noqa: SLF001 - the controller is the one that may


async def end_tasks(tasks: Iterable["asyncio.Task[Any]"], every: float = 0.5) -> None:
    """Cancel tasks and return when all have ended.

    A cancellation may be swallowed on its way: Python 3.11's ``wait_for`` does so when what it waits for ends at that
    moment, and redis-py sends commands through it. So those that go on are cancelled again every so many seconds.
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        ended, running = await asyncio.wait(running, timeout=every)
        for task in ended:
            if not task.cancelled():
                task.exception()  # whoever ends a task does not care how it ended
