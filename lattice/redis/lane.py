"""Two connections that many coroutines share: calls made while they are busy travel together in the next round trip."""

import asyncio
import random
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

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
_WIRES = 2
"""With two, the server works on one while this process reads the replies of the other and goes on."""

_LONGEST_ANSWER = 15.0
"""Seconds without an answer after which the connection is taken to be dead."""

_FIRST_PAUSE = 0.02
_LONGEST_PAUSE = 1.0

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

    def as_repeat(self) -> None:
        """From now on be sent as a call whose reply was lost."""
        if self.on_repeat is not None:
            self.command = self.on_repeat

    def with_source(self) -> None:
        """From now on carry the script itself: the server had forgotten it."""
        assert self.script is not None
        self.reloaded = True
        self.command = ("EVAL", self.script.source, *self.command[2:])
        if self.on_repeat is not None:
            self.on_repeat = ("EVAL", self.script.source, *self.on_repeat[2:])


class Lane:
    """Sends commands of one event loop in few round trips; calls that nobody awaits one by one have no order.

    A command that fails fails alone. When the connection breaks, what had no reply yet is sent again, for
    ``patience`` seconds: so every command given to a lane must be safe to repeat.
    """

    def __init__(self, redis: Redis, *, patience: float = 20.0) -> None:
        self._wires = [Wire(redis) for _ in range(_WIRES)]
        self._patience = patience
        self._waiting: deque[_Call] = deque()
        self._senders: dict[Wire, asyncio.Task[None]] = {}
        self._away = 0
        """How many senders wait for replies."""

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
        call.give_up_at = time.monotonic() + self._patience
        self._waiting.append(call)
        if len(self._senders) < min(_WIRES, len(self._waiting)):
            self._start_sender()
        return await call.answer

    def _start_sender(self) -> None:
        wire = next(wire for wire in self._wires if wire not in self._senders)
        sending = self._send_all(wire)
        self._senders[wire] = asyncio.get_running_loop().create_task(sending, name="lattice-redis-lane")

    async def close(self) -> None:
        """Send what waits, then stop."""
        senders = list(self._senders.values())
        if senders:
            await asyncio.wait(senders, timeout=self._patience)
            for sender in senders:
                sender.cancel()
            await asyncio.gather(*senders, return_exceptions=True)
        for wire in self._wires:
            await wire.close()

    async def _send_all(self, wire: Wire) -> None:
        """Send what waits until nothing does."""
        failures = 0
        try:
            while self._waiting:
                again = await self._send(wire, self._share())
                self._waiting.extendleft(reversed(again))
                failures = failures + 1 if any(not call.reloaded for call in again) else 0
                if failures:
                    await asyncio.sleep(_pause(failures))
        finally:
            del self._senders[wire]

    def _share(self) -> list[_Call]:
        """Take this sender's part of what waits: the server works on one part while this process works on the other."""
        count = min(-(-len(self._waiting) // (len(self._senders) - self._away)), _MOST_AT_ONCE)
        calls = [self._waiting.popleft() for _ in range(count)]
        return [call for call in calls if not call.answer.done()]

    async def _send(self, wire: Wire, calls: list[_Call]) -> list[_Call]:
        """Send calls in one round trip; returns those that must be sent again."""
        if not calls:
            return []
        self._away += 1
        try:
            replies = await wire.exchange([call.command for call in calls], _LONGEST_ANSWER)
        except asyncio.CancelledError:
            for call in calls:
                call.answer.cancel()
            raise
        except _AWAY as error:
            for call in calls:
                call.as_repeat()
            return _still_patient(calls, error)
        except Exception as error:  # noqa: BLE001 - one call that cannot be sent must not stop the others
            return await self._send_apart(wire, calls, error)
        finally:
            self._away -= 1
        again = [call for call, reply in zip(calls, replies, strict=True) if not _resolve(call, reply)]
        return await self._heal(wire, again) if again else again

    async def _send_apart(self, wire: Wire, calls: list[_Call], error: Exception) -> list[_Call]:
        if len(calls) > 1:
            return [again for call in calls for again in await self._send(wire, [call])]
        if not calls[0].answer.done():
            calls[0].answer.set_exception(_translate(calls[0], error))
        return []

    async def _heal(self, wire: Wire, calls: list[_Call]) -> list[_Call]:
        reloaded = [call for call in calls if call.reloaded]
        refused = [call for call in calls if not call.reloaded]
        if refused:
            # The name may lead to another server by now, one that is the primary.
            await wire.disconnect()
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


def _translate(call: _Call, error: BaseException) -> StoreError:
    what = call.script.name if call.script is not None else str(call.command[0])
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
