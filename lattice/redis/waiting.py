"""The run store's waits: for mail, for signals, for events."""

import asyncio
import time
from contextlib import suppress
from typing import Any

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from lattice.encoding import decode
from lattice.errors import StoreError
from lattice.redis.base import StorePart
from lattice.redis.codec import Record, claim_of, lease_args, pairs
from lattice.redis.connection import StoreUnreachableError
from lattice.redis.wire import Command, Reply
from lattice.runs import Claim

__all__ = ["Waiting"]

_AWAY = (RedisConnectionError, RedisTimeoutError, OSError)

_UNDO_WITHIN = 2.0
"""Seconds for giving back what a wait that was broken off has claimed."""

_FOLLOW_MARGIN_MS = 15_000
_MOST_EVENTS = 1_000
_START = "0-0"

Entry = tuple[bytes, Record]


class Waiting(StorePart):
    """Blocking waits; each runs on a connection of its own and ends with its time."""

    async def _wait(self, block_ms: int, *commands: Command) -> list[Reply]:
        name = commands[0][0]
        try:
            replies = await self._block(block_ms, *commands)
        except _AWAY as error:
            # The builtin TimeoutError is an OSError: the server said nothing for longer than the wait and its margin.
            reason = str(error) or "no answer"
            raise StoreUnreachableError(f"{name}: Redis is away ({reason})", cause=error) from error
        if isinstance(replies[0], RedisError):
            raise StoreError(f"{name}: {replies[0]}", cause=replies[0])
        return replies

    async def await_claims(self, member: str, owner: str, lease_ms: int, count: int, timeout_ms: int) -> list[Claim]:
        """See ``RunStore.await_claims``; a lost connection is waited for as in ``claim``."""
        asked_at = time.monotonic()
        args = (member, owner, lease_ms, count, self._nonce())
        try:
            reply = await self._claim_when_rung(timeout_ms, args)
        except asyncio.CancelledError:
            undoing = asyncio.ensure_future(self._undo_claim(args))
            self._undoing.add(undoing)
            undoing.add_done_callback(self._undoing.discard)
            await asyncio.shield(undoing)
            raise
        return [claim_of(claim, owner, asked_at) for claim in reply]

    async def _claim_when_rung(self, timeout_ms: int, args: tuple[Any, ...]) -> Reply:
        script = self._scripts["claim"]
        bell = ("BLPOP", self.keys.doorbell(args[0]), _seconds(timeout_ms))
        claim = ("EVALSHA", script.sha, 1, self.keys.prefix, *args, "")
        try:
            rung, claimed = await self._block(timeout_ms, bell, claim)
        except _AWAY:
            return await self._run("claim", *args, "1")
        if isinstance(claimed, NoScriptError):
            claimed = await self._run("claim", *args, "", on_repeat=(*args, "1"))
        failure = claimed if isinstance(claimed, RedisError) else rung if not claimed else None
        if isinstance(failure, RedisError):
            raise StoreError(f"claim: {failure}", cause=failure)
        return claimed

    async def _undo_claim(self, args: tuple[Any, ...]) -> None:
        """Give back what a wait that was broken off may have claimed; what that does not reach runs out by itself."""
        member, owner, lease_ms, _, nonce = args
        with suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_UNDO_WITHIN):
                for claim in await self._run("claim", member, owner, lease_ms, 0, nonce, "1"):
                    await self._run("hand_back", *lease_args(claim_of(claim, owner, 0.0).lease), 0, "")

    async def wait_for_signals(self, process_id: str, timeout_ms: int) -> list[str]:
        """See ``RunStore.wait_for_signals``."""
        key = self.keys.signals(process_id)
        first, more = await self._wait(timeout_ms, ("BLPOP", key, _seconds(timeout_ms)), ("LPOP", key, 1_000))
        if isinstance(more, RedisError):
            raise StoreError(f"LPOP: {more}", cause=more)
        return [text.decode() for text in (*(first or ())[1:], *(more or ()))]

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

    async def lost_events(self, run_id: str, after: str = "0") -> int:
        """See ``RunStore.lost_events``."""
        dropped, first = await asyncio.gather(
            self._lane.command("HGET", self.keys.run(run_id), "eventsDropped"),
            self._lane.command("XRANGE", self.keys.events(run_id), "-", "+", "COUNT", 1),
        )
        event_id, _ = _offset(after)
        if not int(dropped or 0) or (first and _order(first[0][0].decode()) <= _order(event_id)):
            return 0
        return int(dropped)

    async def _read(self, run_id: str, event_id: str, delta_id: str) -> list[tuple[bool, Entry]]:
        events, deltas = await asyncio.gather(
            self._lane.command("XRANGE", self.keys.events(run_id), f"({event_id}", "+", "COUNT", _MOST_EVENTS),
            self._lane.command("XRANGE", self.keys.deltas(run_id), f"({delta_id}", "+", "COUNT", _MOST_EVENTS),
        )
        return [*((False, entry) for entry in events), *((True, entry) for entry in deltas)]

    async def _await_entries(self, run_id: str, event_id: str, delta_id: str, block_ms: int) -> None:
        streams = (self.keys.events(run_id), self.keys.deltas(run_id))
        read = ("XREAD", "COUNT", 1, "BLOCK", block_ms, "STREAMS", *streams, event_id, delta_id)
        await self._wait(block_ms, read)

    async def last_event(self, run_id: str) -> str:
        """Return the offset of the newest event of a run."""
        newest = await self._lane.command("XREVRANGE", self.keys.events(run_id), "+", "-", "COUNT", 1)
        return newest[0][0].decode() if newest else _START

    async def wait_for_events(self, run_id: str, after: str, timeout_ms: int) -> bool:
        """Wait until a run has an event newer than ``after``, without following its deltas."""
        event_id, _ = _offset(after)
        stream = self.keys.events(run_id)
        command = ("XREAD", "COUNT", 1, "BLOCK", max(timeout_ms, 1), "STREAMS", stream, event_id)
        (found,) = await self._wait(timeout_ms, command)
        return bool(found)


def _seconds(timeout_ms: int) -> float:
    """Return the timeout of a blocking pop; Redis 6.2 cuts what is nearly a millisecond to 0, which is for ever."""
    return max(timeout_ms, 10) / 1000


def _offset(after: str) -> tuple[str, str]:
    event_id, _, delta_id = after.partition("/")
    return _full(event_id), _full(delta_id)


def _order(entry_id: str) -> tuple[int, int]:
    milliseconds, _, number = entry_id.partition("-")
    return int(milliseconds), int(number)


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
