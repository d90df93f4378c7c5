"""Waiting for the ends of many runs on one connection."""

import asyncio
from collections.abc import Mapping
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, RedisError

from lattice.redis.keys import Keys
from lattice.redis.wire import Reply, Wire
from lattice.run_store import RUN_ENDED

__all__ = ["RunEnds"]

_BLOCK_MS = 5_000
_SHORT_BLOCK_MS = 500
"""Milliseconds of a read that cannot be broken off when there is one more run to wait for."""

_MARGIN = 10.0
"""Seconds that a server may take to answer beyond the wait that it was asked for."""

_MARK = f'"{RUN_ENDED}"'.encode()
_PACE, _LONGEST_PACE = 0.0001, 0.05
"""Seconds between two reads for each run that is waited for: with many of them, many events share a read."""


class RunEnds:
    """Reads the event streams of all runs that somebody waits for, in one blocking command."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis: Any = redis
        self._wire = Wire(redis)
        self._keys = keys
        self._offsets: dict[bytes, bytes] = {}
        self._waiting: dict[bytes, list[asyncio.Future[None]]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._reading: Mapping[bytes, bytes] = {}
        self._blocked: int | None = None
        self._client_id: int | None = None
        self._nudge = asyncio.Lock()

    async def wait(self, run_id: str, after: bytes, within: float) -> bool:
        """Wait for a run's last event to be written after an offset; False if that was not ``within`` seconds.

        Raises:
            RedisError: the connection broke; the caller looks and asks again.
        """
        stream = self._keys.events(run_id).encode()
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(stream, []).append(future)
        self._offsets[stream] = min(after, self._offsets.get(stream, after), key=_order)
        try:
            await self._read_on(stream)
            await asyncio.wait_for(future, within)
        except TimeoutError:
            return False
        else:
            return True
        finally:
            self._forget(stream, future)

    async def close(self) -> None:
        """Stop reading."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await self._wire.close()

    def _forget(self, stream: bytes, future: "asyncio.Future[None]") -> None:
        if future.done() and not future.cancelled():
            future.exception()  # whoever waited may have been stopped before it could ask for it
        waiting = self._waiting.get(stream, [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._waiting.pop(stream, None)
            self._offsets.pop(stream, None)

    async def _read_on(self, stream: bytes) -> None:
        """Make sure that a read is under way, or comes next, that knows of this run."""
        if self._reader is None or self._reader.done():
            self._reader = asyncio.get_running_loop().create_task(self._read(), name="lattice-run-ends")
            return
        async with self._nudge:
            # The server answers 0 while the read is still on its way to it.
            while self._blocked is not None and stream not in self._reading:
                try:
                    await self._redis.client_unblock(self._blocked)
                except NoPermissionError:
                    return
                await asyncio.sleep(_PACE)

    async def _read(self) -> None:
        try:
            # The id lasts as long as the connection does: it is asked again when a read has failed.
            client_id = self._client_id if self._client_id is not None else await self._own_id()
            self._client_id = client_id
            block_ms = _BLOCK_MS if client_id is not None else _SHORT_BLOCK_MS
            while self._offsets:
                self._reading, self._blocked = dict(self._offsets), client_id
                streams = (*self._reading.keys(), *self._reading.values())
                found = await self._ask(block_ms, "XREAD", "BLOCK", block_ms, "STREAMS", *streams)
                self._blocked = None
                self._take(dict(found))
                await asyncio.sleep(min(len(self._offsets) * _PACE, _LONGEST_PACE))
        except (RedisError, OSError) as error:
            self._client_id = None
            self._fail(error)
        finally:
            self._blocked = None

    async def _own_id(self) -> int | None:
        """The id by which a read can be broken off; None for a user who may not ask for it."""
        try:
            return int(await self._ask(0, "CLIENT", "ID"))
        except NoPermissionError:
            return None

    async def _ask(self, block_ms: int, *command: Any) -> Reply:
        (reply,) = await self._wire.exchange([command], block_ms / 1000 + _MARGIN)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _take(self, found: Mapping[bytes, list[tuple[bytes, dict[bytes, bytes]]]]) -> None:
        for stream, entries in found.items():
            if stream in self._offsets:
                self._offsets[stream] = entries[-1][0]
            if any(_MARK in fields.get(b"event", b"") for _offset, fields in entries):
                for future in self._waiting.get(stream, []):
                    if not future.done():
                        future.set_result(None)

    def _fail(self, error: BaseException) -> None:
        for futures in self._waiting.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)


def _order(offset: bytes) -> tuple[int, int]:
    time, _, number = offset.partition(b"-")
    return int(time), int(number or 0)
