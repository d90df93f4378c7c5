"""The memory store's steps on retries and budgets, on dead letters, and on where work stands."""

from dataclasses import replace

from lattice.errors import StoreError
from lattice.ids import derive_id
from lattice.mailbox import LEAD_MAILBOX, MessageStatus, TeamMessage
from lattice.memory.base import StorePart
from lattice.memory.state import ItemState
from lattice.runs import Allowance, Budget, DeadLetter, Lease, RunRecord, Step, WorkItem, WorkState, is_lasting

__all__ = ["WorkSteps"]


class WorkSteps(StorePart):
    """Work that is put off, counted, or given up."""

    async def postpone(self, lease: Lease, delay_ms: int, reason: str, step: Step | None = None) -> str:
        """See ``RunStore.postpone``."""
        async with self._turn:
            work = self._work
            state = work.items.get(lease.id)
            if state is None or not work.is_current(lease):
                again = state is not None and state.returned == (lease.owner, lease.token)
                return "postponed" if again else "stale"
            if step is not None:
                await work.write(lease, step)
            state.returned = lease.owner, lease.token
            state.lease, state.ready = None, False
            state.handed_back += 1
            state.retries += 1
            state.retry_reason = reason
            state.due_at = work.now() + delay_ms
            await self._adapter.reopen(lease.id)
            return "postponed"

    async def wake_due(self, limit: int = 100) -> int | None:
        """See ``RunStore.wake_due``."""
        async with self._turn:
            now = self._work.now()
            delayed = sorted(
                (
                    (state.due_at, state)
                    for state in self._work.items.values()
                    if state.open and state.due_at is not None
                ),
                key=lambda pair: pair[0],
            )
            due = [state for due_at, state in delayed if due_at <= now][:limit]
            for state in due:
                state.due_at, state.ready = None, True
                self._work.queue(state.item.member).give_back(state.item.message.id, first=False)
            left = [due_at for due_at, state in delayed if state.due_at is not None]
            return max(0, left[0] - now) if left else None

    async def draw(self, run_id: str, budget: Budget, *, calls: int = 1, tokens: int = 0) -> Allowance:
        """See ``RunStore.draw``."""
        async with self._turn:
            run = self._work.runs.get(run_id)
            if run is None:
                return Allowance("missing")
            now = self._work.now()
            elapsed = now - (run.record.started_at or now)
            record = replace(run.record, tokens=run.record.tokens + tokens)
            word = _refusal(budget, record, calls, elapsed)
            run.record = record if word is not None else replace(record, model_calls=record.model_calls + calls)
            return Allowance(word or "granted", run.record.model_calls, run.record.tokens, elapsed)

    async def work_items(self, run_id: str) -> list[WorkState]:
        """See ``RunStore.work_items``."""
        run = self._work.runs.get(run_id)
        states = [self._work.items[message_id] for message_id in (run.messages if run is not None else ())]
        return [await self._standing(state) for state in states if state.claimable]

    async def _standing(self, state: ItemState) -> WorkState:
        item = state.item
        conversation = self._work.conversations.get(item.conversation) if item.shared and state.open else None
        busy = conversation.busy if conversation is not None else None
        return WorkState(
            message=await self._adapter.get(item.message.id) or item.message,
            member=item.member,
            attempts=state.attempt,
            retries=state.retries,
            retry_reason=state.retry_reason,
            due_at=state.due_at if state.open else None,
            owner=state.lease.owner if state.lease is not None else None,
            lease_until=state.lease.deadline if state.lease is not None else None,
            behind=busy if busy != item.message.id else None,
        )

    # --- dead letters -------------------------------------------------------------------------------------------

    async def dead_letters(self, limit: int = 100) -> list[DeadLetter]:
        """See ``RunStore.dead_letters``."""
        items = self._work.items
        for forgotten in [message_id for message_id in self._dead if message_id not in items]:
            del self._dead[forgotten]
        return list(reversed(self._dead.values()))[:limit]

    async def requeue_dead(self, message_id: str) -> TeamMessage | None:
        """See ``RunStore.requeue_dead``."""
        async with self._turn:
            new_id = derive_id("requeue", message_id)
            if new_id in self._work.items:
                return await self._adapter.get(new_id)
            letter = self._dead.get(message_id)
            state = self._work.items.get(message_id)
            if letter is None or state is None:
                return None
            if self._work.queue(letter.member).depth >= self.options.max_mailbox_depth:
                limit = self.options.max_mailbox_depth
                raise StoreError(f"mailbox {letter.member!r} is full: it holds {limit} unfinished messages")
            sent = await self._work.accept(_again(state.item, new_id))
            del self._dead[message_id]
            self._work.deliver(sent.id)
            return sent

    async def drop_dead(self, message_id: str) -> bool:
        """See ``RunStore.drop_dead``."""
        return self._dead.pop(message_id, None) is not None


def _refusal(budget: Budget, run: RunRecord, calls: int, elapsed_ms: int) -> str | None:
    """Return why a run gets no further model call, None if it does."""
    if budget.max_seconds is not None and elapsed_ms >= budget.max_seconds * 1000:
        return "deadline_exceeded"
    if budget.max_tokens is not None and run.tokens >= budget.max_tokens:
        return "budget_exceeded"
    if budget.max_model_calls is not None and run.model_calls + calls > budget.max_model_calls:
        return "budget_exceeded"
    return None


def _again(item: WorkItem, new_id: str) -> WorkItem:
    """Return the work of a dead letter as a message of its own."""
    lasting = is_lasting(item.conversation)
    message = item.message.evolve(
        id=new_id,
        from_=LEAD_MAILBOX,
        status=MessageStatus.PENDING,
        parent_message_id=item.message.id,
        work_item_id=new_id,
        upstream_message_id=new_id,
        parent_work_item_id=None,
        run_id=None,
    )
    return WorkItem(
        message=message,
        member=item.member,
        conversation=item.conversation if lasting else new_id,
        mode=item.mode,
        shared=lasting,
        description=item.description,
    )
