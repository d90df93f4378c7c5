"""Resolves paths, symlinks included, and says which lie inside a root."""

import os
from collections.abc import Iterable
from pathlib import Path

from lattice.errors import LatticeError

__all__ = ["display_path", "is_within", "real_path", "resolve_path"]


def resolve_path(path: str | os.PathLike[str], cwd: Path) -> Path:
    """Return the absolute, normalised path; relative paths start at ``cwd``, symlinks are kept.

    Raises:
        LatticeError: the path is empty or holds a NUL.
    """
    text = os.fspath(path)
    if not text or "\0" in text:
        raise LatticeError(f"{text!r} is not a path")
    return Path(os.path.normpath(cwd / text))


def real_path(path: Path) -> Path:
    """Return where ``path`` really leads, every symlink followed; what does not exist yet is kept as it is written."""
    return Path(os.path.realpath(path))


def is_within(path: Path, roots: Iterable[Path]) -> bool:
    """Whether ``path`` really lies in one of ``roots`` or is one of them."""
    real = real_path(path)
    return any(real.is_relative_to(real_path(root)) for root in roots)


def display_path(path: Path, cwd: Path) -> str:
    """Return ``path`` relative to ``cwd``, which may start with ``..``, as people and models read it."""
    return os.path.relpath(path, cwd).replace(os.sep, "/")
