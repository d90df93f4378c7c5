"""The run store of a team that lives in one process: the same steps as on Redis, around any mailbox."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from lattice.errors import SizeLimitError, StoreError
from lattice.mailbox import MessageStatus, TeamMailbox, TeamMessage
from lattice.memory.adapter import MailboxAdapter
from lattice.memory.mailbox import MemoryMailbox
from lattice.memory.state import BatchState, EventLog, ItemState, LoopLock, RunState
from lattice.memory.work import Work
from lattice.run_store import StoreOptions
from lattice.runs import (
    ALLOWED_MOVES,
    Batch,
    Claim,
    ConversationState,
    ExpiredLease,
    Lease,
    Outcome,
    ProcessInfo,
    RunRecord,
    RunStatus,
    Settled,
    Step,
    TakenRun,
    WorkItem,
    is_lasting,
)

__all__ = ["MemoryRunStore"]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class MemoryRunStore:
    """A ``RunStore`` in memory.

    Messages live in ``mailbox`` (a memory mailbox if none is given), everything else in this object. Leases never
    expire unless ``expire_leases`` is set; ``clock`` returns epoch milliseconds. ``mailbox_ids`` says which mailbox a
    member key names; the store learns the others from what is sent.
    """

    def __init__(
        self,
        mailbox: TeamMailbox | None = None,
        *,
        options: StoreOptions | None = None,
        mailbox_ids: dict[str, str] | None = None,
        clock: Callable[[], int] = _now_ms,
        expire_leases: bool = False,
    ) -> None:
        self.options = options or StoreOptions()
        self.mailbox: TeamMailbox = (
            MemoryMailbox(max_message_bytes=self.options.max_message_bytes, clock=clock) if mailbox is None else mailbox
        )
        self._adapter = MailboxAdapter(self.mailbox)
        self._work = Work(self._adapter, self.options, clock, expire=expire_leases)
        self._work.mailbox_ids.update(mailbox_ids or {})
        self._turn = LoopLock()
        self._processes: dict[str, tuple[ProcessInfo, int]] = {}

    # --- runs ---------------------------------------------------------------------------------------------------

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
            for item in batch.items:
                self._check_size(item.message)
            sent = await self._send_all(batch)
            state = BatchState(lease, tuple(message.id for message in sent), len(sent), batch.pauses)
            work.batches[batch.id] = state
            state.held.extend(state.items[batch.limit :] if batch.limit is not None else ())
            for message_id in state.items[: batch.limit]:
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

    def _has_room(self, batch: Batch) -> bool:
        more: dict[str, int] = {}
        for item in batch.items:
            more[item.member] = more.get(item.member, 0) + 1
        limit = self.options.max_mailbox_depth
        return all(self._work.queue(member).depth + count <= limit for member, count in more.items())

    def _check_size(self, message: TeamMessage) -> None:
        size = len(message.content.encode(errors="replace"))
        if size > self.options.max_message_bytes:
            raise SizeLimitError(
                f"the message from {message.from_!r} to {message.to!r}", size, self.options.max_message_bytes
            )

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

    async def reopen_run(self, run_id: str) -> str:
        """See ``RunStore.reopen_run``."""
        async with self._turn:
            run = self._work.runs.get(run_id)
            if run is None:
                return "missing"
            if run.record.status is RunStatus.QUEUED:
                return "reopened"
            if run.record.status is not RunStatus.FAILED:
                return "refused"
            run.record = replace(
                run.record, status=RunStatus.QUEUED, owner=None, result=None, error=None, finished_at=None
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

    async def get_run(self, run_id: str) -> RunRecord | None:
        """See ``RunStore.get_run``."""
        run = self._work.runs.get(run_id)
        return None if run is None else run.record

    async def list_runs(self, limit: int = 50) -> list[RunRecord]:
        """See ``RunStore.list_runs``."""
        newest = list(reversed(self._work.runs.values()))
        return [run.record for run in newest[:limit]]

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

    # --- messages -----------------------------------------------------------------------------------------------

    async def send(self, message: TeamMessage, *, member: str | None, conversation: str | None = None) -> TeamMessage:
        """See ``RunStore.send``."""
        async with self._turn:
            known = await self._adapter.get(message.id) if message.id in self._work.items else None
            if known is not None:
                return known
            self._check_size(message)
            if member is None:
                sent = await self._adapter.send(message)
                self._work.note(sent)
                return sent
            if self._work.queue(member).depth >= self.options.max_mailbox_depth:
                raise StoreError(
                    f"mailbox {member!r} is full: it holds {self.options.max_mailbox_depth} unfinished messages"
                )
            sent = await self._work.accept(
                WorkItem(
                    message=message,
                    member=member,
                    conversation=conversation or "",
                    mode="message",
                    shared=conversation is not None,
                )
            )
            self._work.deliver(sent.id)
            return sent

    async def claim(self, member: str, owner: str, lease_ms: int, count: int = 1) -> list[Claim]:
        """See ``RunStore.claim``."""
        async with self._turn:
            claims: list[Claim] = []
            while len(claims) < count and (claim := await self._work.take(member, owner, lease_ms)) is not None:
                claims.append(claim)
            return claims

    async def claim_message(self, message_id: str, owner: str, lease_ms: int) -> Claim | None:
        """See ``RunStore.claim_message``."""
        async with self._turn:
            return await self._work.lease_item(message_id, owner, lease_ms)

    async def settle(
        self, lease: Lease, outcome: Outcome, step: Step, *, claim_next: tuple[str, str, int] | None = None
    ) -> Settled:
        """See ``RunStore.settle``."""
        async with self._turn:
            work = self._work
            state = work.items.get(lease.id)
            if state is None:
                return Settled("missing")
            if state.settled == (lease.owner, lease.token):
                return Settled("settled")
            if not work.is_current(lease):
                return Settled("stale")
            await work.write(lease, step)
            work.conversation(state.item.conversation).journal.clear()
            await work.report(state, outcome)
            state.settled = (lease.owner, lease.token)
            await work.close(state, outcome.status)
            claim = await work.take(*claim_next) if claim_next is not None else None
            return Settled("settled", () if claim is None else (claim,))

    async def hand_back(self, lease: Lease, step: Step | None = None) -> str:
        """See ``RunStore.hand_back``."""
        async with self._turn:
            held = self._work.holder(lease.kind, lease.id)
            if held is None or not self._work.is_current(lease):
                return "returned" if held is not None and held.returned == (lease.owner, lease.token) else "stale"
            if step is not None:
                await self._work.write(lease, step)
            held.returned = lease.owner, lease.token
            held.lease = None
            if isinstance(held, ItemState):
                held.handed_back += 1
                await self._reopen(held, first=True)
            return "returned"

    async def _reopen(self, state: ItemState, *, first: bool) -> None:
        state.lease = None
        await self._adapter.reopen(state.item.message.id)
        self._work.queue(state.item.member).give_back(state.item.message.id, first=first)

    async def update_status(self, message_id: str, status: str) -> bool:
        """See ``RunStore.update_status``."""
        async with self._turn:
            target = MessageStatus(status)
            message = await self._adapter.get(message_id)
            if message is None or target not in ALLOWED_MOVES[message.status]:
                return False
            state = self._work.items.get(message_id)
            if state is not None and target is MessageStatus.PROCESSING:
                state.ready = False
            if state is None or not state.open or not target.is_terminal:
                return await self._adapter.update_status(message_id, target)
            holder = state.lease
            moved = await self._work.close(state, target)
            if moved and holder is not None:
                self._work.signal(holder.owner, f"cancel:{message_id}")
            return moved

    async def get(self, message_id: str) -> TeamMessage | None:
        """See ``RunStore.get``."""
        return await self._adapter.get(message_id)

    async def inbox(self, member: str, status: str = "pending") -> list[TeamMessage]:
        """See ``RunStore.inbox``."""
        return await self._adapter.inbox(self._work.mailbox_ids.get(member, member), status)

    async def counts(self, member: str) -> dict[str, int]:
        """See ``RunStore.counts``."""
        counts: dict[str, int] = {}
        for message in await self.inbox(member, "all"):
            counts[str(message.status)] = counts.get(str(message.status), 0) + 1
        return counts

    # --- conversations ------------------------------------------------------------------------------------------

    async def append(self, lease: Lease, step: Step) -> str:
        """See ``RunStore.append``."""
        async with self._turn:
            if not self._work.is_current(lease):
                return "stale"
            await self._work.write(lease, step)
            return "written"

    async def load(self, conversation: str) -> ConversationState:
        """See ``RunStore.load``."""
        state = self._work.conversations.get(conversation)
        if state is None:
            return ConversationState()
        return ConversationState(tuple(state.messages), frozenset(state.entered), dict(state.journal))

    # --- leases and processes -----------------------------------------------------------------------------------

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

    async def _reclaim(self, state: "ItemState | RunState", owner: str, lease_ms: int) -> ExpiredLease:
        if isinstance(state, RunState):
            state.lease = self._work.new_lease("run", state.record.id, "", 0, lease_ms)
            state.reserved_for = owner
            return ExpiredLease("run", state.record.id, "run")
        message_id = state.item.message.id
        if state.attempt - state.handed_back < self.options.max_attempts:
            await self._reopen(state, first=False)
            return ExpiredLease("message", message_id, "returned", state.attempt)
        reason = f"{state.attempt} workers were lost while they worked on it"
        metadata = {"status": "failed", "error": {"code": "worker_lost", "message": reason, "name": "WorkerLost"}}
        await self._work.report(state, Outcome(status=MessageStatus.FAILED, report=reason, metadata=metadata))
        await self._work.close(state, MessageStatus.FAILED)
        return ExpiredLease("message", message_id, "dead", state.attempt)

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

    # --- waiting ------------------------------------------------------------------------------------------------

    async def wait_for_mail(self, member: str, timeout_ms: int) -> bool:
        """See ``RunStore.wait_for_mail``."""
        return await self._work.queue(member).bell.wait(timeout_ms)

    async def wait_for_signals(self, process_id: str, timeout_ms: int) -> list[str]:
        """See ``RunStore.wait_for_signals``."""
        return await self._work.next_signals(process_id, timeout_ms)

    async def close(self) -> None:
        """Nothing is held that needs releasing."""
