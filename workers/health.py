"""``/livez`` and ``/readyz``: whether a process does its work, not merely whether it exists."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from lattice.encoding import encode
from lattice.errors import OptionError
from workers.process import StopRequest

__all__ = ["SILENCE", "not_claiming", "not_taking", "serve_health"]

SILENCE = 30.0
"""Seconds without an answer to a claim after which a process with places for work is stuck; idle ones ask every 5."""

Check = Callable[[], str | None]
"""Returns None when all is well, else what is wrong."""


def not_claiming(silent_for: Callable[[], float]) -> str | None:
    """Say for how long nothing has been claimed, if that is too long; ``silent_for()`` returns seconds."""
    silent = silent_for()
    return f"no claim was answered for {silent:.0f} s" if silent > SILENCE else None


def not_taking(stop: StopRequest, fault: Check) -> str | None:
    """Say why no new work is for this process: it is draining, or ``fault()`` names something else."""
    return "draining" if stop.requested else fault()


@asynccontextmanager
async def serve_health(port: int | None, *, alive: Check, ready: Check) -> AsyncIterator[int | None]:
    """Answer 200 or 503 on ``port`` until the block ends (0 takes a free one); yields the port, None serves nothing.

    Raises:
        OptionError: the port is taken.
    """
    if port is None:
        yield None
        return
    checks = {b"/livez": alive, b"/readyz": ready}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(5):
                request = await reader.readline()
                writer.write(_response(request, checks))
                await writer.drain()
        except (TimeoutError, OSError, ValueError):
            pass  # whoever asked has left
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(answer, "0.0.0.0", port)  # noqa: S104 - probes come from outside
    except OSError as error:
        raise OptionError(f"cannot serve health checks on port {port}: {error.strerror or error}") from None
    async with server:
        yield server.sockets[0].getsockname()[1]


def _response(request: bytes, checks: dict[bytes, Check]) -> bytes:
    method, _, rest = request.partition(b" ")
    check = checks.get(rest.partition(b" ")[0].partition(b"?")[0])
    if check is None or method not in (b"GET", b"HEAD"):
        return _http(404, b"Not Found", {"error": "ask for /livez or /readyz"})
    wrong = check()
    if wrong is not None:
        return _http(503, b"Service Unavailable", {"status": "unavailable", "reason": wrong})
    return _http(200, b"OK", {"status": "ok"})


def _http(code: int, words: bytes, body: dict[str, str]) -> bytes:
    content = encode(body)
    head = b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    return head % (code, words, len(content)) + content
