"""A TCP proxy in front of Redis that can cut connections, swallow replies, or go silent."""

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

_SET_UP = (b"+OK", b"*", b"%", b"-NOPROTO")


class Proxy:
    """Forwards to a server; ``swallow`` replies are dropped together with their connection.

    Replies of a connection that is being set up are let through, and so are arrays unless ``swallow_any`` is set.
    """

    def __init__(self, url):
        parts = urlsplit(url)
        self.target = parts.hostname, parts.port
        self.database = parts.path
        self.swallow = 0
        self.swallow_any = False
        self.silent = False
        self.connections = 0
        self.writers = set()
        self.tasks = set()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        self.url = f"redis://127.0.0.1:{port}{self.database}"
        return self

    async def __aexit__(self, *_):
        self.server.close()
        self.cut()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def cut(self):
        """Break every connection now."""
        for writer in self.writers:
            writer.transport.abort()

    def refuse(self):
        """Take no new connections, and break the open ones."""
        self.server.close()
        self.cut()

    async def accept_again(self):
        """Take connections again, at the same address."""
        port = urlsplit(self.url).port
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", port)

    async def _serve(self, reader, writer):
        self.connections += 1
        task = asyncio.current_task()
        self.tasks.add(task)
        sides = [writer]
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(*self.target)
            sides.append(upstream_writer)
            self.writers |= set(sides)
            await asyncio.gather(self._pump(reader, upstream_writer), self._pump(upstream_reader, writer, replies=True))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self.writers -= set(sides)
            for side in sides:
                side.transport.abort()
            for side in sides:
                with suppress(OSError):
                    await side.wait_closed()
            self.tasks.discard(task)

    async def _pump(self, reader, writer, *, replies=False):
        while data := await reader.read(65536):
            if replies and self.silent:
                continue
            if replies and self.swallow and (self.swallow_any or not data.startswith(_SET_UP)):
                self.swallow -= 1
                raise ConnectionResetError
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError
