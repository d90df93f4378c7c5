"""What a run is made of, as data: runs, work items, batches, leases, and the moves between their states."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lattice.mailbox import MessageStatus, TeamMessage

__all__ = [
    "ALLOWED_MOVES",
    "Batch",
    "Claim",
    "ConversationState",
    "ExpiredLease",
    "Lease",
    "Outcome",
    "ProcessInfo",
    "RunRecord",
    "RunStatus",
    "Settled",
    "Step",
    "TakenRun",
    "WorkItem",
    "is_lasting",
    "member_conversation",
    "run_conversation",
]

_LASTING = "member/"


class RunStatus(StrEnum):
    """Where a run stands: ``queued -> running <-> waiting -> succeeded | failed | cancelled``."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_terminal(self) -> bool:
        """Whether the run has ended."""
        return self in (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.CANCELLED)


_CLOSED = frozenset({MessageStatus.DONE, MessageStatus.FAILED, MessageStatus.CANCELLED, MessageStatus.READ})

ALLOWED_MOVES: dict[MessageStatus, frozenset[MessageStatus]] = {
    MessageStatus.PENDING: _CLOSED | {MessageStatus.PROCESSING},
    MessageStatus.PROCESSING: _CLOSED,
    MessageStatus.DONE: frozenset(),
    MessageStatus.FAILED: frozenset(),
    MessageStatus.CANCELLED: frozenset(),
    MessageStatus.READ: frozenset(),
}
"""The moves that ``update_status`` may make. Back to pending leads only ``reclaim_expired`` and ``hand_back``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One team task from submit to final result.

    Times are epoch milliseconds of the store's clock. ``result`` is the wire form of the lead's final result,
    ``total_usage`` the tokens of all members and rounds, ``batch`` the id of the last accepted batch and
    ``conversation`` the lead's conversation. ``options`` are what the submitter asked for beyond the task.
    """

    id: str
    team: str
    task: Any
    status: RunStatus = RunStatus.QUEUED
    conversation: str = ""
    created_at: int = 0
    started_at: int | None = None
    finished_at: int | None = None
    epoch: int = 0
    owner: str | None = None
    round: int = 0
    batch: str | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    total_usage: dict[str, int] | None = None
    traceparent: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def outcome(self) -> dict[str, Any]:
        """Return what the submitter gets, and the RQ job returns: run_id, status, result, usage, error.

        ``result`` is the lead's structured result if it has one, else its final text; ``usage`` are all tokens.
        """
        result = self.result or {}
        return {
            "run_id": self.id,
            "status": str(self.status),
            "result": result.get("structuredResult", result.get("result")),
            "usage": self.total_usage or result.get("usage"),
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """A message on its way to a terminal state, with what the runtime needs to work it.

    ``member`` names the mailbox's key (the part after ``team::``), ``conversation`` the history that is worked on;
    messages of one conversation are worked one after another, in send order. ``batch`` is what settling counts down.
    ``depth`` is 1 for what the lead delegates. ``shared`` says that other messages may wait for the same conversation.
    ``traceparent`` is the W3C trace context of its sender, ``trace`` the place of the work in a context trace.
    ``chain`` are the conversations that wait for this item, outermost first: work for one of them would be a cycle.
    """

    message: TeamMessage
    member: str
    conversation: str
    mode: str = "handoff"
    batch: str | None = None
    depth: int = 1
    shared: bool = False
    description: str | None = None
    traceparent: str | None = None
    trace: str | None = None
    chain: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Work items that one response accepted; ``parent`` is the run id or message id that waits for them.

    ``pauses`` is True for handoffs (the run is *waiting* until the batch is complete) and False for an ask, whose tool
    call waits. ``id`` derives from the parent and the tool call or round, so accepting it twice is accepting it once.
    With a ``limit`` at most so many of its items are claimable or claimed at once; settling one releases the next.
    """

    id: str
    items: tuple[WorkItem, ...]
    pauses: bool = True
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write for a message or a run, until ``deadline`` (epoch ms of the store's clock) or its renewal.

    ``token`` is the fencing token: a message's attempt, a run's epoch. Every write names it; a stale one is refused.
    ``asked_at`` is when the holder asked for it, on the clock of ``time.monotonic()``: it is valid from then on, however
    long the reply took; None is now.
    """

    kind: str
    id: str
    owner: str
    token: int
    deadline: int = 0
    asked_at: float | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Claim:
    """A work item and the lease on it; ``attempt`` counts claims, ``started`` says that the conversation has entries.

    ``batch`` is the pausing batch that this work item handed off last (nested handoffs), ``delivered`` says that the
    reports of that batch stand in the conversation already: whoever claims the item after a crash goes on from there.
    """

    item: WorkItem
    lease: Lease
    attempt: int
    started: bool = False
    batch: str | None = None
    delivered: bool = True


@dataclass(frozen=True, slots=True)
class TakenRun:
    """A run, the lease on it, and whether its last batch still waits for reports.

    ``delivered`` says that the reports of ``run.batch`` stand in the lead's conversation already.
    """

    run: RunRecord
    lease: Lease
    started: bool = False
    delivered: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one step adds to a conversation and to a run's event stream, written together with a lease check.

    ``once`` is the id (of a message or batch) whose text ``messages`` opens with: a conversation takes it once.
    ``replace`` rewrites the conversation (compaction). ``started`` and ``finished`` are journal entries (tool_use id ->
    JSON), ``clear_journal`` empties the journal. ``reads`` are reports whose text is in ``messages``: they become read.
    ``messages``, ``events`` and ``deltas`` are JSON already encoded; ``usage`` adds to the run's total.
    """

    conversation: str
    once: str | None = None
    messages: tuple[bytes, ...] = ()
    replace: bool = False
    started: tuple[str, ...] = ()
    finished: tuple[tuple[str, bytes], ...] = ()
    clear_journal: bool = False
    reads: tuple[str, ...] = ()
    events: tuple[bytes, ...] = ()
    deltas: tuple[bytes, ...] = ()
    usage: dict[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a work item ended, and the report that closes it towards its sender.

    ``status`` is done, failed or cancelled; a cancelled item has no report. ``metadata`` goes with the report
    (``{"status": "failed", "error": {...}}``), ``structured_result`` too. ``report_id`` is the id that the report
    message gets (so that events can name it beforehand); the store makes one if it is None.
    """

    status: MessageStatus
    report: str | None = None
    metadata: dict[str, Any] | None = None
    report_id: str | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a settle: ``word`` is settled, stale or missing; ``next`` are the claims handed out with it."""

    word: str
    next: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True)
class ConversationState:
    """A conversation as stored: its messages (JSON each), the ids that entered it, the journal of its open batch."""

    messages: tuple[bytes, ...] = ()
    entered: frozenset[str] = frozenset()
    journal: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ExpiredLease:
    """What a reaper found: ``word`` is returned (pending again), dead (out of attempts) or run (to be taken over)."""

    kind: str
    id: str
    word: str
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """A live process: ``role`` is worker or coordinator; ``seen_at`` its last heartbeat (epoch ms)."""

    id: str
    role: str
    host: str
    pid: int
    member: str | None = None
    concurrency: int = 1
    busy: int = 0
    version: str = ""
    started_at: int = 0
    seen_at: int = 0


def run_conversation(run_id: str, member: str | None = None) -> str:
    """Return the id of a run's conversation: the lead's, or the one that a member keeps during that run."""
    return run_id if member is None else f"{run_id}/{member}"


def member_conversation(member: str) -> str:
    """Return the id of the one conversation that a member keeps for ever."""
    return _LASTING + member


def is_lasting(conversation: str) -> bool:
    """Whether a conversation outlives the run that wrote it."""
    return conversation.startswith(_LASTING)
