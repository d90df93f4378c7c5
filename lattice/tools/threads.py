"""Threads for ``def`` handlers: daemons, reused, bounded; a handler that hangs never holds up the process's exit."""

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

__all__ = ["ThreadPool", "handler_threads"]

_Job = Callable[[], None]


class ThreadPool:
    """Runs functions in at most ``limit`` daemon threads; more wait in order.

    A thread whose caller has given up on it no longer counts, so that handlers that hang cannot use the pool up.
    """

    def __init__(self, limit: int = 64, idle_seconds: float = 30.0) -> None:
        self._limit = limit
        self._idle_seconds = idle_seconds
        self._ready = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._idle = 0
        self._threads = 0

    def run(self, function: Callable[..., Any], *args: Any) -> "asyncio.Future[Any]":
        """Call ``function(*args)`` in a thread, with the caller's context variables; returns its future.

        Cancelling the future lets go of a job that waits; one that runs goes on, uncounted.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        state = _Counted(self)

        def job() -> None:
            if future.cancelled():
                return
            state.started = True
            try:
                result, error = context.run(function, *args), None
            except BaseException as raised:  # noqa: BLE001 - whatever it is belongs to the caller
                result, error = None, raised
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(_settle, future, result, error)
            state.finished()

        future.add_done_callback(lambda done: state.abandoned() if done.cancelled() else None)
        self._submit(job)
        return future

    def _submit(self, job: _Job) -> None:
        with self._ready:
            self._jobs.append(job)
            if self._idle >= len(self._jobs):
                self._ready.notify()
                return
            if self._threads >= self._limit:
                return
            self._threads += 1
        threading.Thread(target=self._work, name="lattice-tool", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._ready:
                if self._threads > self._limit:
                    self._threads -= 1
                    return
                self._idle += 1
                found = self._ready.wait_for(lambda: bool(self._jobs), self._idle_seconds)
                self._idle -= 1
                if not found:
                    self._threads -= 1
                    return
                job = self._jobs.popleft()
            job()

    def _uncount(self, change: int) -> None:
        spawn = False
        with self._ready:
            self._threads += change
            if change < 0 and self._jobs and not self._idle and self._threads < self._limit:
                self._threads += 1
                spawn = True
        if spawn:
            threading.Thread(target=self._work, name="lattice-tool", daemon=True).start()


class _Counted:
    """Whether one job's thread counts against the limit of its pool."""

    __slots__ = ("_lock", "_pool", "_state", "started")

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._state = "counted"
        self.started = False

    def abandoned(self) -> None:
        with self._lock:
            if not self.started or self._state != "counted":
                return
            self._state = "abandoned"
        self._pool._uncount(-1)  # noqa: SLF001 - two halves of one mechanism

    def finished(self) -> None:
        with self._lock:
            previous, self._state = self._state, "finished"
        if previous == "abandoned":
            self._pool._uncount(1)  # noqa: SLF001 - two halves of one mechanism


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):
        future.set_exception(RuntimeError(f"the handler raised StopIteration: {error}"))
    else:
        future.set_exception(error)


handler_threads = ThreadPool()
"""The threads of this process's ``def`` handlers."""
