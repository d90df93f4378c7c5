"""Walks the files below a directory in a fixed order: no symlinks, nothing that ignore files leave out."""

import functools
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lattice.errors import LatticeError
from lattice.workspace.workspace import OUTPUT_DIRECTORY

__all__ = ["Found", "glob_matcher", "walk_files"]

_ALWAYS_SKIPPED = {".git", "node_modules", OUTPUT_DIRECTORY}
_MOST_FILES = 200_000


@dataclass(slots=True)
class Found:
    """Relative paths in order, and what was left out."""

    files: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    incomplete: bool = False

    def notes(self) -> list[str]:
        """Return a line for each thing that the reader should know."""
        lines = []
        if self.unreadable:
            shown = ", ".join(self.unreadable[:3]) + (", ..." if len(self.unreadable) > 3 else "")
            lines.append(f"[{len(self.unreadable)} directories could not be read: {shown}]")
        if self.incomplete:
            lines.append(f"[stopped after {_MOST_FILES} files: search a smaller directory]")
        return lines


def walk_files(base: Path, *, include_ignored: bool, stopped: Callable[[], bool]) -> Found:
    """Return every regular file below ``base``, sorted; ends early when ``stopped`` says so.

    ``.git``, ``node_modules`` and kept outputs are never entered; what ``.gitignore`` files exclude is left out unless
    ``include_ignored``.
    """
    found = Found()
    inherited = [] if include_ignored else _outer_rules(base)
    pending: list[tuple[str, list[_Rules]]] = [("", inherited)]
    while pending:
        if stopped() or len(found.files) > _MOST_FILES:
            found.incomplete = True
            break
        relative, rules = pending.pop()
        try:
            with os.scandir(base / relative) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            found.unreadable.append(relative or ".")
            continue
        if not include_ignored and any(entry.name == ".gitignore" for entry in listed):
            rules = _with_rules(rules, base / relative)
        for entry in listed:
            path = f"{relative}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _ALWAYS_SKIPPED and not _ignored(rules, f"{entry.path}/"):
                    pending.append((f"{path}/", rules))
            elif entry.is_file(follow_symlinks=False) and not _ignored(rules, entry.path):
                found.files.append(path)
    found.files.sort()
    return found


@functools.lru_cache(maxsize=128)
def glob_matcher(pattern: str) -> Callable[[str], Any]:
    """Return a function that says whether a relative path matches the pattern as a whole.

    ``*`` and ``?`` stay within a directory, ``**`` is any number of directories, ``{a,b}`` and ``[a-z]`` are choices.

    Raises:
        LatticeError: the pattern cannot be used.
    """
    from wcmatch import glob  # noqa: PLC0415 - loaded by the first search

    flags = glob.GLOBSTAR | glob.BRACE | glob.DOTGLOB | glob.FORCEUNIX
    cleaned = pattern.removeprefix("./")
    if not cleaned or cleaned.startswith("/"):
        raise LatticeError(f"the pattern must be relative to path, not {pattern!r}: give the directory as path")
    try:
        included, _ = glob.translate(cleaned, flags=flags, limit=1000)
        return re.compile("|".join(included)).match
    except Exception as error:
        raise LatticeError(f"the pattern {pattern!r} cannot be used: {error}") from error


class _Rules:
    """The ``.gitignore`` of one directory."""

    __slots__ = ("_spec", "directory")

    def __init__(self, directory: Path) -> None:
        import pathspec  # noqa: PLC0415 - loaded by the first search

        text = (directory / ".gitignore").read_text(encoding="utf-8", errors="replace")
        self.directory = f"{directory}/"
        self._spec = pathspec.GitIgnoreSpec.from_lines(text.splitlines())

    def judge(self, path: str) -> bool | None:
        """Return whether the rules exclude or re-include ``path``; None if they do not speak of it."""
        return self._spec.check_file(path[len(self.directory) :]).include


def _with_rules(rules: list[_Rules], directory: Path) -> list[_Rules]:
    try:
        return [*rules, _Rules(directory)]
    except (OSError, ValueError):
        return rules


def _outer_rules(base: Path) -> list[_Rules]:
    """Return the rules of the repository that ``base`` lies in, unless they exclude ``base`` itself."""
    outer: list[Path] = []
    for directory in base.parents:
        outer.append(directory)
        if (directory / ".git").exists():
            break
    else:
        return []
    if (base / ".git").exists():
        return []
    rules: list[_Rules] = []
    for directory in reversed(outer):
        if (directory / ".gitignore").is_file():
            rules = _with_rules(rules, directory)
    parts = [base, *base.parents[: len(outer) - 1]]
    return [] if any(_ignored(rules, f"{part}/") for part in parts) else rules


def _ignored(rules: list[_Rules], path: str) -> bool:
    for rule in reversed(rules):
        if path.startswith(rule.directory):
            verdict = rule.judge(path)
            if verdict is not None:
                return verdict
    return False
