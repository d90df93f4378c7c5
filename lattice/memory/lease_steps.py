"""The memory store's steps on leases and processes."""

from collections.abc import Sequence
from dataclasses import replace

from lattice.mailbox import MessageStatus
from lattice.memory.base import StorePart
from lattice.memory.state import ItemState, RunState
from lattice.runs import DeadLetter, ExpiredLease, Lease, Outcome, ProcessInfo

__all__ = ["LeaseSteps"]


class LeaseSteps(StorePart):
    """Who works on what, for how long, and who is alive at all."""

    async def now(self) -> int:
        """See ``RunStore.now``."""
        return self._work.now()

    async def renew(self, leases: Sequence[Lease], lease_ms: int) -> list[Lease]:
        """See ``RunStore.renew``."""
        async with self._turn:
            lost: list[Lease] = []
            for lease in leases:
                held = self._work.holder(lease.kind, lease.id)
                if held is None or not self._work.is_current(lease):
                    lost.append(lease)
                    continue
                held.lease = self._work.new_lease(lease.kind, lease.id, lease.owner, lease.token, lease_ms)
            return lost

    async def reclaim_expired(
        self, owner: str, lease_ms: int, limit: int = 100, *, runs: bool = True
    ) -> list[ExpiredLease]:
        """See ``RunStore.reclaim_expired``."""
        async with self._turn:
            now = self._work.now()
            held: list[ItemState | RunState] = [*self._work.items.values()]
            held += self._work.runs.values() if runs else ()
            expired = [state for state in held if state.lease is not None and state.lease.deadline <= now]
            expired.sort(key=lambda state: state.lease.deadline if state.lease is not None else 0)
            return [await self._reclaim(state, owner, lease_ms) for state in expired[:limit]]

    async def next_expiry(self) -> int | None:
        """See ``RunStore.next_expiry``."""
        now = self._work.now()
        held: list[ItemState | RunState] = [*self._work.items.values(), *self._work.runs.values()]
        left = [state.lease.deadline - now for state in held if state.lease is not None and state.lease.deadline > now]
        return min(left, default=None)

    async def _reclaim(self, state: "ItemState | RunState", owner: str, lease_ms: int) -> ExpiredLease:
        if isinstance(state, RunState):
            state.lease = self._work.new_lease("run", state.record.id, "", 0, lease_ms)
            state.reserved_for = owner
            return ExpiredLease("run", state.record.id, "run")
        message_id = state.item.message.id
        if state.attempt - state.handed_back < self.options.max_attempts:
            await self._reopen(state, first=False)
            return ExpiredLease("message", message_id, "returned", state.attempt)
        last = state.lease.owner if state.lease is not None else "unknown"
        reason = f"its worker was lost {state.attempt} times; the last one was {last}"
        metadata = {"status": "failed", "error": {"code": "worker_lost", "message": reason, "name": "WorkerLostError"}}
        await self._work.report(state, Outcome(status=MessageStatus.FAILED, report=reason, metadata=metadata))
        await self._work.close(state, MessageStatus.FAILED)
        await self._tell_failure(state, metadata["error"])
        self._bury(state, reason)
        return ExpiredLease("message", message_id, "dead", state.attempt)

    async def _tell_failure(self, state: ItemState, error: object) -> None:
        request = state.item.message
        run = self._work.runs.get(request.run_id or "")
        if run is not None and not run.record.status.is_terminal:
            await self._work.tell(run, "failed", state, request.id, request.to, error)
            await self._work.tell(run, "replied", state, state.report or "", request.from_, error)

    def _bury(self, state: ItemState, reason: str) -> None:
        item = state.item
        message = item.message.evolve(status=MessageStatus.FAILED)
        self._dead[message.id] = DeadLetter(
            message=message, member=item.member, reason=reason, attempts=state.attempt, died_at=self._work.now()
        )
        while len(self._dead) > self.options.max_dead_letters:
            del self._dead[next(iter(self._dead))]

    async def heartbeat(self, info: ProcessInfo, ttl_ms: int) -> None:
        """See ``RunStore.heartbeat``."""
        now = self._work.now()
        self._processes[info.id] = (replace(info, seen_at=now), now + ttl_ms)

    async def processes(self) -> list[ProcessInfo]:
        """See ``RunStore.processes``."""
        now = self._work.now()
        return [info for info, deadline in self._processes.values() if deadline > now]

    async def forget_process(self, process_id: str) -> None:
        """See ``RunStore.forget_process``."""
        self._processes.pop(process_id, None)
        self._work.signals.pop(process_id, None)
