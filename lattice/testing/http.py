"""As much of HTTP/1.1 as a test server on the loopback needs."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

__all__ = ["BadRequestError", "Connection", "HttpRequest"]

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error"}
_MAX_BODY = 256 * 1024 * 1024


class BadRequestError(Exception):
    """What arrived is not HTTP."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request; header names are lower case."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Connection:
    """One client connection: requests in, responses out; ``gone`` is set when the client hangs up in between."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.gone = asyncio.Event()

    async def read_request(self) -> HttpRequest | None:
        """Return the next request, or None at the end of the connection.

        Raises:
            BadRequestError: it is not HTTP.
        """
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        method, target, headers = _parse_head(head)
        length = int(headers.get("content-length", "0"))
        if length > _MAX_BODY or "transfer-encoding" in headers:
            raise BadRequestError("send a body with a content-length")
        try:
            body = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        url = urlsplit(target)
        return HttpRequest(method, url.path, dict(parse_qsl(url.query)), headers, body)

    async def watch(self) -> None:
        """Set ``gone`` when the client closes; to be cancelled when the response is complete."""
        try:
            if await self._reader.read(1) == b"":
                self.gone.set()
        except ConnectionError:
            self.gone.set()

    async def send(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Send a whole response."""
        await self._write(_head(status, {**headers, "content-length": str(len(body))}) + body)

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        """Begin a response that comes in chunks."""
        await self._write(_head(status, {**headers, "transfer-encoding": "chunked"}))

    async def chunk(self, data: bytes) -> None:
        """Send one more chunk."""
        await self._write(b"%x\r\n%b\r\n" % (len(data), data))

    async def end(self) -> None:
        """End a response that came in chunks."""
        await self._write(b"0\r\n\r\n")

    def reset(self) -> None:
        """Break the connection off."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


def _parse_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3:
        raise BadRequestError(f"not a request line: {lines[0]!r:.100}")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return parts[0], parts[1], headers


def _head(status: int, headers: dict[str, Any]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}", *(f"{name}: {headers[name]}" for name in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
