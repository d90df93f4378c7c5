"""Waiting while Redis is away: longer each time, never in step with other processes."""

import asyncio
import logging
import random

__all__ = ["Backoff"]

_log = logging.getLogger("lattice.rq")


class Backoff:
    """Pauses of growing length with jitter, from ``first`` to ``longest`` seconds; ``tries`` counts them."""

    def __init__(self, first: float = 0.1, longest: float = 2.0) -> None:
        self.first = min(first, longest)
        self.longest = longest
        self._next = self.first
        self.tries = 0

    def reset(self) -> None:
        """Start from the shortest pause again."""
        self._next = self.first
        self.tries = 0

    def next_pause(self) -> float:
        """Return the next pause in seconds: a random part, at least half, of a length that doubles."""
        self.tries += 1
        pause = random.uniform(self._next / 2, self._next)  # noqa: S311 - jitter, not a secret
        self._next = min(self._next * 2, self.longest)
        return pause

    async def pause(self, what: str, error: BaseException) -> None:
        """Say once that Redis is away, and wait."""
        level = logging.WARNING if self.tries == 0 else logging.DEBUG
        pause = self.next_pause()
        _log.log(level, "Redis is away while %s (%s); trying again in %.1f s", what, error, pause)
        await asyncio.sleep(pause)
