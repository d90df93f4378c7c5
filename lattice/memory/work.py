"""The moves that the memory store's steps are made of; each assumes that its caller holds the store's lock."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from lattice.encoding import encode
from lattice.events import TeamMessageEvent
from lattice.mailbox import MessageStatus, TeamMessage, WorkItemRole, mailbox_key
from lattice.memory.adapter import MailboxAdapter
from lattice.memory.queues import Bell, MailQueue
from lattice.memory.state import BatchState, Conversation, ItemState, RunState
from lattice.run_store import StoreOptions
from lattice.runs import Claim, Lease, Outcome, RunStatus, Step, WorkItem

__all__ = ["Work"]

_FOR_EVER = 2**63


class Work:
    """Messages, conversations, batches and leases of one team in one process."""

    def __init__(
        self, adapter: MailboxAdapter, options: StoreOptions, clock: Callable[[], int], *, expire: bool
    ) -> None:
        self.adapter = adapter
        self.options = options
        self.now = clock
        self.expire = expire
        self.items: dict[str, ItemState] = {}
        self.queues: dict[str, MailQueue] = {}
        self.mailbox_ids: dict[str, str] = {}
        self.conversations: dict[str, Conversation] = {}
        self.batches: dict[str, BatchState] = {}
        self.runs: dict[str, RunState] = {}
        self.signals: dict[str, tuple[deque[str], Bell]] = {}

    # --- leases -------------------------------------------------------------------------------------------------

    def new_lease(self, kind: str, lease_id: str, owner: str, token: int, lease_ms: int) -> Lease:
        """Return a lease from now on."""
        return Lease(kind, lease_id, owner, token, self.now() + lease_ms if self.expire else _FOR_EVER)

    def holder(self, kind: str, lease_id: str) -> ItemState | RunState | None:
        """Return what a lease is on."""
        return self.runs.get(lease_id) if kind == "run" else self.items.get(lease_id)

    def is_current(self, lease: Lease) -> bool:
        """Whether a lease is still the one that may write."""
        held = self.holder(lease.kind, lease.id)
        current = held.lease if held is not None else None
        return current is not None and (current.owner, current.token) == (lease.owner, lease.token)

    def run_of(self, lease: Lease) -> RunState | None:
        """Return the run that a lease's work belongs to."""
        if lease.kind == "run":
            return self.runs.get(lease.id)
        state = self.items.get(lease.id)
        return None if state is None else self.runs.get(state.item.message.run_id or "")

    # --- messages -----------------------------------------------------------------------------------------------

    def queue(self, member: str) -> MailQueue:
        """Return a mailbox's queue."""
        return self.queues.setdefault(member, MailQueue())

    async def accept(self, item: WorkItem) -> TeamMessage:
        """Send a claimable message."""
        message = await self.adapter.send(item.message)
        self.track(replace(item, message=message, conversation=item.conversation or message.id))
        return message

    def track(self, item: WorkItem) -> None:
        """Take note of a stored message that is claimable as soon as it is delivered."""
        message = item.message
        state = ItemState(item)
        self.items[message.id] = state
        self.mailbox_ids[item.member] = message.to
        run = self.runs.get(message.run_id or "")
        if run is not None:
            run.messages.append(message.id)
        self.queue(item.member).depth += 1

    def deliver(self, message_id: str) -> None:
        """Put a message into the queue of its mailbox, or into the line of its conversation.

        A note to somebody who is at work is kept for him.
        """
        state = self.items[message_id]
        item = state.item
        if state.note is not None and self.keep_for_work(state):
            return
        if item.shared:
            conversation = self.conversation(item.conversation)
            if conversation.busy not in (None, message_id):
                conversation.waiting.append(message_id)
                return
            conversation.busy = message_id
        state.ready = True
        self.queue(item.member).add(message_id)

    def waits_for_itself(self, item: WorkItem) -> bool:
        """Whether an item would wait for a conversation that waits, through however many others, for the item."""
        if not item.shared or self.conversation(item.conversation).busy is None:
            return False
        blocked, seen = list(item.chain), set()
        while blocked:
            name = blocked.pop()
            if name == item.conversation:
                return True
            if name in seen or name not in self.conversations:
                continue
            seen.add(name)
            for message_id in self.conversations[name].waiting:
                blocked += self.items[message_id].item.chain
        return False

    # --- notes --------------------------------------------------------------------------------------------------

    def keep_for_work(self, note: ItemState) -> bool:
        """Keep a note for whoever is at work for the same run at the same mailbox; False if nobody is."""
        run = self.runs.get(note.item.message.run_id or "")
        if run is None or note.attempt > 0:
            return False
        states = (self.items[message_id] for message_id in run.messages)
        work = next((one for one in states if one.at_work and one.item.member == note.item.member), None)
        if work is None:
            return False
        self.keep_for(note, work.item.message.id)
        if note.note == "interrupt" and work.lease is not None:
            self.signal(work.lease.owner, f"note:message:{work.item.message.id}:{note.item.message.id}")
        return True

    def keep_for(self, note: ItemState, message_id: str) -> None:
        """Keep a note for whoever works on a message."""
        note.kept_for, note.ready = message_id, False
        self.items[message_id].has_notes = True
        waiting = self.conversation(note.item.conversation).waiting
        if note.item.message.id in waiting:
            waiting.remove(note.item.message.id)

    def _release_notes(self, state: ItemState) -> None:
        """Leave the notes that work was not shown to somebody else."""
        state.has_notes = False
        for note in list(self.items.values()):
            if note.open and note.kept_for == state.item.message.id:
                note.kept_for = None
                self.deliver(note.item.message.id)

    # --- claims -------------------------------------------------------------------------------------------------

    async def take(self, member: str, owner: str, lease_ms: int) -> Claim | None:
        """Lease the next claimable message of a mailbox."""
        queue = self.queue(member)
        while (message_id := queue.pop()) is not None:
            state = self.items.get(message_id)
            if state is not None and state.note is not None and (state.kept_for or self.keep_for_work(state)):
                continue
            claim = await self.lease_item(message_id, owner, lease_ms)
            if claim is not None:
                return claim
        for message in await self._unknown_mail(member):
            self.track(WorkItem(message=message, member=member, conversation=message.id, mode="message"))
            self.items[message.id].ready = True
            claim = await self.lease_item(message.id, owner, lease_ms)
            if claim is not None:
                return claim
        queue.bell.silence()
        return None

    async def _unknown_mail(self, member: str) -> list[TeamMessage]:
        mailbox_id = self.mailbox_ids.get(member)
        if mailbox_id is None:
            return []
        pending = await self.adapter.inbox(mailbox_id, MessageStatus.PENDING)
        return [message for message in pending if message.id not in self.items]

    async def lease_item(self, message_id: str, owner: str, lease_ms: int) -> Claim | None:
        """Lease one message if it is free; one that ended behind the store's back is closed."""
        state = self.items.get(message_id)
        if state is None or not (state.open and state.ready and state.claimable) or state.lease is not None:
            return None
        message = await self.adapter.get(message_id)
        if message is None or message.status.is_terminal:
            self.release(state)
            return None
        if message.status is MessageStatus.PENDING:
            await self.adapter.update_status(message_id, MessageStatus.PROCESSING)
            message = message.evolve(status=MessageStatus.PROCESSING)
        state.attempt += 1
        state.lease = self.new_lease("message", message_id, owner, state.attempt, lease_ms)
        state.item = replace(state.item, message=message)
        conversation = self.conversation(state.item.conversation)
        delivered = state.handed_off is None or state.handed_off in conversation.entered
        started = bool(conversation.messages)
        return Claim(state.item, state.lease, state.attempt, started, state.handed_off, delivered, state.retries)

    async def close(self, state: ItemState, status: MessageStatus) -> bool:
        """End a message; False when it had ended as something else already."""
        message_id = state.item.message.id
        moved = await self.adapter.update_status(message_id, status)
        if not moved:
            message = await self.adapter.get(message_id)
            moved = message is not None and message.status is status
        self.release(state)
        return moved

    def leave_open(self, state: ItemState) -> None:
        """Let go of a message without ending it: a later reply does."""
        state.left_open, state.ready, state.lease = True, False, None
        self._free_conversation(state)
        if state.has_notes:
            self._release_notes(state)

    def release(self, state: ItemState) -> None:
        """Free what an ended message held: its lease, its place in the conversation, its count in the batch."""
        if not state.open:
            return
        state.open = False
        state.lease = None
        self.queue(state.item.member).depth -= 1
        self._free_conversation(state)
        self._count_down(state)
        if state.has_notes:
            self._release_notes(state)

    def _free_conversation(self, state: ItemState) -> None:
        conversation = self.conversations.get(state.item.conversation)
        if not state.item.shared or conversation is None:
            return
        message_id = state.item.message.id
        if conversation.busy == message_id:
            conversation.busy = None
            self._deliver_next(conversation.waiting)
        elif message_id in conversation.waiting:
            conversation.waiting.remove(message_id)

    def _deliver_next(self, line: deque[str]) -> None:
        while line:
            message_id = line.popleft()
            if self.items[message_id].open:
                self.deliver(message_id)
                return

    def _count_down(self, state: ItemState) -> None:
        batch = self.batches.get(state.item.batch or "")
        if batch is None:
            return
        batch.waiting -= 1
        self._deliver_next(batch.held)
        if batch.waiting == 0:
            parent = self.holder(batch.parent.kind, batch.parent.id)
            if parent is not None and parent.lease is not None:
                self.signal(parent.lease.owner, f"batch:{state.item.batch}")

    async def report(self, state: ItemState, outcome: Outcome) -> None:
        """Write the message that closes a work item towards its sender."""
        if outcome.report is None or outcome.status is MessageStatus.CANCELLED:
            return
        request = state.item.message
        report = await self.adapter.send(
            TeamMessage(
                id=outcome.report_id or "",
                from_=request.to,
                to=request.from_,
                content=outcome.report,
                thread_id=request.thread_id,
                parent_message_id=request.id,
                work_item_id=request.work_item_id,
                work_item_role=WorkItemRole.UPSTREAM_REPORT,
                upstream_message_id=request.upstream_message_id or request.id,
                parent_work_item_id=request.parent_work_item_id,
                run_id=request.run_id,
                metadata=outcome.metadata,
            )
        )
        state.report = report.id
        self.note(report)

    def note(self, message: TeamMessage) -> None:
        """Remember a message that nobody claims."""
        member = mailbox_key(message.to)
        item = WorkItem(message=message, member=member, conversation=message.id, mode="report")
        self.items[message.id] = ItemState(item, claimable=False, open=False)
        self.mailbox_ids.setdefault(member, message.to)
        run = self.runs.get(message.run_id or "")
        if run is not None:
            run.messages.append(message.id)

    # --- conversations and events -------------------------------------------------------------------------------

    def conversation(self, name: str) -> Conversation:
        """Return a conversation, new if need be."""
        return self.conversations.setdefault(name, Conversation())

    async def write(self, lease: Lease, step: Step) -> None:
        """Write what a step adds."""
        if step.messages or step.replace or step.once or step.clear_journal or step.started or step.finished:
            self.conversation(step.conversation).write(step)
        for message_id in step.reads:
            await self._mark_read(message_id, lease.id)
        run = self.run_of(lease)
        if run is None or (run.record.status.is_terminal and lease.kind == "message"):
            return
        if run.events.followed:
            run.events.add(*step.deltas)
        run.events.add(*step.events)
        if step.usage:
            total = dict(run.record.total_usage or {})
            for name, amount in step.usage.items():
                total[name] = total.get(name, 0) + amount
            run.record = replace(run.record, total_usage=total)

    async def _mark_read(self, message_id: str, reader: str) -> None:
        """Text stands in a conversation now: a report, or a note that was kept for the reader."""
        state = self.items.get(message_id)
        if state is None or not state.open:
            await self.adapter.update_status(message_id, MessageStatus.READ)
        elif state.kept_for == reader:
            await self.close(state, MessageStatus.READ)

    # --- runs ---------------------------------------------------------------------------------------------------

    async def end_run(self, run: RunState, status: RunStatus) -> None:
        """Close a run's event stream and whatever it left open; the record is the caller's."""
        owner = run.lease.owner if run.lease is not None else None
        run.lease = None
        run.forget_at = self.now() + self.options.retention_ms
        for message_id in list(run.messages):
            state = self.items[message_id]
            if not state.open:
                continue
            holder = state.lease
            await self.close(state, MessageStatus.CANCELLED)
            if state.item.batch is not None:
                await self.tell(run, "cancelled", state, message_id, state.item.message.to)
            if holder is not None:
                self.signal(holder.owner, f"cancel:{message_id}")
        if status is RunStatus.CANCELLED and owner is not None:
            self.signal(owner, f"cancel:run:{run.record.id}")
        run.events.end(status)

    async def tell(
        self, run: RunState, subtype: str, state: ItemState, message_id: str, mailbox: str, error: object = None
    ) -> None:
        """Tell in a run's events how a work item ended that no worker ended; ``message_id`` may be its report's."""
        message = await self.adapter.get(message_id)
        if message is None:
            return
        to, name = state.item.message.to, state.item.member
        name = mailbox_key(to) if name.startswith("delegate.") else name
        source = {"kind": "team_member", "name": name, "team": run.record.team, "member": name, "mailbox": to}
        run.events.add(encode(TeamMessageEvent(subtype, source, mailbox, message.to_dict(), error).to_dict()))

    # --- signals ------------------------------------------------------------------------------------------------

    def signal(self, process_id: str, text: str) -> None:
        """Leave a signal for a process."""
        waiting, bell = self.signals.setdefault(process_id, (deque(maxlen=10_000), Bell()))
        waiting.append(text)
        bell.ring()

    async def next_signals(self, process_id: str, timeout_ms: int) -> list[str]:
        """Return the signals to a process, waiting for the first."""
        waiting, bell = self.signals.setdefault(process_id, (deque(maxlen=10_000), Bell()))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while not waiting:
            left = deadline - loop.time()
            if left <= 0 or not await bell.wait(int(left * 1000) + 1):
                break
        texts = list(waiting)
        waiting.clear()
        return texts
