"""Output of a command: kept in memory while small, on disk while large, shown in part when too long."""

import asyncio
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

__all__ = ["LIMIT_CHARS", "Capture", "render"]

LIMIT_CHARS = 30_000
"""How many characters of a command's output the model is shown."""

_IN_MEMORY = 256 * 1024
_MOST_BYTES = 64 * 1024 * 1024


class Capture(asyncio.Protocol):
    """Takes what comes out of one pipe; beyond 64 MiB it only counts."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.ended: asyncio.Future[None] = loop.create_future()
        self.size = 0
        self.lost = 0
        self._kept: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115 - close() closes it
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the pipe, to close it."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Keep a piece."""
        room = _MOST_BYTES - self.size
        self._kept.write(data[:room])
        self.size += min(len(data), room)
        self.lost += max(len(data) - room, 0)

    def connection_lost(self, _error: Exception | None) -> None:
        """Note that the other side has closed."""
        if not self.ended.done():
            self.ended.set_result(None)

    def close(self) -> None:
        """Let go of the pipe and of what was kept."""
        if self._transport is not None:
            self._transport.close()
        self._kept.close()

    def read(self, start: int, count: int) -> bytes:
        """Return ``count`` bytes from ``start``."""
        self._kept.seek(start)
        return self._kept.read(count)

    def copy_to(self, file: IO[Any]) -> None:
        """Append everything that was kept to ``file``."""
        for start in range(0, self.size, _IN_MEMORY):
            file.write(self.read(start, _IN_MEMORY))


def render(captures: Sequence[Capture], directory: Path) -> str:
    """Return the outputs one after the other; of long ones the beginning, the end and the name of a file with all."""
    size = sum(capture.size for capture in captures)
    lost = sum(capture.lost for capture in captures)
    if size <= LIMIT_CHARS * 4:
        text = "".join(capture.read(0, capture.size).decode("utf-8", "replace") for capture in captures)
        if len(text) <= LIMIT_CHARS:
            return text
    kept = _keep(captures, directory)
    where = f"The whole output is in {kept}: Read it in parts, or Grep it." if kept else "Ask for less output."
    note = f"[... output of {size + lost} bytes, shown in part. {where}]"
    if lost:
        note += f"\n[... the last {lost} bytes were not kept]"
    head, tail = LIMIT_CHARS // 2, LIMIT_CHARS // 2
    return f"{_piece(captures, 0, head)}\n\n{note}\n\n{_piece(captures, size - tail, tail)}"


def _piece(captures: Sequence[Capture], start: int, count: int) -> str:
    found = b""
    for capture in captures:
        if start < capture.size and len(found) < count:
            found += capture.read(max(start, 0), count - len(found))
        start -= capture.size
    return found.decode("utf-8", "replace")


def _keep(captures: Sequence[Capture], directory: Path) -> Path | None:
    path = directory / f"bash-{secrets.token_hex(6)}.txt"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for capture in captures:
                capture.copy_to(file)
    except OSError:
        return None
    return path
