"""The run store's steps on work that waits for another try, on budgets, and on where work stands."""

import asyncio

from lattice.encoding import clean_text
from lattice.redis.base import StorePart
from lattice.redis.codec import lease_args, message_of, pairs, step_args
from lattice.runs import Allowance, Budget, Lease, Step, WorkState

__all__ = ["WorkSteps"]


class WorkSteps(StorePart):
    """Retries, budgets, and the state of a run's work."""

    async def postpone(self, lease: Lease, delay_ms: int, reason: str, step: Step | None = None) -> str:
        """See ``RunStore.postpone``."""
        args = (*lease_args(lease), delay_ms, clean_text(reason), *step_args(step, self.options))
        return await self._word("postpone", *args)

    async def wake_due(self, limit: int = 100) -> int | None:
        """See ``RunStore.wake_due``."""
        left = int(await self._run("wake_due", limit))
        return None if left < 0 else left

    async def draw(self, run_id: str, budget: Budget, *, calls: int = 1, tokens: int = 0) -> Allowance:
        """See ``RunStore.draw``."""
        seconds = budget.max_seconds
        reply = await self._run(
            "draw",
            run_id,
            self._nonce(),
            calls,
            tokens,
            "" if budget.max_model_calls is None else budget.max_model_calls,
            "" if budget.max_tokens is None else budget.max_tokens,
            "" if seconds is None else max(1, round(seconds * 1000)),
        )
        return Allowance(reply[0].decode(), *map(int, reply[1:]))

    async def work_items(self, run_id: str) -> list[WorkState]:
        """See ``RunStore.work_items``."""
        ids = await self._lane.command("LRANGE", self.keys.run_messages(run_id), 0, -1)
        found = await asyncio.gather(*(self._work_state(message_id.decode()) for message_id in ids))
        return [state for state in found if state is not None]

    async def held_until(self, run_id: str) -> int | None:
        """Return until when the lease on a run holds (epoch ms of the Redis clock), None if nobody has it."""
        deadline = await self._lane.command("ZSCORE", self.keys.leases, f"run:{run_id}")
        return None if deadline is None else int(float(deadline))

    async def now(self) -> int:
        """Return the epoch milliseconds of the Redis clock."""
        seconds, microseconds = await self._lane.command("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def _work_state(self, message_id: str) -> WorkState | None:
        raw, lease, due = await asyncio.gather(
            self._lane.command("HGETALL", self.keys.message(message_id)),
            self._lane.command("ZSCORE", self.keys.leases, f"message:{message_id}"),
            self._lane.command("ZSCORE", self.keys.delayed, message_id),
        )
        record = pairs(raw)
        if not record or b"claimable" not in record:
            return None
        message = message_of(record)
        reason, owner = record.get(b"retryReason"), record.get(b"owner")
        return WorkState(
            message=message,
            member=record[b"member"].decode(),
            attempts=int(record.get(b"attempt", 0)),
            retries=int(record.get(b"retries", 0)),
            retry_reason=None if reason is None else reason.decode(),
            due_at=None if due is None or message.status.is_terminal else int(float(due)),
            owner=owner.decode() if owner and not message.status.is_terminal else None,
            lease_until=None if lease is None else int(float(lease)),
            behind=await self._first_in_line(message_id, record[b"conversation"].decode())
            if b"shared" in record and not message.status.is_terminal
            else None,
        )

    async def _first_in_line(self, message_id: str, conversation: str) -> str | None:
        busy = await self._lane.command("GET", self.keys.busy(conversation))
        return busy.decode() if busy and busy.decode() != message_id else None
