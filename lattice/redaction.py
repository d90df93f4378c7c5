"""Secrets that this process knows, taken out of what it tells others: logs, events, traces, failures."""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from lattice.encoding import encode

__all__ = ["MASK", "hide", "hide_bytes", "hide_value", "remember_secrets", "secrets_of"]

MASK = "***"

_SHORTEST = 8
"""A shorter value is no secret worth the name, and may well be a word."""

_NAMES = re.compile(r"(^|_)(KEY|API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|PASSPHRASE)$", re.IGNORECASE)


class _Known:
    """The secrets, and the patterns that find them."""

    __slots__ = ("in_bytes", "in_text", "secrets")

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self.in_text: re.Pattern[str] | None = None
        self.in_bytes: re.Pattern[bytes] | None = None

    def add(self, values: Iterable[str]) -> None:
        fresh = {value for value in values if len(value) >= _SHORTEST} - self.secrets
        if not fresh:
            return
        self.secrets |= fresh
        longest_first = sorted(self.secrets, key=len, reverse=True)
        self.in_text = re.compile("|".join(map(re.escape, longest_first)))
        escaped = {part for secret in longest_first for part in (secret.encode(), encode(secret)[1:-1])}
        self.in_bytes = re.compile(b"|".join(map(re.escape, sorted(escaped, key=len, reverse=True))))


_known = _Known()


def remember_secrets(values: Iterable[str | None]) -> None:
    """Take values out of everything that is told from now on; those of fewer than 8 characters are not minded."""
    _known.add(value for value in values if value)


def secrets_of(environ: Mapping[str, str]) -> set[str]:
    """Return what looks like a secret in an environment: by its name, or as the password in a URL."""
    found = {value for name, value in environ.items() if _NAMES.search(name)}
    for value in environ.values():
        if "://" in value and "@" in value:
            found |= _passwords(value)
    return found


def _passwords(url: str) -> set[str]:
    try:
        password = urlsplit(url).password
    except ValueError:
        return set()
    return {password, unquote(password)} if password else set()


def hide(text: str) -> str:
    """Return a text without secrets."""
    pattern = _known.in_text
    return text if pattern is None else pattern.sub(MASK, text)


def hide_bytes(encoded: bytes) -> bytes:
    """Return JSON without secrets."""
    pattern = _known.in_bytes
    return encoded if pattern is None else pattern.sub(MASK.encode(), encoded)


def hide_value(value: Any) -> Any:
    """Return plain data without secrets; what holds none is returned as it is, not copied."""
    pattern = _known.in_text
    return value if pattern is None else _hidden(value, pattern)


def _hidden(value: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return pattern.sub(MASK, value) if pattern.search(value) else value
    if isinstance(value, dict):
        changed = {key: shown for key, part in value.items() if (shown := _hidden(part, pattern)) is not part}
        return {**value, **changed} if changed else value
    if isinstance(value, (list, tuple)):
        parts = [_hidden(part, pattern) for part in _items(value)]
        same = all(shown is part for shown, part in zip(parts, _items(value), strict=True))
        return value if same else parts
    return value


def _items(value: Any) -> Any:
    # A view that copies what it hands out must not be asked for copies.
    return list.__iter__(value) if isinstance(value, list) else iter(value)
