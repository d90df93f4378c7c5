"""An actor's mail and events within this process: sent at once, worked on by tasks of the same run."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from lattice.abort import AbortController, AbortSignal
from lattice.agent.spec import is_agent_spec
from lattice.ids import new_id
from lattice.mailbox import MessageStatus, TeamMessage
from lattice.memory.adapter import MailboxAdapter
from lattice.memory.run_store import MemoryRunStore
from lattice.runs import Batch, Lease, Step, WorkItem
from lattice.team.crew import Job
from lattice.team.definition import TeamMemberDefinition
from lattice.team.delegation import never_ends
from lattice.team.event_queue import EventQueue
from lattice.team.metering import Meter
from lattice.team.plan import RunPlan
from lattice.team.prompts import urgency_of

__all__ = ["Handoff", "LocalPost", "Office"]


@dataclass(frozen=True, slots=True)
class Handoff:
    """Work that was accepted: its item as stored, the agent that does it, the batch and lease it is reported to.

    ``signal`` stops the work on it.
    """

    item: WorkItem
    agent: Any
    batch_id: str
    lease: Lease
    signal: AbortSignal


class Office(Protocol):
    """What posts and work items need of their run."""

    store: MemoryRunStore
    plan: RunPlan
    events: EventQueue
    signal: AbortSignal
    controller: AbortController

    @property
    def is_interrupted(self) -> bool:
        """Whether the lead is not going to be called again."""
        ...

    def options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return query options with what ties an agent's trace to this run's."""
        ...

    async def tell(self, event: Any) -> None:
        """Tell an event."""
        ...

    def add_usage(self, usage: dict[str, int] | None) -> None:
        """Add tokens to the total."""
        ...

    async def room(self) -> None:
        """Wait while the listener is far behind."""
        ...

    async def work(self, handoffs: "list[Handoff]", job: Job | None, *, asked: bool) -> None:
        """Have work items worked on, until all have ended."""
        ...

    async def cancel(self, handoff: Handoff) -> None:
        """Cancel a work item that nobody works on."""
        ...

    def meter(self) -> Meter | None:
        """Return what one actor of this run draws from."""
        ...

    async def report(self, handoff: Handoff) -> TeamMessage:
        """Return the report on a work item that has ended, or the cancelled item itself."""
        ...


class LocalPost:
    """A ``Post`` for one actor of a run in this process.

    ``job`` is its place in the crew, None for the lead; ``signal`` stops the actor, and whoever works for it.
    """

    __slots__ = ("_emit", "_handed_off", "_office", "_signal", "job", "lease")

    def __init__(
        self, office: Office, emit: Callable[[Any], None], lease: Lease, job: Job | None, signal: AbortSignal
    ) -> None:
        self._office = office
        self._signal = signal
        self._emit = emit
        self.lease = lease
        self.job = job
        self._handed_off: list[Handoff] = []

    def emit(self, event: Any) -> None:
        """Tell an event of an agent."""
        self._emit(event)

    async def tell(self, event: Any) -> None:
        """Tell an event of the team."""
        await self._office.tell(event)

    def add_usage(self, usage: dict[str, int] | None) -> None:
        """Add tokens to the run's total."""
        self._office.add_usage(usage)

    async def before_model_call(self) -> None:
        """Wait while the listener is far behind."""
        await self._office.room()

    async def before_sending(self) -> None:
        """In one process nobody else can have taken the work."""

    async def notes(self, mailbox: str, queue: str) -> list[TeamMessage]:
        """Take the notes in a mailbox."""
        del queue
        store = self._office.store
        waiting = await MailboxAdapter(store.mailbox).inbox(mailbox, MessageStatus.PENDING)
        notes = [message for message in waiting if urgency_of(message) is not None]
        return [note for note in notes if await store.update_status(note.id, MessageStatus.READ)]

    def message_id(self, tool_use_id: str) -> str:
        """Leave the id to the mailbox."""
        del tool_use_id
        return ""

    def conversation(self, member: TeamMemberDefinition | None, agent: Any, key: str, message_id: str) -> str:
        """Return what stands for an agent's conversation; a template has a fresh one each time."""
        del member, key, message_id
        return "" if is_agent_spec(agent) else live_conversation(agent)

    async def hand_off(self, item: WorkItem, agent: Any) -> TeamMessage:
        """Send a handoff."""
        handoff = await self._send(item, agent)
        self._handed_off.append(handoff)
        return handoff.item.message

    async def ask(
        self, item: WorkItem, agent: Any, sent: Callable[[TeamMessage], Awaitable[None]], timeout_ms: int | None
    ) -> TeamMessage | None:
        """Send a question, have it worked on, and return the report; None if there was none in time."""
        handoff = await self._send(item, agent)
        await sent(handoff.item.message)
        if timeout_ms is None:
            await self._office.work([handoff], self.job, asked=True)
            return await self._delivered(handoff)
        is_late = await self._work_in_time(handoff, timeout_ms)
        report = await self._delivered(handoff)
        return None if is_late and report.status == MessageStatus.CANCELLED else report

    async def _work_in_time(self, handoff: Handoff, timeout_ms: int) -> bool:
        """Have a question worked on, and stop it when its time is up; True if it was."""
        stop = AbortController()
        signal = AbortSignal.any([self._signal, stop.signal])
        timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, stop.abort)
        try:
            await self._office.work([replace(handoff, signal=signal)], self.job, asked=True)
        finally:
            timer.cancel()
            signal.release()
        return stop.signal.aborted

    async def reports(self) -> tuple[TeamMessage, ...]:
        """Have everything worked on that was handed off, and return the reports in the order of the handoffs."""
        handoffs, self._handed_off = self._handed_off, []
        await self._office.work(handoffs, self.job, asked=False)
        return tuple([await self._delivered(handoff) for handoff in handoffs])

    async def give_up(self) -> None:
        """Cancel what was accepted and is not going to be worked on."""
        handoffs, self._handed_off = self._handed_off, []
        for handoff in handoffs:
            await self._office.cancel(handoff)

    async def _send(self, item: WorkItem, agent: Any) -> Handoff:
        # Whose turn it is with a live agent is the crew's business: a question overtakes work that has not begun.
        item = replace(item, shared=False)
        batch = Batch(id=new_id(), items=(item,), pauses=False)
        step = Step(conversation=item.conversation)
        word, sent = await self._office.store.hand_off(self.lease, batch, step)
        if word == "circle":
            raise never_ends(item.member)
        (message,) = sent
        return Handoff(replace(item, message=message), agent, batch.id, self.lease, self._signal)

    async def _delivered(self, handoff: Handoff) -> TeamMessage:
        report = await self._office.report(handoff)
        if report.id != handoff.item.message.id:
            await self._office.store.update_status(report.id, MessageStatus.READ)
        return report


def live_conversation(agent: Any) -> str:
    """Return what stands for the one conversation of a live agent."""
    return f"live/{id(agent):x}"
