"""What a run is made of, as data: runs, work items, batches, leases, and the moves between their states."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lattice.errors import OptionError
from lattice.mailbox import MessageStatus, TeamMessage

__all__ = [
    "ALLOWED_MOVES",
    "Account",
    "Allowance",
    "Batch",
    "Budget",
    "Claim",
    "ConversationState",
    "DeadLetter",
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
    "WorkState",
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
    ``model_calls`` and ``tokens`` were counted against its budget, if it has one. ``interrupted`` says that its lead is
    not to be called again. ``outer_item`` is the message of another key space that a nested team's run works on.
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
    model_calls: int = 0
    tokens: int = 0
    interrupted: bool = False
    outer_item: str | None = None

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
    ``account`` is what its model calls are drawn from; None where nothing limits them.
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
    account: "Account | None" = None


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
    ``asked_at`` is when the holder asked for it, on the clock of ``time.monotonic()``: it is valid from then on,
    however long the reply took; None is now.
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
    ``retries`` counts how often it was put off after a failure that may pass.
    """

    item: WorkItem
    lease: Lease
    attempt: int
    started: bool = False
    batch: str | None = None
    delivered: bool = True
    retries: int = 0


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

    ``status`` is done, failed or cancelled; a cancelled item has no report. Mail may also be left ``processing``:
    nobody works on it any more, and a later reply ends it. ``metadata`` goes with the report
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
class DeadLetter:
    """A message that ran out of attempts, and why; ``died_at`` is epoch ms of the store's clock."""

    message: TeamMessage
    member: str
    reason: str
    attempts: int
    died_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkState:
    """Where a work item stands, for those who ask why nothing moves; times are epoch ms of the store's clock.

    ``attempts`` counts claims, ``retries`` those that followed a failure that may pass (the last one is
    ``retry_reason``); until ``due_at`` it waits for the next. ``owner`` holds it until ``lease_until``. ``behind`` is
    the message whose turn comes first in a conversation that they share.
    """

    message: TeamMessage
    member: str
    attempts: int = 0
    retries: int = 0
    retry_reason: str | None = None
    due_at: int | None = None
    owner: str | None = None
    lease_until: int | None = None
    behind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run may use, with all that works for it; None is no limit.

    ``max_seconds`` count from its first start, ``max_tokens`` are input, cache and output tokens.

    Raises:
        OptionError: a limit is not more than 0.
    """

    max_seconds: float | None = None
    max_model_calls: int | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_model_calls", "max_tokens"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value <= 0):
                raise OptionError(f"budget: {name} must be a positive integer, not {value!r}")
        seconds = self.max_seconds
        if seconds is not None and (type(seconds) not in (int, float) or not math.isfinite(seconds) or seconds <= 0):
            raise OptionError(f"budget: max_seconds must be more than 0, not {seconds!r}")

    @classmethod
    def read(cls, options: "Mapping[str, Any] | Budget | None") -> "Budget":
        """Return the budget that an option stands for.

        Raises:
            OptionError: a limit is unknown or cannot be used.
        """
        if isinstance(options, Budget):
            return options
        known = ("max_seconds", "max_model_calls", "max_tokens")
        for name in options or ():
            if name not in known:
                raise OptionError(f'budget: unknown limit "{name}"; known are {", ".join(known)}')
        return cls(**(options or {}))

    def or_else(self, other: "Budget") -> "Budget":
        """Return this budget with the limits of another where it has none."""
        mine, theirs = self.to_dict(), other.to_dict()
        return Budget(**{**theirs, **mine})

    def to_dict(self) -> dict[str, Any]:
        """Return the limits that there are."""
        limits = {
            "max_seconds": self.max_seconds,
            "max_model_calls": self.max_model_calls,
            "max_tokens": self.max_tokens,
        }
        return {name: value for name, value in limits.items() if value is not None}

    def __bool__(self) -> bool:
        """Whether anything is limited."""
        return bool(self.to_dict())


@dataclass(frozen=True, slots=True)
class Account:
    """Whose budget model calls are drawn from: a run, in the key space of a nested team or (``""``) the outermost."""

    space: str
    run_id: str
    budget: Budget

    def to_list(self) -> list[Any]:
        """Return the form that can be stored."""
        return [self.space, self.run_id, self.budget.to_dict()]

    @classmethod
    def from_list(cls, record: list[Any]) -> "Account":
        """Read the stored form."""
        space, run_id, budget = record
        return cls(space, run_id, Budget.read(budget))


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a draw came to: ``word`` is granted, budget_exceeded, deadline_exceeded or missing; then what was used."""

    word: str
    model_calls: int = 0
    tokens: int = 0
    elapsed_ms: int = 0


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
