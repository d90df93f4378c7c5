"""Ids that sort by time, and ids that derive from what they stand for."""

import hashlib
import os
import threading
import time

__all__ = ["derive_id", "new_id"]

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BITS = 80
_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """Return a ULID: 26 characters, later ones sort after earlier ones within this process."""
    global _last  # noqa: PLW0603 - monotonic within the process is a property of the process
    number = (time.time_ns() // 1_000_000) << _RANDOM_BITS | int.from_bytes(os.urandom(10))
    with _lock:
        _last = number = max(number, _last + 1)
    return _base32(number)


def derive_id(*parts: str | int) -> str:
    """Return an id that depends on ``parts`` alone, so that whoever repeats a step arrives at the same id."""
    joined = "\x1f".join(map(str, parts))
    return _base32(int.from_bytes(hashlib.blake2b(joined.encode(), digest_size=16).digest()))


def _base32(number: int) -> str:
    return "".join([_ALPHABET[number >> shift & 31] for shift in range(125, -1, -5)])
