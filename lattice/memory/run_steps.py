"""The memory store's steps on runs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from lattice.mailbox import MessageStatus, TeamMessage
from lattice.memory.base import StorePart
from lattice.memory.state import BatchState, EventLog, RunState
from lattice.runs import Batch, Budget, Lease, RunRecord, RunStatus, Step, TakenRun, is_lasting

__all__ = ["RunSteps"]


class RunSteps(StorePart):
    """From the submit of a run until it is forgotten."""

    async def start_run(self, run: RunRecord) -> str:
        """See ``RunStore.start_run``."""
        async with self._turn:
            if run.id in self._work.runs:
                return "exists"
            record = replace(run, status=RunStatus.QUEUED, conversation=run.conversation or run.id)
            record = replace(record, created_at=self._work.now())
            self._work.runs[run.id] = RunState(record, EventLog(self.options.max_events))
            return "started"

    async def take_run(self, run_id: str, owner: str, lease_ms: int) -> TakenRun | str:
        """See ``RunStore.take_run``."""
        async with self._turn:
            work = self._work
            run = work.runs.get(run_id)
            if run is None:
                return "missing"
            if run.record.status.is_terminal:
                return "ended"
            if run.lease is not None and run.lease.deadline > work.now() and run.reserved_for != owner:
                return "held"
            run.reserved_for = None
            conversation = work.conversation(run.record.conversation)
            run.record = replace(
                run.record,
                status=RunStatus.RUNNING if run.record.status is RunStatus.QUEUED else run.record.status,
                owner=owner,
                epoch=run.record.epoch + 1,
                started_at=run.record.started_at or work.now(),
            )
            run.lease = work.new_lease("run", run_id, owner, run.record.epoch, lease_ms)
            batch = run.record.batch
            delivered = batch is None or batch in conversation.entered
            return TakenRun(run.record, run.lease, bool(conversation.messages), delivered)

    async def hand_off(self, lease: Lease, batch: Batch, step: Step) -> tuple[str, tuple[TeamMessage, ...]]:
        """See ``RunStore.hand_off``."""
        async with self._turn:
            work = self._work
            if not work.is_current(lease):
                return "stale", ()
            known = work.batches.get(batch.id)
            if known is not None:
                return "exists", await self._messages(known.items)
            if not self._has_room(batch):
                return "full", ()
            if any(work.waits_for_itself(item) for item in batch.items):
                return "circle", ()
            for item in batch.items:
                self._check_size(item.message)
            sent = await self._send_all(batch)
            state = BatchState(lease, tuple(message.id for message in sent), len(sent), batch.pauses)
            work.batches[batch.id] = state
            at_once = self._at_once(lease, batch)
            state.held.extend(state.items[at_once:])
            for message_id in state.items[:at_once]:
                work.deliver(message_id)
            if batch.pauses and lease.kind == "message":
                work.items[lease.id].handed_off = batch.id
            run = work.run_of(lease)
            if run is not None:
                run.batches.append(batch.id)
            if run is not None and batch.pauses and lease.kind == "run":
                run.record = replace(run.record, status=RunStatus.WAITING, batch=batch.id, round=run.record.round + 1)
            await work.write(lease, step)
            return "accepted", tuple(sent)

    def _at_once(self, lease: Lease, batch: Batch) -> int:
        """How many items of a batch may be claimed now: none of an interrupted run, which cancels them next."""
        run = self._work.runs.get(lease.id) if lease.kind == "run" and batch.pauses else None
        if run is not None and run.record.interrupted:
            return 0
        return len(batch.items) if batch.limit is None else batch.limit

    def _has_room(self, batch: Batch) -> bool:
        more: dict[str, int] = {}
        for item in batch.items:
            more[item.member] = more.get(item.member, 0) + 1
        limit = self.options.max_mailbox_depth
        return all(self._work.queue(member).depth + count <= limit for member, count in more.items())

    async def _send_all(self, batch: Batch) -> list[TeamMessage]:
        sent: list[TeamMessage] = []
        try:
            for item in batch.items:
                sent.append(await self._work.accept(replace(item, batch=batch.id)))  # noqa: PERF401 - see below
        except BaseException:
            # A mailbox that broke half way must not leave work that nobody waits for.
            for message in sent:
                await self._work.close(self._work.items[message.id], MessageStatus.CANCELLED)
            raise
        return sent

    async def _messages(self, ids: Sequence[str]) -> tuple[TeamMessage, ...]:
        found = [await self._adapter.get(message_id) for message_id in ids]
        return tuple(message for message in found if message is not None)

    async def resume(self, lease: Lease, batch_id: str) -> tuple[str, tuple[TeamMessage, ...]]:
        """See ``RunStore.resume``."""
        async with self._turn:
            work = self._work
            batch = work.batches.get(batch_id)
            if batch is None or not work.is_current(lease) or batch.parent.id != lease.id:
                return "stale", ()
            if batch.waiting > 0:
                return "waiting", ()
            run = work.runs.get(lease.id) if lease.kind == "run" else None
            if run is not None and batch.pauses:
                run.record = replace(run.record, status=RunStatus.RUNNING)
            reports = [work.items[message_id].report or message_id for message_id in batch.items]
            return "complete", await self._messages(reports)

    async def finish_run(
        self, lease: Lease, status: RunStatus, result: dict[str, Any], step: Step, error: dict[str, Any] | None = None
    ) -> str:
        """See ``RunStore.finish_run``."""
        async with self._turn:
            work = self._work
            run = work.runs.get(lease.id)
            if run is None:
                return "stale"
            if not work.is_current(lease):
                ended = run.record.status is status and run.record.epoch == lease.token
                return "finished" if ended and run.record.owner == lease.owner else "stale"
            await work.write(lease, step)
            run.record = replace(run.record, status=status, result=result, error=error, finished_at=work.now())
            await work.end_run(run, status)
            return "finished"

    async def reopen_run(self, run_id: str, budget: Budget | None = None) -> str:
        """See ``RunStore.reopen_run``."""
        async with self._turn:
            run = self._work.runs.get(run_id)
            if run is None:
                return "missing"
            if run.record.status not in (RunStatus.QUEUED, RunStatus.FAILED):
                return "refused"
            if budget:
                limits = {**run.record.options.get("budget", {}), **budget.to_dict()}
                run.record = replace(run.record, options={**run.record.options, "budget": limits})
            if run.record.status is RunStatus.QUEUED:
                return "reopened"
            run.record = replace(
                run.record,
                status=RunStatus.QUEUED,
                owner=None,
                result=None,
                error=None,
                finished_at=None,
                interrupted=False,
            )
            run.forget_at = None
            return "reopened"

    async def cancel_run(self, run_id: str, reason: str) -> str:
        """See ``RunStore.cancel_run``."""
        async with self._turn:
            run = self._work.runs.get(run_id)
            if run is None:
                return "missing"
            if run.record.status.is_terminal:
                return "ended"
            error = {"code": "cancelled", "message": reason}
            run.record = replace(run.record, status=RunStatus.CANCELLED, error=error, finished_at=self._work.now())
            await self._work.end_run(run, RunStatus.CANCELLED)
            return "cancelled"

    async def interrupt_run(self, run_id: str) -> str:
        """See ``RunStore.interrupt_run``."""
        async with self._turn:
            work, run = self._work, self._work.runs.get(run_id)
            if run is None:
                return "missing"
            if run.record.status.is_terminal:
                return "ended"
            for state in [work.items[message_id] for message_id in run.messages]:
                if state.open and state.item.batch is not None and state.attempt == 0:
                    await work.close(state, MessageStatus.CANCELLED)
                    await work.tell(run, "cancelled", state, state.item.message.id, state.item.message.to)
            if run.lease is not None and run.lease.owner and not run.record.interrupted:
                work.signal(run.lease.owner, f"interrupt:{run_id}")
            run.record = replace(run.record, interrupted=True)
            return "interrupted"

    async def get_run(self, run_id: str) -> RunRecord | None:
        """See ``RunStore.get_run``."""
        run = self._work.runs.get(run_id)
        return None if run is None else run.record

    async def list_runs(self, limit: int = 50) -> list[RunRecord]:
        """See ``RunStore.list_runs``."""
        newest = list(reversed(self._work.runs.values()))
        return [run.record for run in newest[:limit]]

    async def nested_runs(self) -> list[tuple[str, str]]:
        """See ``RunStore.nested_runs``."""
        open_runs = [run.record for run in self._work.runs.values() if not run.record.status.is_terminal]
        return [(record.id, record.outer_item) for record in open_runs if record.outer_item is not None]

    async def lost_events(self, run_id: str, after: str = "0") -> int:
        """See ``RunStore.lost_events``."""
        run = self._work.runs.get(run_id)
        return 0 if run is None else run.events.lost(after)

    async def read_events(
        self, run_id: str, after: str = "0", *, block_ms: int | None = None
    ) -> list[tuple[str, dict[str, Any]]]:
        """See ``RunStore.read_events``."""
        run = self._work.runs.get(run_id)
        if run is None:
            return []
        events = run.events.after(after)
        if block_ms is not None and not run.record.status.is_terminal:
            run.events.followed = True
            if not events and await run.events.added.wait(block_ms):
                events = run.events.after(after)
        return events

    async def forget_runs(self, limit: int = 100) -> int:
        """See ``RunStore.forget_runs``."""
        async with self._turn:
            now = self._work.now()
            over = [run for run in self._work.runs.values() if run.forget_at is not None and run.forget_at <= now]
            for run in over[:limit]:
                await self._forget(run)
            return len(over[:limit])

    async def _forget(self, run: RunState) -> None:
        work = self._work
        await self._adapter.forget(run.messages)
        names = [work.items.pop(message_id).item.conversation for message_id in run.messages]
        for name in (run.record.conversation, *names):
            if not is_lasting(name):
                work.conversations.pop(name, None)
            elif name in work.conversations:
                work.conversations[name].entered.difference_update(run.messages)
        for batch_id in run.batches:
            work.batches.pop(batch_id, None)
        del work.runs[run.record.id]
