"""A trace as a file of JSON lines, one event a line."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

from lattice.encoding import encode
from lattice.errors import OptionError
from lattice.tracer import ContextTraceEvent

__all__ = ["JsonlContextTracer", "JsonlContextTracerOptions", "create_jsonl_context_tracer"]

Redact = Callable[[ContextTraceEvent], "ContextTraceEvent | dict[str, Any] | None"]


class JsonlContextTracerOptions(TypedDict, total=False):
    """What ``create_jsonl_context_tracer()`` takes."""

    path: str | os.PathLike[str]
    dir: str | os.PathLike[str]
    redact: Redact
    fail_on_error: bool


class JsonlContextTracer:
    """Made by ``create_jsonl_context_tracer()``; each event is in the file when ``on_event`` returns."""

    __slots__ = ("__weakref__", "_dir", "_error", "_path", "_redact", "_strict")

    def __init__(self, *, path: Path | None, folder: Path | None, redact: Redact | None, strict: bool) -> None:
        self._path = path
        self._dir = folder
        self._redact = redact
        self._strict = strict
        self._error: BaseException | None = None

    def on_event(self, event: ContextTraceEvent) -> None:
        """Write one line, unless ``redact`` skips the event.

        Raises:
            OSError: the file cannot be written.
            TypeError: the event has no JSON form.
            Exception: whatever ``redact`` raised; the event is not written then.
        """
        try:
            shown = event if self._redact is None else self._redact(event)
            if shown is None:
                return
            row = shown if isinstance(shown, dict) else shown.to_dict()
            _append(self._file_of(row), encode(row) + b"\n")
        except Exception as error:
            self._error = error
            raise
        self._error = None

    async def flush(self) -> None:
        """Raise the error of the last event, if it could not be written.

        Raises:
            Exception: that error.
        """
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def close(self) -> None:
        """Like ``flush``: no file is held open."""
        await self.flush()

    def _file_of(self, row: dict[str, Any]) -> Path:
        if self._path is not None:
            return self._path
        assert self._dir is not None
        session = re.sub(r"[^\w.-]", "_", str(row.get("session_id", ""))).lstrip(".") or "unknown"
        return self._dir / f"{session}.jsonl"


def create_jsonl_context_tracer(
    *,
    path: str | os.PathLike[str] | None = None,
    dir: str | os.PathLike[str] | None = None,  # noqa: A002 - the documented name
    redact: Redact | None = None,
    fail_on_error: bool = False,
) -> JsonlContextTracer:
    """Make a tracer that writes a file.

    Args:
        path: the file; it wins over ``dir``.
        dir: a folder that gets one file a session, ``<session_id>.jsonl``.
        redact: takes each event before it is written and returns it, a changed copy (``dataclasses.replace``), a dict,
            or None to skip it.
        fail_on_error: whether an event that cannot be written leaves ``query()`` as an error.

    Raises:
        OptionError: neither ``path`` nor ``dir`` is given, or ``redact`` cannot be called.
    """
    if not path and not dir:
        raise OptionError("create_jsonl_context_tracer requires either path or dir")
    if redact is not None and not callable(redact):
        raise OptionError(f"create_jsonl_context_tracer: redact must be callable, not {redact!r}")
    return JsonlContextTracer(
        path=Path(path) if path else None, folder=Path(dir) if dir else None, redact=redact, strict=fail_on_error
    )


def _append(path: Path, line: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        handle = os.open(path, flags, 0o644)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, flags, 0o644)
    try:
        while line:
            line = line[os.write(handle, line) :]
    finally:
        os.close(handle)
