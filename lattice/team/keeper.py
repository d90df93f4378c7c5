"""Renews the leases of a process, by preference from a thread with an event loop of its own."""

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from lattice.run_store import RunStore
from lattice.runs import Lease

__all__ = ["LeaseKeeper", "OpenStore"]

OpenStore: TypeAlias = Callable[[], RunStore | Awaitable[RunStore]]
Renewed: TypeAlias = Callable[[Iterable[Lease], Iterable[Lease], float], None]

_log = logging.getLogger("lattice.team")
_RETRY = 1.0
_STOP_WITHIN = 10.0


class LeaseKeeper:
    """Renews what ``leases()`` returns three times in a lease; ``renewed(asked, lost, started)`` hears of it.

    ``renewed`` is called on the event loop that the keeper was started for.
    """

    def __init__(
        self, lease_ms: int, leases: Callable[[], list[Lease]], renewed: Renewed, open_store: OpenStore
    ) -> None:
        self._lease_ms = lease_ms
        self._leases = leases
        self._renewed = renewed
        self._open_store = open_store
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], object] | None = None
        self._ready = threading.Event()

    def start_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        """Keep leases from a thread, for the work on ``loop``."""
        self._thread = threading.Thread(target=self._in_thread, args=(loop,), name="lattice-leases", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """End the thread, if there is one."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        await asyncio.to_thread(self._ready.wait, _STOP_WITHIN)
        if self._stop is not None:
            self._stop()
        await asyncio.to_thread(thread.join, _STOP_WITHIN)

    def _in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        async def main() -> None:
            own = asyncio.get_running_loop()
            task = own.create_task(self.run(loop, close=True))
            self._stop = lambda: own.call_soon_threadsafe(task.cancel)
            self._ready.set()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(main())

    async def run(self, loop: asyncio.AbstractEventLoop, *, close: bool = False) -> None:
        """Renew until cancelled."""
        opened = self._open_store()
        store = await opened if inspect.isawaitable(opened) else opened
        pause = every = self._lease_ms / 3000
        try:
            while True:
                await asyncio.sleep(pause)
                pause = every if await self._renew(store, loop) else min(_RETRY, every)
        finally:
            if close:
                await store.close()

    async def _renew(self, store: RunStore, loop: asyncio.AbstractEventLoop) -> bool:
        asked, started = self._leases(), time.monotonic()
        if not asked:
            return True
        try:
            lost = await store.renew(asked, self._lease_ms)
        except Exception as error:  # noqa: BLE001 - the next try may work, and leases run out by themselves
            _log.warning("%d leases could not be renewed, trying again: %s", len(asked), error)
            return False
        loop.call_soon_threadsafe(self._renewed, asked, lost, started)
        return True
