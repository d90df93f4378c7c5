"""A prompt cache like the provider's: it finds the longest prefix that an earlier request marked, and counts."""

import hashlib
from collections.abc import Iterator
from typing import Any

from lattice.encoding import encode

__all__ = ["PromptCache"]

_LOOKBACK = 20
_CHARS_PER_TOKEN = 4


class PromptCache:
    """Counts what a request reads from the cache, writes to it, and sends in vain.

    A prefix is cached where a block carries ``cache_control``; a later request finds it if it has a mark of its own on
    that block or at most 20 blocks behind it. A token is four bytes of JSON. ``total``, ``read``, ``created`` and
    ``uncached`` add up all requests.
    """

    def __init__(self) -> None:
        self._prefixes: set[bytes] = set()
        self._seen: set[bytes] = set()
        self.total = 0
        self.read = 0
        self.created = 0
        self.uncached = 0
        self.resent = 0
        self.resent_uncached = 0

    def count(self, body: dict[str, Any]) -> dict[str, int]:
        """Take in one request and return its usage, without the output."""
        sizes, hashes, marks = _walk(body)
        hit = self._longest_hit(hashes, marks)
        written = max(marks[-1] - hit, 0) if marks else 0
        read_tokens = sum(sizes[: hit + 1])
        created_tokens = sum(sizes[hit + 1 : hit + 1 + written])
        total = sum(sizes)
        self._add(total, read_tokens, created_tokens)
        self._add_resent(sizes, hashes, hit)
        self._prefixes.update(hashes[mark] for mark in marks)
        self._seen.update(hashes)
        usage = {"input_tokens": total - read_tokens - created_tokens}
        if marks:
            usage["cache_creation_input_tokens"] = created_tokens
            usage["cache_read_input_tokens"] = read_tokens
        return usage

    @property
    def uncached_share(self) -> float:
        """Which part of all input was not read from the cache, between 0 and 1."""
        return 1 - self.read / self.total if self.total else 0.0

    @property
    def resent_uncached_share(self) -> float:
        """Which part of what had been sent before was paid for once more, between 0 and 1."""
        return self.resent_uncached / self.resent if self.resent else 0.0

    def _longest_hit(self, hashes: list[bytes], marks: list[int]) -> int:
        for mark in reversed(marks):
            for index in range(mark, max(mark - _LOOKBACK, -1), -1):
                if hashes[index] in self._prefixes:
                    return index
        return -1

    def _add(self, total: int, read: int, created: int) -> None:
        self.total += total
        self.read += read
        self.created += created
        self.uncached += total - read - created

    def _add_resent(self, sizes: list[int], hashes: list[bytes], hit: int) -> None:
        for index, size in enumerate(sizes):
            if hashes[index] not in self._seen:
                break
            self.resent += size
            if index > hit:
                self.resent_uncached += size


def _walk(body: dict[str, Any]) -> tuple[list[int], list[bytes], list[int]]:
    sizes: list[int] = []
    hashes: list[bytes] = []
    marks: list[int] = []
    running = hashlib.sha256(str(body.get("model")).encode())
    for index, (place, block) in enumerate(_blocks(body)):
        marked = isinstance(block, dict) and bool(block.get("cache_control"))
        bare = {key: value for key, value in block.items() if key != "cache_control"} if marked else block
        data = encode([place, bare])
        running.update(data)
        sizes.append(max(len(data) // _CHARS_PER_TOKEN, 1))
        hashes.append(running.digest())
        if marked:
            marks.append(index)
    return sizes, hashes, marks


def _blocks(body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for definition in body.get("tools") or ():
        yield "tools", definition
    for block in _as_blocks(body.get("system")):
        yield "system", block
    for message in body.get("messages") or ():
        for block in _as_blocks(message.get("content")):
            yield str(message.get("role")), block


def _as_blocks(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content or ())
