"""The run store's steps on leases and processes."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from lattice.encoding import decode, encode
from lattice.redis.base import StorePart
from lattice.redis.codec import lease_args
from lattice.runs import ExpiredLease, Lease, ProcessInfo

__all__ = ["LeaseSteps"]


class LeaseSteps(StorePart):
    """Who works on what, for how long, and who is alive at all."""

    async def renew(self, leases: Sequence[Lease], lease_ms: int) -> list[Lease]:
        """See ``RunStore.renew``."""
        lost: list[Lease] = []
        for start in range(0, len(leases), 500):
            some = leases[start : start + 500]
            args = [arg for lease in some for arg in lease_args(lease)]
            lost += [some[int(position)] for position in await self._run("renew", lease_ms, *args)]
        return lost

    async def reclaim_expired(
        self, owner: str, lease_ms: int, limit: int = 100, *, runs: bool = True
    ) -> list[ExpiredLease]:
        """See ``RunStore.reclaim_expired``."""
        call = (
            owner,
            lease_ms,
            limit,
            "1" if runs else "",
            self.options.max_attempts,
            self.options.retention_ms,
            self.options.max_dead_letters,
            self.options.max_events,
        )
        reply = await self._run("reclaim_expired", *call, "", on_repeat=(*call, "1"))
        return [
            ExpiredLease(kind.decode(), lease_id.decode(), word.decode(), int(attempt))
            for kind, lease_id, word, attempt in reply
        ]

    async def next_expiry(self) -> int | None:
        """See ``RunStore.next_expiry``."""
        left = int(await self._run("next_expiry"))
        return None if left < 0 else left

    async def heartbeat(self, info: ProcessInfo, ttl_ms: int) -> None:
        """See ``RunStore.heartbeat``."""
        await self._run("heartbeat", info.id, encode(asdict(info)), ttl_ms)

    async def processes(self) -> list[ProcessInfo]:
        """See ``RunStore.processes``."""
        reply = await self._run("processes")
        return [
            replace(ProcessInfo(**decode(info)), seen_at=int(seen))
            for info, seen in zip(reply[::2], reply[1::2], strict=True)
        ]

    async def forget_process(self, process_id: str) -> None:
        """See ``RunStore.forget_process``."""
        await self._run("forget_process", process_id)
