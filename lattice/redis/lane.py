"""One connection that many coroutines share: calls made while it is busy travel together."""

import asyncio
import random
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import hiredis
from redis.asyncio import Redis
from redis.exceptions import BusyLoadingError, NoScriptError, OutOfMemoryError, ReadOnlyError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from lattice.errors import StoreError
from lattice.redis.connection import StoreUnreachableError
from lattice.redis.scripts import Script
from lattice.redis.wire import Command, Reply, Wire

__all__ = ["Lane"]

_MOST_AT_ONCE = 128
_FEW = 4
"""Fewer calls than these are not worth a second write."""

_LONGEST_ANSWER = 15.0
"""Seconds without an answer after which the connection is taken to be dead."""

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 0.5

_AWAY = (RedisConnectionError, RedisTimeoutError, OSError)
_PASSING = (BusyLoadingError, ReadOnlyError)
"""Replies of a server that is about to be replaced or to be ready: the command was not carried out."""


@dataclass(slots=True, eq=False)
class _Call:
    command: Command
    answer: "asyncio.Future[Reply]"
    script: Script | None = None
    on_repeat: Command | None = None
    reloaded: bool = False
    give_up_at: float = 0.0
    packed: bytes = b""

    def pack(self) -> None:
        """Write the command down, as it is now."""
        try:
            self.packed = hiredis.pack_command(self.command)
        except (TypeError, ValueError) as error:
            raise _translate(self, error) from error

    def as_repeat(self) -> None:
        """From now on be sent as a call whose reply was lost."""
        if self.on_repeat is not None:
            self.command = self.on_repeat
            self.pack()

    def with_source(self) -> None:
        """From now on carry the script itself: the server had forgotten it."""
        assert self.script is not None
        self.reloaded = True
        self.command = ("EVAL", self.script.source, *self.command[2:])
        if self.on_repeat is not None:
            self.on_repeat = ("EVAL", self.script.source, *self.on_repeat[2:])
        self.pack()


class Lane:
    """Sends the commands of one event loop in the order in which they were given, in few round trips.

    A command that fails fails alone. When the connection breaks, what had no reply yet is sent again, for
    ``patience`` seconds: so every command given to a lane must be safe to repeat.
    """

    def __init__(self, redis: Redis, *, patience: float = 20.0) -> None:
        self._wire = Wire(redis)
        self._patience = patience
        self._waiting: deque[_Call] = deque()
        self._sent: deque[_Call] = deque()
        self._serving: asyncio.Task[None] | None = None
        self._closed = False

    async def command(self, *command: Any) -> Reply:
        """Run a command.

        Raises:
            StoreError: Redis refused it, or stayed away.
        """
        return await self._submit(_Call(command, _future()))

    async def run(self, script: Script, prefix: str, *args: Any, on_repeat: tuple[Any, ...] | None = None) -> Reply:
        """Run a script; ``on_repeat`` are the arguments for a call whose reply may have been lost.

        Raises:
            StoreError: Redis refused it, or stayed away.
        """
        call = _Call(("EVALSHA", script.sha, 1, prefix, *args), _future(), script)
        if on_repeat is not None:
            call.on_repeat = ("EVALSHA", script.sha, 1, prefix, *on_repeat)
        return await self._submit(call)

    async def _submit(self, call: _Call) -> Reply:
        if self._closed:
            raise StoreError(f"{_name(call)}: the store was closed")
        call.pack()
        call.give_up_at = time.monotonic() + self._patience
        self._waiting.append(call)
        if self._serving is None or self._serving.done():
            self._serving = asyncio.get_running_loop().create_task(self._serve(), name="lattice-redis-lane")
        return await call.answer

    async def close(self) -> None:
        """Send what waits, then stop; nothing can be sent afterwards.

        A call that is made later raises ``StoreError``.
        """
        self._closed = True
        if self._serving is not None and not self._serving.done():
            await asyncio.wait({self._serving}, timeout=self._patience)
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)
        await self._wire.close()

    async def _serve(self) -> None:
        """Send until nothing waits."""
        failures = 0
        try:
            while self._waiting:
                again = await self._talk()
                self._waiting.extendleft(reversed(again))
                failures = failures + 1 if any(not call.reloaded for call in again) else 0
                if failures:
                    await asyncio.sleep(_pause(failures))
        except asyncio.CancelledError:
            for call in (*self._sent, *self._waiting):
                call.answer.cancel()
            raise

    async def _talk(self) -> list[_Call]:
        """Write what waits and read what comes, until no reply is missing; returns the calls to be sent again."""
        loop = asyncio.get_running_loop()
        again: list[_Call] = []
        try:
            async with asyncio.timeout(_LONGEST_ANSWER) as limit:
                while self._sent or (self._waiting and not again):
                    if self._waiting and not again:
                        await self._write()
                    if self._sent:
                        await self._read(again)
                    limit.reschedule(loop.time() + _LONGEST_ANSWER)
        except _AWAY as error:
            lost, self._sent = [*self._sent], deque()
            for call in lost:
                call.as_repeat()
            return [*again, *_still_patient(lost, error)]
        return await self._heal(again) if again else again

    async def _write(self) -> None:
        """Write what waits; much of it in two parts: the server works on one while this process works on the other."""
        if not self._sent and len(self._waiting) >= _FEW:
            await self._write_some(len(self._waiting) // 2)
            await asyncio.sleep(0)
        await self._write_some(len(self._waiting))

    async def _write_some(self, count: int) -> None:
        calls = [self._waiting.popleft() for _ in range(min(count, _MOST_AT_ONCE))]
        calls = [call for call in calls if not call.answer.done()]
        if calls:
            self._sent.extend(calls)
            await self._wire.write([call.packed for call in calls])

    async def _read(self, again: list[_Call]) -> None:
        call = self._sent[0]
        reply = await self._wire.read(call.command[0])
        self._sent.popleft()
        if not _resolve(call, reply):
            again.append(call)

    async def _heal(self, calls: list[_Call]) -> list[_Call]:
        reloaded = [call for call in calls if call.reloaded]
        refused = [call for call in calls if not call.reloaded]
        if refused:
            # The name may lead to another server by now, one that is the primary.
            await self._wire.disconnect()
        return reloaded + _still_patient(refused, BusyLoadingError("it loads its data, or is a replica"))


def _future() -> "asyncio.Future[Reply]":
    return asyncio.get_running_loop().create_future()


def _resolve(call: _Call, reply: Reply) -> bool:
    """Answer a call; False when it has to be sent again."""
    if isinstance(reply, NoScriptError) and call.script is not None and not call.reloaded:
        call.with_source()
        return False
    if isinstance(reply, _PASSING):
        return False
    if call.answer.done():
        return True
    if isinstance(reply, BaseException):
        call.answer.set_exception(_translate(call, reply))
    else:
        call.answer.set_result(reply)
    return True


def _name(call: _Call) -> str:
    return call.script.name if call.script is not None else str(call.command[0])


def _translate(call: _Call, error: BaseException) -> StoreError:
    what = _name(call)
    if isinstance(error, OutOfMemoryError):
        return StoreError(f"{what}: Redis has no memory left ({error}); raise its maxmemory", cause=error)
    return StoreError(f"{what}: {error}", cause=error)


def _still_patient(calls: list[_Call], error: BaseException) -> list[_Call]:
    now = time.monotonic()
    patient = []
    for call in calls:
        if call.answer.done():
            continue
        if now < call.give_up_at:
            patient.append(call)
        else:
            text = str(error) or type(error).__name__
            call.answer.set_exception(StoreUnreachableError(f"Redis stayed away: {text}", cause=error))
    return patient


def _pause(failures: int) -> float:
    longest = min(_FIRST_PAUSE * 2**failures, _LONGEST_PAUSE)
    return random.uniform(longest / 2, longest)  # noqa: S311 - jitter
