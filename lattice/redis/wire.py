"""One connection, used directly: commands out, replies back."""

import asyncio
from collections.abc import Sequence
from typing import Any

import hiredis
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

__all__ = ["Command", "Reply", "Wire"]

Command = tuple[Any, ...]
Reply = Any


class Wire:
    """A connection out of a client's pool, kept until ``close``.

    The client would take a connection, start two timers and make a pipeline for every round trip, which costs more than
    the round trip does, and write the commands in Python. Here one limit holds for the whole exchange. Not to be used
    by two at once.
    """

    def __init__(self, redis: Redis) -> None:
        self._pool: Any = redis.connection_pool
        self._parsers = redis.response_callbacks
        self._connection: Any = None
        self._own_timeout: float | None = None
        self._closed = False

    async def exchange(self, commands: Sequence[Command], within: float) -> list[Reply]:
        """Send commands in one go and return their replies; what the server refused is an exception among them.

        Raises:
            TypeError, ValueError: a command cannot be written; none was sent.
            redis.exceptions.ConnectionError, OSError: the connection broke, or ``within`` seconds went by: it is not
                known which of the commands were carried out. The next exchange connects anew.
        """
        packed = [hiredis.pack_command(command) for command in commands]
        async with asyncio.timeout(within):
            await self.write(packed)
            return [await self.read(command[0]) for command in commands]

    async def write(self, packed: Sequence[bytes]) -> None:
        """Send packed commands; connects if need be."""
        connection = self._connection or await self._connect()
        await connection.send_packed_command(packed, check_health=False)

    async def read(self, name: str) -> Reply:
        """Return the reply to the earliest command that has none yet; ``name`` is what it begins with.

        Whoever stops waiting for it breaks the connection, so that nobody takes it for the reply to something else.
        """
        try:
            reply = await self._connection.read_response()
        except ResponseError as error:
            return error
        parse = self._parsers.get(name)
        return reply if parse is None else parse(reply)

    async def _connect(self) -> Any:
        if self._closed:
            raise RedisConnectionError("this connection was closed by its owner")
        connection = await self._pool.get_connection()
        self._own_timeout, connection.socket_timeout = connection.socket_timeout, None
        self._connection = connection
        return connection

    async def disconnect(self) -> None:
        """Hang up; the next exchange connects anew, perhaps to another server behind the same name."""
        if self._connection is not None:
            await self._connection.disconnect(nowait=True)

    async def close(self) -> None:
        """Hang up for good and give the connection back to its pool."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.socket_timeout = self._own_timeout
            await connection.disconnect()
            await self._pool.release(connection)
