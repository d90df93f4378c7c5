"""An actor's mail and events through the run store: buffered, written in few steps, fenced by its lease."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from lattice.errors import AbortError, LatticeError, LeaseLostError
from lattice.events import TeamMessageEvent
from lattice.ids import derive_id
from lattice.mailbox import MessageStatus, TeamMessage
from lattice.runs import Batch, WorkItem
from lattice.team.definition import TeamMemberDefinition, conversation_of
from lattice.team.delegation import never_ends
from lattice.team.failures import AgentRuntimeFailure, failure_text
from lattice.team.host import Held, Host
from lattice.team.recording import Recorder
from lattice.team.run_trace import RunTrace

__all__ = ["StorePost"]


class StorePost:
    """A ``Post`` over the run store, for the holder of one lease."""

    __slots__ = ("_handed_off", "_host", "_limit", "_recorder", "_run_id", "_trace", "has_sent", "held", "interrupted")

    def __init__(
        self,
        host: Host,
        held: Held,
        recorder: Recorder,
        run_id: str | None,
        *,
        limit: int | None = None,
        trace: RunTrace | None = None,
    ) -> None:
        """``limit`` bounds how many items of a batch are worked on at once; ``trace`` is the root that takes mail."""
        self._host = host
        self.held = held
        self._recorder = recorder
        self._run_id = run_id
        self._limit = limit
        self._trace = trace
        self._handed_off: list[WorkItem] = []
        self.has_sent = False
        """Whether anything was sent from here."""
        self.interrupted = False
        """Whether the run is interrupted: what nobody has begun is cancelled."""

    def emit(self, event: Any) -> None:
        """Add an event to the run's stream."""
        self._recorder.emit(event)

    async def tell(self, event: Any) -> None:
        """Add an event to the run's stream, and a message of the team to its trace."""
        self._recorder.emit(event)
        if self._trace is not None and isinstance(event, TeamMessageEvent):
            await self._trace.message(event)

    def add_usage(self, usage: dict[str, int] | None) -> None:
        """Add tokens to the run's total."""
        self._recorder.add_usage(usage)

    async def before_model_call(self) -> None:
        """Write what was paid for, and make sure that the lease is still ours."""
        await self._recorder.before_model_call()

    async def before_sending(self) -> None:
        """Make sure that the lease is still ours."""
        await self._host.check(self.held)

    async def notes(self, mailbox: str, queue: str) -> list[TeamMessage]:
        """Take the notes in a mailbox; they are read as soon as the next message of the conversation is written."""
        del mailbox
        notes = await self.held.guard(self._host.store.take_notes(self.held.lease, queue))
        self._recorder.add_reads_of_next(note.id for note in notes)
        return notes

    def message_id(self, tool_use_id: str) -> str:
        """Return an id that follows from the work, the place in the conversation and the call."""
        return derive_id(self.held.lease.kind, self.held.lease.id, self._recorder.position, tool_use_id)

    def conversation(self, member: TeamMemberDefinition | None, agent: Any, key: str, message_id: str) -> str:
        """Return the conversation that the member's worker does a piece of work in.

        Raises:
            LatticeError: the target is no member of the team, so no worker would ever take the work.
        """
        del agent
        if member is None:
            raise LatticeError(
                f"no process of this team serves {key}: its tool was not there when they started; make it a member"
            )
        return conversation_of(member, self._run_id, message_id)

    async def hand_off(self, item: WorkItem, agent: Any) -> TeamMessage:
        """Keep a handoff until its response is complete."""
        del agent
        self._recorder.pausing = True
        self._handed_off.append(self._traced(item))
        return item.message

    async def ask(
        self, item: WorkItem, agent: Any, sent: Callable[[TeamMessage], Awaitable[None]], timeout_ms: int | None
    ) -> TeamMessage | None:
        """Send a question, with what leads to it, and wait for the report; None if there was none in time."""
        del agent
        await sent(item.message)
        batch = Batch(id=derive_id("ask", item.message.id), items=(self._traced(item),), pauses=False)
        word, messages = await self._accept(batch)
        if word == "full":
            raise LatticeError(f"the mailbox of {item.member} is full; try again later or go on without it")
        if word == "circle":
            raise never_ends(item.member)
        if timeout_ms is None:
            (report,) = await self._wait(batch, word)
        else:
            asked = messages[0]
            left = timeout_ms if word == "accepted" else timeout_ms - await self._age(asked)
            in_time = await self._wait_in_time(batch, word, left)
            if in_time is None:
                return None
            report = in_time
        if report.status != MessageStatus.CANCELLED:
            self._recorder.add_reads((report.id,))
        return report

    async def _age(self, message: TeamMessage) -> int:
        """Return how many ms ago a message was sent: whoever waits again after a crash has not all the time anew."""
        return await self.held.guard(self._host.store.now()) - message.created_at

    async def _wait_in_time(self, batch: Batch, word: str, timeout_ms: int) -> TeamMessage | None:
        """Wait for the report on a question; when its time is up, cancel it, and return None."""
        try:
            async with asyncio.timeout(max(0, timeout_ms) / 1000):
                (report,) = await self._wait(batch, word)
                return report
        except TimeoutError:
            question = batch.items[0].message.id
            await self.held.guard(self._host.store.update_status(question, MessageStatus.CANCELLED))
            (report,) = await self._host.reports(self.held, batch.id)  # perhaps it has just come after all
            return None if report.status == MessageStatus.CANCELLED else report

    async def reports(self) -> tuple[TeamMessage, ...]:
        """Send what was handed off, and wait until all of it has come back."""
        items, self._handed_off = tuple(self._handed_off), []
        self._recorder.pausing = False
        batch = Batch(id=derive_id("batch", items[0].message.id), items=items, limit=self._limit)
        word, _ = await self._accept(batch)
        if word in _REFUSALS:
            return tuple(_refused(item, word) for item in items)
        if self.interrupted:
            await self.cancel_queued()
        return self._entering(batch.id, await self._wait(batch, word))

    async def cancel_queued(self) -> None:
        """Cancel what nobody has begun for a run that is interrupted."""
        assert self._run_id is not None
        await self.held.guard(self._host.store.interrupt_run(self._run_id))

    async def reports_of(self, batch_id: str) -> tuple[TeamMessage, ...]:
        """Wait for a batch that was accepted before; its reports enter the conversation once."""
        if self.interrupted:
            await self.cancel_queued()
        return self._entering(batch_id, await self._host.reports(self.held, batch_id))

    def _entering(self, batch_id: str, reports: tuple[TeamMessage, ...]) -> tuple[TeamMessage, ...]:
        self._recorder.once = batch_id
        self._recorder.add_reads(report.id for report in reports if report.status != MessageStatus.CANCELLED)
        return reports

    async def _wait(self, batch: Batch, word: str) -> tuple[TeamMessage, ...]:
        """Wait for the reports; whoever stops waiting for good cancels the work, so that nobody works for nobody."""
        try:
            return await self._host.reports(self.held, batch.id, look_first=word == "exists")
        except AbortError:
            for item in batch.items:
                await self.held.guard(self._host.store.update_status(item.message.id, MessageStatus.CANCELLED))
            raise

    def _traced(self, item: WorkItem) -> WorkItem:
        """Say which trace the work belongs to: that of the tool call which sends it."""
        traceparent = self._host.instruments.traceparent()
        if traceparent is None and self._trace is None:
            return item
        return replace(item, traceparent=traceparent, trace=None if self._trace is None else self._trace.place)

    async def _accept(self, batch: Batch) -> tuple[str, tuple[TeamMessage, ...]]:
        recorder = self._recorder
        self.has_sent = True
        self._host.expect(self.held, batch.id)
        word = "stale"
        messages: tuple[TeamMessage, ...] = ()
        try:
            async with recorder.writing():
                step = recorder.take()
                word, messages = await self.held.guard(self._host.store.hand_off(self.held.lease, batch, step))
                if word in _REFUSALS:
                    written = await self.held.guard(self._host.store.append(self.held.lease, step))
                    word = word if written == "written" else "stale"
        finally:
            if word not in ("accepted", "exists"):
                self._host.expect_no_more(self.held, batch.id)
        if word == "stale":
            self.held.lose(LeaseLostError())
            raise LeaseLostError
        return word, messages


_REFUSALS = {
    "full": ("mailbox_full", "the mailbox of {} takes no more work", "StoreError"),
    "circle": (
        "circular_wait",
        "somebody to whom work was handed off together with that for {} waits for you; nothing of it was sent",
        "LatticeError",
    ),
}
"""Why a store takes nothing of a batch: the code, reason and name of the failure that is reported for each item."""


def _refused(item: WorkItem, word: str) -> TeamMessage:
    code, reason, name = _REFUSALS[word]
    failure = AgentRuntimeFailure(code, reason.format(item.member), name)
    request = item.message
    return TeamMessage(
        id=derive_id("report", request.id),
        from_=request.to,
        to=request.from_,
        content=failure_text(item.member, failure),
        thread_id=request.thread_id,
        work_item_id=request.work_item_id,
        work_item_role="upstream_report",
        parent_message_id=request.id,
        metadata={"status": "failed", "error": failure.to_dict()},
    )
