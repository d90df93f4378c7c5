"""What the parts of the Redis run store share: one lane, the keys, the scripts, ids of calls."""

import asyncio
import itertools
import os
from typing import Any

from redis.asyncio import Redis

from lattice.errors import SizeLimitError
from lattice.mailbox import TeamMessage
from lattice.redis.keys import Keys
from lattice.redis.lane import Lane
from lattice.redis.scripts import load_scripts
from lattice.redis.wire import Command, Reply, Wire
from lattice.run_store import StoreOptions

__all__ = ["StorePart"]

_MARGIN = 5.0
"""Seconds beyond a blocking wait after which its connection is taken to be dead."""


class StorePart:
    """The common ground of the run store's parts."""

    def __init__(self, redis: Redis, team: str, options: StoreOptions | None = None, *, patience: float = 20.0) -> None:
        """Take a client, the team's name, the limits, and for how many seconds a lost Redis is waited for."""
        self.options = options or StoreOptions()
        self.keys = Keys(team)
        self._redis = redis
        self._lane = Lane(redis, patience=patience)
        self._wires: list[Wire] = []
        self._idle: list[Wire] = []
        self._undoing: set[asyncio.Task[None]] = set()
        self._scripts = load_scripts()
        self._origin = os.urandom(3).hex()
        self._calls = itertools.count()

    def _nonce(self) -> str:
        """Return what tells one call from all others, and a repeat of it from a new one."""
        return f"{self._origin}{next(self._calls):x}"

    async def _run(self, name: str, *args: Any, on_repeat: tuple[Any, ...] | None = None) -> Any:
        return await self._lane.run(self._scripts[name], self.keys.prefix, *args, on_repeat=on_repeat)

    async def _word(self, name: str, *args: Any) -> str:
        word: bytes = await self._run(name, *args)
        return word.decode()

    async def _block(self, block_ms: int, *commands: Command) -> list[Reply]:
        """Send commands of which the first blocks, on a connection that nothing else waits on.

        The server carries the others out when the first is done, before it answers.
        """
        wire = self._idle.pop() if self._idle else self._another_wire()
        try:
            return await wire.exchange(commands, block_ms / 1000 + _MARGIN)
        finally:
            self._idle.append(wire)

    def _another_wire(self) -> Wire:
        wire = Wire(self._redis)
        self._wires.append(wire)
        return wire

    def _check_size(self, message: TeamMessage) -> None:
        size = len(message.content.encode(errors="replace"))
        if size > self.options.max_message_bytes:
            raise SizeLimitError(
                f"the message from {message.from_!r} to {message.to!r}", size, self.options.max_message_bytes
            )

    async def close(self) -> None:
        """See ``RunStore.close``; the client that was given stays open."""
        await asyncio.gather(*self._undoing, return_exceptions=True)
        await self._lane.close()
        for wire in self._wires:
            await wire.close()
