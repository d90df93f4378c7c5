"""Loads the Lua scripts: one file, one atomic step."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

__all__ = ["Script", "load_scripts"]


@dataclass(frozen=True, slots=True)
class Script:
    """A script's source, and the digest that Redis knows it by."""

    name: str
    source: bytes
    sha: bytes


@cache
def load_scripts() -> dict[str, Script]:
    """Return all scripts by name."""
    scripts = {}
    for file in files(__package__).joinpath("lua").iterdir():
        name, _, extension = file.name.rpartition(".")
        if extension == "lua":
            source = file.read_bytes()
            sha = hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()
            scripts[name] = Script(name, source, sha)
    return scripts
