"""Looking for what the dead held: when the next lease runs out, and not much later."""

import random

from lattice.run_store import RunStore
from lattice.runs import ExpiredLease

__all__ = ["LeaseWatch"]

_LIMIT = 100
"""How many leases one look frees; if there are more, the next look follows at once."""

_JITTER = 0.05
"""Seconds after the end of a lease within which processes look: one does the work, the others find it done."""


class LeaseWatch:
    """Frees expired leases, and says when to look again.

    A look follows after ``longest`` seconds at the latest, or after a quarter of a short lease.
    """

    def __init__(self, store: RunStore, owner: str, lease_ms: int, *, longest: float = 1.0, runs: bool) -> None:
        """``runs`` says whether to look for runs as well, which only a coordinator can go on with."""
        self.longest = min(longest, lease_ms / 4000)
        """Seconds between two looks at most, also between two that fail: whoever was lost meanwhile is found soon."""
        self._store = store
        self._owner = owner
        self._lease_ms = lease_ms
        self._runs = runs

    async def look(self) -> list[ExpiredLease]:
        """Free what has run out, and say what became of it."""
        return await self._store.reclaim_expired(self._owner, self._lease_ms, _LIMIT, runs=self._runs)

    async def pause(self, found: int) -> float:
        """Return the seconds until the next look, after one that found so many."""
        if found >= _LIMIT:
            return 0.0
        left = await self._store.next_expiry()
        if left is None:
            return self.longest
        jitter = random.uniform(0.0, _JITTER)  # noqa: S311 - jitter, not a secret
        return min(self.longest, left / 1000 + jitter)
