"""Loads the Lua scripts: one file, one atomic step; what several of them need stands once, in ``lua/shared``.

Redis 6.2 has no functions that scripts could share, so a line ``-- include: NAME`` is followed by the text of
``shared/NAME.lua`` in what the server gets. Shared files include nothing themselves.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

__all__ = ["Script", "load_scripts"]

_INCLUDE = re.compile(r"^-- include: (\w+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Script:
    """A script's whole source, and the digest that Redis knows it by."""

    name: str
    source: bytes
    sha: bytes


@cache
def load_scripts() -> dict[str, Script]:
    """Return all scripts by name."""
    folder = files(__package__).joinpath("lua")
    shared = _texts(folder.joinpath("shared"))
    return {name: _script(name, _composed(text, shared)) for name, text in _texts(folder).items()}


def _texts(folder: Traversable) -> dict[str, str]:
    """Return the Lua files of a folder by name, without its sub-folders."""
    lua = (file for file in folder.iterdir() if file.name.endswith(".lua"))
    return {file.name.removesuffix(".lua"): file.read_text(encoding="utf-8") for file in lua}


def _composed(text: str, shared: dict[str, str]) -> bytes:
    return _INCLUDE.sub(lambda line: line[0] + shared[line[1]], text).encode()


def _script(name: str, source: bytes) -> Script:
    return Script(name, source, hashlib.sha1(source, usedforsecurity=False).hexdigest().encode())
