"""Grep: the lines that match a regular expression."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from lattice.errors import LatticeError
from lattice.tools.builtin.define import builtin_tool, readable
from lattice.tools.builtin.read import is_binary
from lattice.tools.builtin.walk import glob_matcher, walk_files
from lattice.tools.tool import ToolContext, ToolDefinition
from lattice.workspace.workspace import Workspace

__all__ = ["make"]

_MOST_LINES = 1000
_LONGEST_LINE = 500
_LARGEST_FILE = 32 * 1024 * 1024
_SECONDS = 15.0
# Whether such an expression matches depends on where the text around the line begins and ends.
_NEEDS_LINES = ("\\A", "\\Z", "\\z", "\\G", "(?<", "(?>", "(?!", "*+", "++", "?+", "}+", "(?R", "(*", "(?s", "(?m")


class GrepInput(BaseModel):
    """What to look for, and where."""

    pattern: str = Field(description="A regular expression, matched line by line; (?i) at its start ignores case.")
    path: str = Field(default=".", description="A directory or one file, absolute or relative to the workspace.")
    include: str | None = Field(
        None, description="Only files that match this pattern, for example *.py or src/**/*.ts."
    )
    include_ignored: bool = Field(default=False, description="Also search what .gitignore files leave out.")


def make(workspace: Workspace) -> ToolDefinition:
    """Return the Grep tool of a workspace."""
    description = (
        "Search file contents by a regular expression. Returns path:line number:line, in order of path. Binary files"
        " are skipped."
    )
    return builtin_tool("Grep", description, GrepInput, _grep, workspace, reads_only=True)


def _grep(workspace: Workspace, asked: GrepInput, context: ToolContext) -> str:
    base = readable(asked.path, "Grep", workspace, context)
    search = _Search(asked.pattern)
    signal = context.signal
    candidates, notes = _candidates(base, asked, lambda: signal.aborted)
    lines: list[str] = []
    for shown, path in candidates:
        if signal.aborted:
            raise LatticeError("the search was stopped")
        for number, line in search.lines_of(path):
            lines.append(f"{shown}:{number}:{_shorten(line)}")
            if len(lines) >= _MOST_LINES:
                return "\n".join([*lines, f"[... stopped after {_MOST_LINES} lines: narrow the search]"])
    return "\n".join([*(lines or ["(no line matches)"]), *notes, *search.notes()])


def _candidates(
    base: Path,
    asked: GrepInput,
    stopped: Callable[[], bool],
) -> tuple[list[tuple[str, Path]], list[str]]:
    """Return the files to search, each with the name that is shown for it, and what the reader should know."""
    if base.is_file():
        return [(asked.path, base)], []
    base.stat()  # a missing directory is told in the system's words
    found = walk_files(base, include_ignored=asked.include_ignored, stopped=stopped)
    paths = found.files
    if asked.include is not None:
        # As everywhere else, a pattern without a slash speaks of names, at any depth.
        matches = glob_matcher(asked.include if "/" in asked.include else f"**/{asked.include}")
        paths = [path for path in paths if matches(path)]
    return [(path, base / path) for path in paths], found.notes()


class _Search:
    """One expression, with a budget of time: an expression can be written that would run for years."""

    def __init__(self, pattern: str) -> None:
        import regex  # noqa: PLC0415 - loaded by the first search

        try:
            self._line: Any = regex.compile(pattern)
            self._text: Any = regex.compile(pattern, regex.MULTILINE)
        except regex.error as error:
            raise LatticeError(f"the regular expression {pattern!r} cannot be used: {error}") from error
        self._whole_first = not any(mark in pattern for mark in _NEEDS_LINES)
        self._until = time.monotonic() + _SECONDS
        self._too_large: list[str] = []

    def lines_of(self, path: Path) -> Iterator[tuple[int, str]]:
        text = self._read(path)
        if text is None:
            return
        try:
            if self._whole_first and self._text.search(text, timeout=self._left(), concurrent=True) is None:
                return
            for number, line in enumerate(text.split("\n"), 1):
                if self._line.search(line, timeout=self._left(), concurrent=True):
                    yield number, line
        except TimeoutError as error:
            raise LatticeError(
                f"the search took more than {_SECONDS:.0f} seconds: simplify the expression or search less"
            ) from error

    def notes(self) -> list[str]:
        return [f"[too large to search: {', '.join(self._too_large[:5])}]"] if self._too_large else []

    def _left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _read(self, path: Path) -> str | None:
        try:
            with path.open("rb") as file:
                start = file.read(8192)
                if is_binary(start):
                    return None
                if os.fstat(file.fileno()).st_size > _LARGEST_FILE:
                    self._too_large.append(path.name)
                    return None
                data = start + file.read()
        except OSError:
            return None
        return data.decode("utf-8", "replace").replace("\r\n", "\n").removesuffix("\n")


def _shorten(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}[... {len(line)} characters]"
