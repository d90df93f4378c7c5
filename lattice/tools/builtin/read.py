"""Read: the text of a file, as a whole or by lines."""

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from pydantic import BaseModel, Field

from lattice.errors import LatticeError
from lattice.tools.builtin.define import builtin_tool, readable
from lattice.tools.tool import ToolContext, ToolDefinition
from lattice.workspace.workspace import Workspace

__all__ = ["LIMIT_CHARS", "is_binary", "make"]

LIMIT_CHARS = 90_000
"""How much of a file one call returns, in characters; the rest is read with ``offset``."""

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


class ReadInput(BaseModel):
    """Which part of which file."""

    file_path: str = Field(description="Path of the file, absolute or relative to the workspace.")
    offset: int | None = Field(None, gt=0, description="First line to return, counted from 1.")
    limit: int | None = Field(None, gt=0, description="Most lines to return.")


def make(workspace: Workspace) -> ToolDefinition:
    """Return the Read tool of a workspace."""
    description = (
        "Read a text file. Returns its text as it is; give offset and limit to read only some lines. Long files come"
        " in parts."
    )
    return builtin_tool("Read", description, ReadInput, _read, workspace, reads_only=True)


def is_binary(start: bytes) -> bool:
    """Whether a file that begins like this is no text."""
    return b"\0" in start and not start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def _read(workspace: Workspace, asked: ReadInput, context: ToolContext) -> str:
    path = readable(asked.file_path, "Read", workspace, context)
    if not path.is_file():
        path.open("rb").close()  # a directory or a missing file is told in the system's words
        raise LatticeError(f"{asked.file_path} is not a regular file")
    with path.open("rb") as file:
        start = file.read(8192)
        if is_binary(start):
            size = path.stat().st_size
            raise LatticeError(
                f"{asked.file_path} is a binary file ({size} bytes), not text. Use Bash for it: file, strings, xxd."
            )
        file.seek(0)
        encoding = next((name for bom, name in _BOMS if start.startswith(bom)), "utf-8")
        if encoding != "utf-8":
            return _select(iter(file.read().decode(encoding, "replace").splitlines(keepends=True)), asked, path)
        if asked.offset is None and asked.limit is None:
            return _whole(file, asked, path)
        return _select(_lines(file), asked, path)


def _whole(file: BinaryIO, asked: ReadInput, path: Path) -> str:
    text = file.read(LIMIT_CHARS * 4 + 4)
    decoded = text.decode("utf-8", "replace")
    if len(decoded) <= LIMIT_CHARS:
        return decoded or "(the file is empty)"
    file.seek(0)
    return _select(_lines(file), asked, path)


def _lines(file: BinaryIO) -> Iterator[str]:
    for line in file:
        yield line.decode("utf-8", "replace")


def _select(lines: Iterator[str], asked: ReadInput, path: Path) -> str:
    first = asked.offset or 1
    found: list[str] = []
    size, number, ended = 0, 0, True
    for number, line in enumerate(lines, 1):
        ended = line.endswith("\n")
        if number < first:
            continue
        if asked.limit is not None and len(found) >= asked.limit:
            return "\n".join(found)
        text = line.rstrip("\n").removesuffix("\r")
        if size + len(text) > LIMIT_CHARS:
            return _broken_off(found, text, number, LIMIT_CHARS - size)
        found.append(text)
        size += len(text) + 1
    # A closing newline stands before one more line, which is empty.
    total = number + 1 if ended else number
    if ended and first <= total and (asked.limit is None or len(found) < asked.limit):
        found.append("")
    if first > total:
        return f"(line {first} is past the end: {path.name} has {total} lines)"
    return "\n".join(found) or "(nothing but an empty line)"


def _broken_off(found: list[str], text: str, number: int, room: int) -> str:
    if found:
        rest = f"[... cut off before line {number}: the part is full. Read on with offset={number}.]"
        return "\n".join([*found, rest])
    rest = f"[... line {number} has {len(text)} characters, too many for one part. Cut it with Bash: cut -c.]"
    return f"{text[:room]}\n{rest}"
