"""The names of teams and members: what they become as tool names and keys, and which are refused."""

import re

from lattice.errors import OptionError
from lattice.mailbox import LEAD_MAILBOX

__all__ = ["SEPARATOR", "clean_name", "clean_tool_name", "member_mailbox"]

SEPARATOR = "::"
"""Stands between team and member in a mailbox id."""

_FOREIGN = re.compile("[^A-Za-z0-9_-]")
_RUNS = re.compile("_+")
_LONGEST = 128


def clean_tool_name(name: str) -> str:
    """Return ``name`` as a tool name: anything but letters, digits, ``_`` and ``-`` becomes one ``_``."""
    return _RUNS.sub("_", _FOREIGN.sub("_", name)) or "mcp_tool"


def clean_name(what: str, name: object) -> str:
    """Return a team's or member's name as it stands in keys and mailbox ids.

    Raises:
        OptionError: the name is blank, holds ``::``, is the lead's, has nothing left after cleaning, or is too long.
    """
    if not isinstance(name, str) or not name.strip():
        raise OptionError(f"{what} name is required")
    if SEPARATOR in name:
        raise OptionError(f"{what} name {name!r} holds {SEPARATOR!r}, which separates a team from its members")
    cleaned = clean_tool_name(name.strip())
    if not any(letter.isalnum() for letter in cleaned):
        raise OptionError(f"{what} name {name!r} has no letter or digit (A-Z, a-z, 0-9) left to be called by")
    if len(cleaned) > _LONGEST:
        raise OptionError(f"{what} name {name[:40]!r}... has {len(cleaned)} characters; the limit is {_LONGEST}")
    if cleaned.lower() == LEAD_MAILBOX:
        raise OptionError(f"{what} name {name!r} is taken: {LEAD_MAILBOX!r} is the lead's mailbox")
    return cleaned


def member_mailbox(team: str, member: str) -> str:
    """Return the mailbox id of a member."""
    return f"{team}{SEPARATOR}{member}"
