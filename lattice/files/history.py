"""A conversation as a file of JSON lines, one message a line."""

import asyncio
import contextlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from lattice.encoding import decode, encode
from lattice.errors import OptionError

try:
    import fcntl
except ImportError:  # Windows has no advisory locks of this kind
    fcntl = None  # type: ignore[assignment]

__all__ = ["JsonlHistoryStore", "JsonlHistoryStoreOptions", "create_jsonl_history_store"]

_log = logging.getLogger("lattice.files")
_ROLES = frozenset({"user", "assistant"})
T = TypeVar("T")


class JsonlHistoryStoreOptions(TypedDict, total=False):
    """What ``create_jsonl_history_store()`` takes."""

    path: str | os.PathLike[str]
    fail_on_error: bool


class JsonlHistoryStore:
    """Made by ``create_jsonl_history_store()``. Several processes may share a file: each write holds its lock."""

    __slots__ = ("_lock", "_path", "_strict")

    def __init__(self, path: Path, *, strict: bool) -> None:
        self._path = path
        self._strict = strict
        self._lock = asyncio.Lock()

    async def load(self) -> list[dict[str, Any]]:
        """Return the messages that can be read.

        A last line that was cut off by a crash is moved to ``<path>.torn``; other lines that are no messages are
        skipped. Both are logged.

        Raises:
            OSError: the file is there but cannot be read.
        """
        return await self._in_thread(self._load)

    async def append(self, message: dict[str, Any]) -> None:
        """Write one more line.

        Raises:
            OSError: the file cannot be written.
            TypeError: the message has no JSON form.
        """
        line = encode(message) + b"\n"
        await self._in_thread(lambda: self._append(line))

    async def replace(self, messages: list[dict[str, Any]]) -> None:
        """Write the file anew; a crash leaves either the old one or the new one.

        Raises:
            OSError: the file cannot be written.
            TypeError: a message has no JSON form.
        """
        lines = b"".join(encode(message) + b"\n" for message in messages)
        await self._in_thread(lambda: self._replace(lines))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        async with self._lock:
            started = asyncio.ensure_future(asyncio.to_thread(work))
            try:
                return await asyncio.shield(started)
            except asyncio.CancelledError:
                await asyncio.wait({started})  # a thread cannot be stopped; the next write must not overtake it
                raise

    def _load(self) -> list[dict[str, Any]]:
        if not self._path.exists():
            return []
        with self._locked() as file:
            data = file.read()
            end = data.rfind(b"\n") + 1
            messages = [message for line in data[:end].splitlines() if (message := self._read(line)) is not None]
            tail = data[end:]
            if tail.strip():
                message = _message(tail)
                if message is None:
                    self._set_aside(file, tail, end)
                else:
                    messages.append(message)
        return messages

    def _read(self, line: bytes) -> dict[str, Any] | None:
        if not line.strip():
            return None
        message = _message(line)
        if message is None:
            _log.warning("%s: a line that is no message was skipped: %.80r", self._path, line)
        return message

    def _set_aside(self, file: Any, tail: bytes, end: int) -> None:
        torn = self._path.with_name(self._path.name + ".torn")
        with torn.open("ab") as other:
            other.write(tail + b"\n")
        file.truncate(end)
        _log.warning("%s: the last line was cut off by a crash; it was moved to %s", self._path, torn)

    def _append(self, line: bytes) -> None:
        with self._locked() as file:
            end = file.seek(0, os.SEEK_END)
            if end:
                file.seek(end - 1)
                if file.read(1) != b"\n":
                    line = b"\n" + line  # whatever was cut off there must not swallow this message
            file.write(line)

    def _replace(self, lines: bytes) -> None:
        with self._locked():
            folder = self._path.parent
            handle, name = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(lines)
                    file.flush()
                    os.fsync(file.fileno())
                Path(name).replace(self._path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Any]:
        """Open the file, made if it is missing, and hold its lock."""
        while True:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab+") as file:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX)
                if not _is_current(file, self._path):
                    continue  # another process has replaced the file while we waited
                file.seek(0)
                yield file
                return


def create_jsonl_history_store(*, path: str | os.PathLike[str], fail_on_error: bool = False) -> JsonlHistoryStore:
    """Make a history store that keeps a conversation in a file.

    Args:
        path: the file; it and its folders are made when they are first written.
        fail_on_error: whether an error of the store leaves ``query()``; by default the conversation goes on in memory.

    Raises:
        OptionError: ``path`` is no path.
    """
    return JsonlHistoryStore(_checked_path(path), strict=fail_on_error)


def _checked_path(path: Any) -> Path:
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise OptionError(f"create_jsonl_history_store: path must be a path, not {path!r}")
    return Path(path)


def _is_current(file: Any, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _message(line: bytes) -> dict[str, Any] | None:
    try:
        message = decode(line)
    except ValueError:
        try:
            message = json.loads(line)  # lone surrogates, which other writers may have escaped
        except ValueError:
            return None
    return message if isinstance(message, dict) and message.get("role") in _ROLES else None
