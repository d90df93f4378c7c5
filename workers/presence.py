"""Telling the team that this process is alive, and the health check when it last could."""

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from importlib.metadata import version

from redis.exceptions import RedisError

from lattice.abort import end_tasks
from lattice.errors import StoreError
from lattice.run_store import RunStore
from lattice.runs import ProcessInfo

__all__ = ["Presence", "announced", "this_process"]

_log = logging.getLogger("lattice.presence")

BEAT = 5.0
"""Seconds between two heartbeats."""

MISSED = 5
"""How many heartbeats a process may miss before it counts as dead."""

AWAY = (RedisError, StoreError, OSError)


def this_process(process_id: str, role: str, *, member: str | None = None, concurrency: int = 1) -> ProcessInfo:
    """Describe this process."""
    return ProcessInfo(
        id=process_id,
        role=role,
        host=os.uname().nodename,
        pid=os.getpid(),
        member=member,
        concurrency=concurrency,
        version=version("agent-lattice"),
    )


class Presence:
    """The heartbeat of a process; ``busy()`` says how much it has under way."""

    def __init__(self, store: RunStore, info: ProcessInfo, busy: Callable[[], int]) -> None:
        self._store = store
        self._info = info
        self._busy = busy
        self._last = time.monotonic()

    async def beat(self) -> None:
        """Say once that the process lives."""
        await self._store.heartbeat(replace(self._info, busy=self._busy()), round(BEAT * MISSED * 1000))
        self._last = time.monotonic()

    async def beat_for_ever(self) -> None:
        """Say so again and again; while Redis is away there is nobody to tell."""
        while True:
            await asyncio.sleep(BEAT)
            try:
                await self.beat()
            except AWAY as error:
                _log.debug("no heartbeat: %s", error)

    async def leave(self) -> None:
        """Say that the process has ended; when Redis is away its silence says it."""
        with suppress(*AWAY):
            await self._store.forget_process(self._info.id)

    def fault(self) -> str | None:
        """Say what keeps the process from its work, None if nothing does."""
        silent = time.monotonic() - self._last
        return f"no heartbeat for {silent:.0f} s" if silent > BEAT * MISSED else None


@asynccontextmanager
async def announced(store: RunStore, info: ProcessInfo, busy: Callable[[], int]) -> AsyncIterator[Presence]:
    """Say that the process lives until the block ends, and then that it has ended."""
    presence = Presence(store, info, busy)
    await presence.beat()
    beating = asyncio.create_task(presence.beat_for_ever(), name="lattice-presence")
    try:
        yield presence
    finally:
        await end_tasks([beating])
        await presence.leave()
