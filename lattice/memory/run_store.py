"""The run store of a team that lives in one process: the same steps as on Redis, around any mailbox."""

from lattice.errors import StoreError
from lattice.mailbox import MessageStatus, TeamMessage
from lattice.memory.lease_steps import LeaseSteps
from lattice.memory.run_steps import RunSteps
from lattice.memory.state import ItemState
from lattice.memory.work_steps import WorkSteps
from lattice.runs import (
    ALLOWED_MOVES,
    Claim,
    ConversationState,
    Lease,
    Outcome,
    Settled,
    Step,
    WorkItem,
)

__all__ = ["MemoryRunStore"]


class MemoryRunStore(RunSteps, LeaseSteps, WorkSteps):
    """A ``RunStore`` in memory.

    Messages live in ``mailbox`` (a memory mailbox if none is given), everything else in this object. Leases never
    expire unless ``expire_leases`` is set; ``clock`` returns epoch milliseconds. ``mailbox_ids`` says which mailbox a
    member key names; the store learns the others from what is sent.
    """

    # --- messages -----------------------------------------------------------------------------------------------

    async def send(
        self, message: TeamMessage, *, member: str | None, conversation: str | None = None, listens: bool = True
    ) -> TeamMessage:
        """See ``RunStore.send``."""
        async with self._turn:
            known = await self._adapter.get(message.id) if message.id in self._work.items else None
            if known is not None:
                return known
            self._check_size(message)
            if member is None:
                sent = await self._adapter.send(message)
                self._work.note(sent)
                self._alert_lead(sent)
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
            if listens:
                self._work.items[sent.id].note = _urgency(sent)
            self._work.deliver(sent.id)
            return sent

    def _alert_lead(self, message: TeamMessage) -> None:
        run = self._work.runs.get(message.run_id or "")
        if run is not None and run.lease is not None and _urgency(message) == "interrupt":
            self._work.signal(run.lease.owner, f"note:run:{run.record.id}:{message.id}")

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
            if outcome.status is MessageStatus.PROCESSING:
                work.leave_open(state)
            else:
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

    async def update_status(self, message_id: str, status: str) -> bool:
        """See ``RunStore.update_status``."""
        async with self._turn:
            target = MessageStatus(status)
            message = await self._adapter.get(message_id)
            if message is None or target not in ALLOWED_MOVES[message.status]:
                return False
            state = self._work.items.get(message_id)
            if state is not None and target is MessageStatus.PROCESSING:
                state.ready, state.kept_for = False, None
            if state is None or not state.open or not target.is_terminal:
                return await self._adapter.update_status(message_id, target)
            return await self._finish(state, target)

    async def _finish(self, state: ItemState, target: MessageStatus) -> bool:
        """End a message, and with work that is cancelled what was asked or handed off for it."""
        work, message = self._work, state.item.message
        holder, batch = state.lease, state.item.batch
        moved = await work.close(state, target)
        if moved and holder is not None:
            work.signal(holder.owner, f"cancel:{message.id}")
        run = work.runs.get(message.run_id or "")
        if not moved or target is not MessageStatus.CANCELLED or batch is None or run is None:
            return moved
        if not run.record.status.is_terminal:
            await work.tell(run, "cancelled", state, message.id, message.to)
        for child in [work.items[message_id] for message_id in run.messages]:
            parent = work.batches.get(child.item.batch or "")
            if child.open and parent is not None and (parent.parent.kind, parent.parent.id) == ("message", message.id):
                await self._finish(child, target)
        return True

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

    async def take_notes(self, lease: Lease, member: str, limit: int = 100) -> list[TeamMessage]:
        """See ``RunStore.take_notes``."""
        async with self._turn:
            work = self._work
            if not work.is_current(lease):
                return []
            run = work.run_of(lease)
            runs = (None,) if run is None else (None, run.record.id)
            taken: list[TeamMessage] = []
            for message in await self.inbox(member):
                if len(taken) == limit:
                    break
                note = work.items.get(message.id)
                if note is None or not _urgency(message) or message.run_id not in runs:
                    continue
                if note.claimable and (note.note is None or note.attempt or note.kept_for not in (None, lease.id)):
                    continue
                if note.claimable:
                    work.keep_for(note, lease.id)
                taken.append(message)
            return taken

    async def backlog(self, member: str) -> tuple[int, int]:
        """See ``RunStore.backlog``."""
        items = self._work.items
        waiting = [
            message for message in await self.inbox(member) if message.id in items and items[message.id].claimable
        ]
        age = self._work.now() - waiting[0].created_at if waiting else 0
        return len(waiting), max(0, age)

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

    # --- waiting ------------------------------------------------------------------------------------------------

    async def await_claims(self, member: str, owner: str, lease_ms: int, count: int, timeout_ms: int) -> list[Claim]:
        """See ``RunStore.await_claims``."""
        await self._work.queue(member).bell.wait(timeout_ms)
        return await self.claim(member, owner, lease_ms, count)

    async def wait_for_signals(self, process_id: str, timeout_ms: int) -> list[str]:
        """See ``RunStore.wait_for_signals``."""
        return await self._work.next_signals(process_id, timeout_ms)

    async def close(self) -> None:
        """Nothing is held that needs releasing."""


def _urgency(message: TeamMessage) -> str | None:
    return (message.metadata or {}).get("urgency") or None
