"""Who in this process waits for which batch of reports."""

import asyncio
from collections.abc import Hashable

__all__ = ["BatchWaits"]


class BatchWaits:
    """The waits for batches; a signal wakes everybody who waits for its batch.

    Two may wait for one batch at once: work that has lost its lease and does not know it yet, and the attempt that
    has begun in its place, perhaps in this very process. So each waiter has a wait of its own, and ends only that.
    """

    __slots__ = ("_waits",)

    def __init__(self) -> None:
        self._waits: dict[str, dict[Hashable, asyncio.Event]] = {}

    def __len__(self) -> int:
        return sum(len(waits) for waits in self._waits.values())

    def expect(self, batch_id: str, waiter: Hashable) -> None:
        """Remember the signal of a batch from now on, so that one that comes before the wait is not missed."""
        self._waits.setdefault(batch_id, {}).setdefault(waiter, asyncio.Event())

    def forget(self, batch_id: str, waiter: Hashable) -> None:
        """End a waiter's wait for a batch."""
        waits = self._waits.get(batch_id, {})
        waits.pop(waiter, None)
        if not waits:
            self._waits.pop(batch_id, None)

    async def next_signal(self, batch_id: str, waiter: Hashable) -> None:
        """Return at the next signal of a batch that is expected, or at once if one has come since the last."""
        woken = self._waits[batch_id][waiter]
        await woken.wait()
        woken.clear()

    def wake(self, batch_id: str, waiter: Hashable | None = None) -> None:
        """Wake one waiter for a batch, or all of them."""
        for each, woken in self._waits.get(batch_id, {}).items():
            if waiter is None or each is waiter:
                woken.set()

    def wake_all(self) -> None:
        """Wake everybody, whatever they wait for."""
        for batch_id in self._waits:
            self.wake(batch_id)
