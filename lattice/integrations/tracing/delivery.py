"""Handles trace events in a thread of their own, so that no agent waits for a backend."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Delivery"]

_LIMIT = 10_000
_IDLE_SECONDS = 5.0

_log = logging.getLogger("lattice.tracer")


class Delivery:
    """Calls functions one after another in a thread that starts when it is needed and ends when it is idle.

    A function that fails does not stop the next; the first failure and the first loss are logged, all are counted in
    ``failures`` and ``dropped``. More than 10,000 waiting events are dropped: the backend cannot keep up.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._queue: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.failures = 0
        self.dropped = 0

    def submit(self, work: Callable[[], Any]) -> None:
        """Have ``work`` called soon; never waits."""
        if self._queue.qsize() >= _LIMIT:
            self._lose()
            return
        self._put(work)

    def _put(self, work: Callable[[], Any]) -> None:
        with self._lock:
            self._queue.put(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=f"lattice {self._label}", daemon=True)
                self._thread.start()

    async def drain(self, finish: Callable[[], Any] | None = None) -> None:
        """Return when all that was submitted has been called, and then ``finish``.

        Raises:
            Exception: whatever ``finish`` raised.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def last() -> None:
            try:
                if finish is not None:
                    finish()
            except Exception as error:  # noqa: BLE001 - handed to the waiting task
                loop.call_soon_threadsafe(_settle, done, error)
            else:
                loop.call_soon_threadsafe(_settle, done, None)

        self._put(last)
        await done

    def _run(self) -> None:
        while True:
            try:
                work = self._queue.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._queue.empty():
                        self._thread = None
                        return
                continue
            try:
                work()
            except Exception as error:  # noqa: BLE001 - a backend must not break the next event
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.failures += 1
        level = logging.WARNING if self.failures == 1 else logging.DEBUG
        _log.log(level, "%s could not take a trace event: %s", self._label, error)

    def _lose(self) -> None:
        self.dropped += 1
        if self.dropped == 1:
            _log.warning("%s cannot keep up: trace events are dropped from now on", self._label)


def _settle(done: "asyncio.Future[None]", error: Exception | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
