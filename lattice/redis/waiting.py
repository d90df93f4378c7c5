"""The run store's waits: for mail, for signals, for events."""

import asyncio
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from lattice.encoding import decode
from lattice.errors import StoreError
from lattice.redis.base import StorePart
from lattice.redis.codec import Record, pairs
from lattice.redis.connection import StoreUnreachableError

__all__ = ["Waiting"]

_FOLLOW_MARGIN_MS = 15_000
_MOST_EVENTS = 1_000
_START = "0-0"

Entry = tuple[bytes, Record]


class Waiting(StorePart):
    """Blocking waits; each runs on a connection of its own and ends with its time."""

    async def _wait(self, block_ms: int, *command: Any) -> Any:
        try:
            return await self._block(block_ms, *command)
        except (RedisConnectionError, RedisTimeoutError, OSError) as error:
            # The builtin TimeoutError is an OSError: the server said nothing for longer than the wait and its margin.
            reason = str(error) or "no answer"
            raise StoreUnreachableError(f"{command[0]}: Redis is away ({reason})", cause=error) from error
        except RedisError as error:
            raise StoreError(f"{command[0]}: {error}", cause=error) from error

    async def wait_for_mail(self, member: str, timeout_ms: int) -> bool:
        """See ``RunStore.wait_for_mail``."""
        return await self._wait(timeout_ms, "BLPOP", self.keys.doorbell(member), _seconds(timeout_ms)) is not None

    async def wait_for_signals(self, process_id: str, timeout_ms: int) -> list[str]:
        """See ``RunStore.wait_for_signals``."""
        key = self.keys.signals(process_id)
        first = await self._wait(timeout_ms, "BLPOP", key, _seconds(timeout_ms))
        if first is None:
            return []
        more = await self._lane.command("LPOP", key, 1_000)
        return [text.decode() for text in (first[1], *(more or ()))]

    async def read_events(
        self, run_id: str, after: str = "0", *, block_ms: int | None = None
    ) -> list[tuple[str, dict[str, Any]]]:
        """See ``RunStore.read_events``; an offset is the last id read of each of the run's two streams."""
        event_id, delta_id = _offset(after)
        if block_ms is not None:
            await self._lane.command("SET", self.keys.followers(run_id), "1", "PX", block_ms + _FOLLOW_MARGIN_MS)
        found = await self._read(run_id, event_id, delta_id)
        if not found and block_ms:
            await self._await_entries(run_id, event_id, delta_id, block_ms)
            found = await self._read(run_id, event_id, delta_id)
        return _merged(found, event_id, delta_id)

    async def _read(self, run_id: str, event_id: str, delta_id: str) -> list[tuple[bool, Entry]]:
        events, deltas = await asyncio.gather(
            self._lane.command("XRANGE", self.keys.events(run_id), f"({event_id}", "+", "COUNT", _MOST_EVENTS),
            self._lane.command("XRANGE", self.keys.deltas(run_id), f"({delta_id}", "+", "COUNT", _MOST_EVENTS),
        )
        return [*((False, entry) for entry in events), *((True, entry) for entry in deltas)]

    async def _await_entries(self, run_id: str, event_id: str, delta_id: str, block_ms: int) -> None:
        streams = (self.keys.events(run_id), self.keys.deltas(run_id))
        await self._wait(block_ms, "XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", *streams, event_id, delta_id)

    async def last_event(self, run_id: str) -> str:
        """Return the offset of the newest event of a run."""
        newest = await self._lane.command("XREVRANGE", self.keys.events(run_id), "+", "-", "COUNT", 1)
        return newest[0][0].decode() if newest else _START

    async def wait_for_events(self, run_id: str, after: str, timeout_ms: int) -> bool:
        """Wait until a run has an event newer than ``after``, without following its deltas."""
        event_id, _ = _offset(after)
        stream = self.keys.events(run_id)
        command = ("XREAD", "COUNT", 1, "BLOCK", max(timeout_ms, 1), "STREAMS", stream, event_id)
        return bool(await self._wait(timeout_ms, *command))


def _seconds(timeout_ms: int) -> float:
    """Return the timeout of a blocking pop; Redis 6.2 cuts what is nearly a millisecond to 0, which is for ever."""
    return max(timeout_ms, 10) / 1000


def _offset(after: str) -> tuple[str, str]:
    event_id, _, delta_id = after.partition("/")
    return _full(event_id), _full(delta_id)


def _full(entry_id: str) -> str:
    return entry_id if "-" in entry_id else _START


def _merged(found: list[tuple[bool, Entry]], event_id: str, delta_id: str) -> list[tuple[str, dict[str, Any]]]:
    """Put events and deltas in the order of time; deltas come before the message that they are parts of."""
    merged = []
    for is_delta, (entry_id, fields) in sorted(found, key=_moment):
        if is_delta:
            delta_id = entry_id.decode()
        else:
            event_id = entry_id.decode()
        merged.append((f"{event_id}/{delta_id}", decode(pairs(fields)[b"event"])))
    return merged


def _moment(entry: tuple[bool, Entry]) -> tuple[int, bool, int]:
    is_delta, (entry_id, _) = entry
    milliseconds, _, number = entry_id.partition(b"-")
    return int(milliseconds), not is_delta, int(number)
