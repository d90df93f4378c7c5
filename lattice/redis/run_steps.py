"""The run store's steps on runs."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lattice.encoding import clean_value, encode
from lattice.ids import derive_id
from lattice.mailbox import TeamMessage, complete_message
from lattice.redis.base import StorePart
from lattice.redis.codec import batch_args, lease_args, message_of, pairs, run_fields, run_of, step_args
from lattice.runs import Batch, Budget, Lease, RunRecord, RunStatus, Step, TakenRun, WorkItem

__all__ = ["RunSteps"]


class RunSteps(StorePart):
    """From the submit of a run to its end."""

    def start_run_call(self, run: RunRecord) -> tuple[str, Sequence[str], Sequence[Any]]:
        """Return the source, the keys and the arguments of ``start_run``, for a transaction that does more besides."""
        return self._scripts["start_run"].source.decode(), [self.keys.prefix], [run.id, *run_fields(run)]

    async def start_run(self, run: RunRecord) -> str:
        """See ``RunStore.start_run``."""
        return await self._word("start_run", run.id, *run_fields(run))

    async def take_run(self, run_id: str, owner: str, lease_ms: int) -> TakenRun | str:
        """See ``RunStore.take_run``."""
        asked_at = time.monotonic()
        reply = await self._run("take_run", run_id, owner, lease_ms, self._nonce())
        word: str = reply[0].decode()
        if word != "taken":
            return word
        run = run_of(pairs(reply[1]))
        lease = Lease("run", run_id, owner, run.epoch, int(reply[4]), asked_at)
        return TakenRun(run, lease, bool(reply[2]), bool(reply[3]))

    async def hand_off(self, lease: Lease, batch: Batch, step: Step) -> tuple[str, tuple[TeamMessage, ...]]:
        """See ``RunStore.hand_off``."""
        items = [await self._ready_to_send(batch, number, item) for number, item in enumerate(batch.items)]
        reply = await self._run(
            "hand_off",
            *lease_args(lease),
            batch.id,
            "1" if batch.pauses else "",
            "" if batch.limit is None else batch.limit,
            self.options.max_mailbox_depth,
            len(items),
            *batch_args(items),
            *step_args(step, self.options),
        )
        word = reply[0].decode()
        sent = reply[1:] if word in ("accepted", "exists") else ()
        return word, tuple(message_of(pairs(record)) for record in sent)

    async def _ready_to_send(self, batch: Batch, number: int, item: WorkItem) -> WorkItem:
        self._check_size(item.message)
        message = item.message
        if not message.id:
            message = message.evolve(id=derive_id(batch.id, number))
        message = complete_message(message, await self._parent(message))
        return replace(item, message=message, conversation=item.conversation or message.id, batch=batch.id)

    async def _parent(self, message: TeamMessage) -> TeamMessage | None:
        if message.parent_message_id is None:
            return None
        record = await self._lane.command("HGETALL", self.keys.message(message.parent_message_id))
        return message_of(pairs(record)) if record else None

    async def resume(self, lease: Lease, batch_id: str) -> tuple[str, tuple[TeamMessage, ...]]:
        """See ``RunStore.resume``."""
        reply = await self._run("resume", *lease_args(lease), batch_id)
        return reply[0].decode(), tuple(message_of(pairs(record)) for record in reply[1:])

    async def finish_run(
        self, lease: Lease, status: RunStatus, result: dict[str, Any], step: Step, error: dict[str, Any] | None = None
    ) -> str:
        """See ``RunStore.finish_run``."""
        return await self._word(
            "finish_run",
            *lease_args(lease),
            str(status),
            encode(clean_value(result)),
            "" if error is None else encode(clean_value(error)),
            self.options.retention_ms,
            *step_args(step, self.options),
        )

    async def reopen_run(self, run_id: str, budget: Budget | None = None) -> str:
        """See ``RunStore.reopen_run``."""
        return await self._word("reopen_run", run_id, encode(budget.to_dict()) if budget else "")

    async def cancel_run(self, run_id: str, reason: str) -> str:
        """See ``RunStore.cancel_run``."""
        error = encode(clean_value({"code": "cancelled", "message": reason}))
        return await self._word("cancel_run", run_id, error, self.options.retention_ms, self._nonce())

    async def interrupt_run(self, run_id: str) -> str:
        """See ``RunStore.interrupt_run``."""
        return await self._word("interrupt_run", run_id, self.options.retention_ms)

    async def forget_runs(self, limit: int = 100) -> int:
        """See ``RunStore.forget_runs``; a very large run takes several calls."""
        return int(await self._run("forget_runs", limit, limit * 20))

    async def get_run(self, run_id: str) -> RunRecord | None:
        """See ``RunStore.get_run``."""
        record = await self._lane.command("HGETALL", self.keys.run(run_id))
        return run_of(pairs(record)) if record else None

    async def list_runs(self, limit: int = 50) -> list[RunRecord]:
        """See ``RunStore.list_runs``."""
        ids = await self._lane.command("ZREVRANGE", self.keys.runs, 0, limit - 1)
        found = [await self.get_run(run_id.decode()) for run_id in ids]
        return [run for run in found if run is not None]

    async def nested_runs(self) -> list[tuple[str, str]]:
        """See ``RunStore.nested_runs``."""
        found = pairs(await self._lane.command("HGETALL", self.keys.nested))
        return [(run_id.decode(), outer.decode()) for run_id, outer in found.items()]

    async def waiting_members(self, run_id: str) -> list[str]:
        """Return the mailbox keys of the members whose work a run waits for."""
        ids = await self._lane.command("LRANGE", self.keys.run_messages(run_id), 0, -1)
        members = set()
        for message_id in ids:
            key = self.keys.message(message_id.decode())
            status, member, claimable = await self._lane.command("HMGET", key, "status", "member", "claimable")
            if claimable == b"1" and status in (b"pending", b"processing"):
                members.add(member.decode())
        return sorted(members)
