"""The records of the memory store."""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from itertools import islice

from lattice.encoding import decode, encode
from lattice.memory.queues import Bell
from lattice.run_store import RUN_ENDED
from lattice.runs import Lease, RunRecord, Step, WorkItem

__all__ = ["BatchState", "Conversation", "EventLog", "ItemState", "LoopLock", "RunState"]


@dataclass(slots=True)
class Conversation:
    """One history, and who is at work on it."""

    messages: list[bytes] = field(default_factory=list)
    entered: set[str] = field(default_factory=set)
    journal: dict[str, bytes] = field(default_factory=dict)
    busy: str | None = None
    waiting: deque[str] = field(default_factory=deque)

    def write(self, step: Step) -> None:
        """Add what a step adds to the conversation and its journal."""
        messages = step.messages
        if step.once is not None:
            if step.once in self.entered:
                messages = messages[1:]
            self.entered.add(step.once)
        if step.replace:
            self.messages.clear()
        self.messages.extend(messages)
        if step.clear_journal:
            self.journal.clear()
        self.journal.update(dict.fromkeys(step.started, b""))
        self.journal.update(step.finished)


class EventLog:
    """A run's events, oldest first, the newest ``limit`` of them; offsets count from 1."""

    __slots__ = ("_events", "_last", "added", "followed")

    def __init__(self, limit: int) -> None:
        self._events: deque[bytes] = deque(maxlen=limit)
        self._last = 0
        self.followed = False
        self.added = Bell()

    def add(self, *events: bytes) -> None:
        """Append events that are JSON already, and wake the readers."""
        if events:
            self._events.extend(events)
            self._last += len(events)
            self.added.ring_all()

    def end(self, status: str) -> None:
        """Append the mark that nothing follows."""
        self.add(encode({"type": RUN_ENDED, "status": status}))

    def lost(self, offset: str) -> int:
        """Return how many events after an offset are not kept any more."""
        return max(0, self._last - len(self._events) - int(offset))

    def after(self, offset: str) -> list[tuple[str, dict[str, object]]]:
        """Return the events after an offset."""
        first = self._last - len(self._events) + 1
        start = max(int(offset) + 1, first)
        fresh = islice(self._events, start - first, None)
        return [(str(number), decode(event)) for number, event in enumerate(fresh, start)]


@dataclass(slots=True)
class RunState:
    """One run, its lease, and all that it caused."""

    record: RunRecord
    events: EventLog
    lease: Lease | None = None
    reserved_for: str | None = None
    returned: tuple[str, int] | None = None
    messages: list[str] = field(default_factory=list)
    batches: list[str] = field(default_factory=list)
    forget_at: int | None = None


@dataclass(slots=True)
class ItemState:
    """One message that the store delivers: the lease on it and how often it was claimed.

    ``ready`` says that neither its conversation nor its batch holds it back, nor a retry that is not due yet. ``note``
    is the urgency of a note, ``kept_for`` the work whose worker is to be shown it, ``has_notes`` says that there are
    such notes. ``left_open`` says that its worker has left it without an end.
    """

    item: WorkItem
    claimable: bool = True
    attempt: int = 0
    handed_back: int = 0
    lease: Lease | None = None
    settled: tuple[str, int] | None = None
    report: str | None = None
    handed_off: str | None = None
    returned: tuple[str, int] | None = None
    ready: bool = False
    open: bool = True
    retries: int = 0
    retry_reason: str | None = None
    due_at: int | None = None
    note: str | None = None
    kept_for: str | None = None
    has_notes: bool = False
    left_open: bool = False

    @property
    def at_work(self) -> bool:
        """Whether somebody works on it, or goes on with it after whoever did."""
        return self.claimable and self.open and self.attempt > 0 and not self.left_open


@dataclass(slots=True)
class BatchState:
    """One accepted batch: its messages in order and how many of them are still out."""

    parent: Lease
    items: tuple[str, ...]
    waiting: int
    pauses: bool
    held: deque[str] = field(default_factory=deque)


class LoopLock:
    """One turn at a time; a store may outlive the event loop that it was first used on."""

    __slots__ = ("_lock", "_loop")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._lock = loop, asyncio.Lock()
        await self._lock.acquire()

    async def __aexit__(self, *_: object) -> None:
        self._lock.release()
