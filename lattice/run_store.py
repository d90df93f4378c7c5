"""Contract: every atomic step in the life of a run, one method each.

A store that keeps runs in Redis does each step in one Lua script; the memory store does it in one go on the event loop.
Every write names a lease; when the lease is no longer the current one nothing is written and the word is ``stale``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

from lattice.errors import OptionError
from lattice.mailbox import TeamMessage
from lattice.runs import (
    Allowance,
    Batch,
    Budget,
    Claim,
    ConversationState,
    DeadLetter,
    ExpiredLease,
    Lease,
    Outcome,
    ProcessInfo,
    RunRecord,
    RunStatus,
    Settled,
    Step,
    TakenRun,
    WorkState,
)

__all__ = ["EVENTS_DROPPED", "FAR_BEHIND", "RUN_ENDED", "RunStore", "StoreOptions"]

EVENTS_DROPPED = "events_dropped"
"""The ``type`` of what a reader is told in place of events that are not kept any more, with how many were dropped:
``{"type": "events_dropped", "dropped": 1200}``."""

FAR_BEHIND = 50
"""Events in one read from which on a reader may be so far behind that some were dropped before it came."""

RUN_ENDED = "run_ended"
"""The ``type`` of the last event of every run's stream: ``{"type": "run_ended", "status": "succeeded"}``."""

_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """The limits of a store.

    ``max_attempts`` is how often a message is claimed before it is given up, ``retention_ms`` how long an ended run can
    still be read. ``max_mailbox_depth`` counts a mailbox's unfinished tasks, ``max_events`` and ``max_deltas`` what a
    run's event stream keeps,
    ``max_dead_letters`` how many given-up messages are remembered. A conversation of more than
    ``max_conversation_bytes`` is not gone on with.

    Raises:
        OptionError: a limit is not a positive integer.
    """

    max_attempts: int = 3
    retention_ms: int = 7 * _DAY_MS
    max_message_bytes: int = 1024 * 1024
    max_mailbox_depth: int = 100_000
    max_conversation_bytes: int = 64 * 1024 * 1024
    max_events: int = 100_000
    max_deltas: int = 1_000
    max_dead_letters: int = 10_000

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
                raise OptionError(f"StoreOptions.{limit.name} must be a positive integer, not {value!r}")


class RunStore(Protocol):
    """The atomic steps of runs, messages and conversations of one team."""

    # --- runs ---------------------------------------------------------------------------------------------------

    async def start_run(self, run: RunRecord) -> str:
        """Record a queued run. ``started``, or ``exists`` if the id is taken (nothing changes then)."""
        ...

    async def take_run(self, run_id: str, owner: str, lease_ms: int) -> TakenRun | str:
        """Lease a run, raising its epoch. The word ``missing``, ``held`` (a live lease stands) or ``ended`` if not."""
        ...

    async def hand_off(self, lease: Lease, batch: Batch, step: Step) -> tuple[str, tuple[TeamMessage, ...]]:
        """Accept a batch: send its messages, keep their order and the count to wait for, write the step.

        ``accepted`` or ``exists`` (accepted before; nothing is sent again) with the stored messages, or ``stale``, or
        ``full`` when a mailbox is at its depth limit, or ``circle`` when an item would wait in line for a conversation
        that waits, through however many others, for that item itself (nothing is sent then). A message keeps the id
        that it has (the engine's receipts and events name it before it is sent); one whose id is empty gets one. So
        with every store.

        Raises:
            SizeLimitError: a content is over the limit; nothing is sent.
        """
        ...

    async def resume(self, lease: Lease, batch_id: str) -> tuple[str, tuple[TeamMessage, ...]]:
        """Take the reports of a batch, in the order of its items.

        ``complete`` with the reports; ``waiting`` while some are out; ``stale``. A paused run is running afterwards.
        An item that was cancelled has no report: its own message stands in the place of it.
        """
        ...

    async def finish_run(
        self, lease: Lease, status: RunStatus, result: dict[str, Any], step: Step, error: dict[str, Any] | None = None
    ) -> str:
        """End a run with its result, write the step, close the event stream, start the retention. finished | stale."""
        ...

    async def reopen_run(self, run_id: str, budget: Budget | None = None) -> str:
        """Queue a failed run again (a retry): it goes on from its last recorded step. reopened | missing | refused.

        The limits of ``budget`` replace those that the run had; what it has used stays used.
        """
        ...

    async def cancel_run(self, run_id: str, reason: str) -> str:
        """Cancel a run: its queued messages end at once, the holders of its leases are told and fenced off.

        ``cancelled``, ``ended`` (it had ended already) or ``missing``.
        """
        ...

    async def interrupt_run(self, run_id: str) -> str:
        """Have a run end without another call of its lead, as soon as what is under way has ended.

        Work that nobody has begun is cancelled. The process that drives the run gets the signal ``interrupt:<run id>``
        once; whoever takes the run over reads it in its record. ``interrupted`` (a repeat too, which cancels what was
        queued since), ``ended`` or ``missing``.
        """
        ...

    async def get_run(self, run_id: str) -> RunRecord | None:
        """Return a run, or None."""
        ...

    async def list_runs(self, limit: int = 50) -> list[RunRecord]:
        """Return the newest runs first."""
        ...

    async def nested_runs(self) -> list[tuple[str, str]]:
        """Return the runs with an ``outer_item`` that have not ended, each with that message's id."""
        ...

    async def read_events(
        self, run_id: str, after: str = "0", *, block_ms: int | None = None
    ) -> list[tuple[str, dict[str, Any]]]:
        """Return ``(offset, event)`` after an offset; waits up to ``block_ms`` for the first.

        Deltas are included while somebody follows with ``block_ms``. The last event of a run has type ``RUN_ENDED``.
        What was dropped because the run has more events than are kept is left out; ``lost_events`` tells.
        """
        ...

    async def lost_events(self, run_id: str, after: str = "0") -> int:
        """Return how many events were dropped, if that may have left a gap after an offset; 0 if there is none."""
        ...

    # --- messages -----------------------------------------------------------------------------------------------

    async def send(
        self, message: TeamMessage, *, member: str | None, conversation: str | None = None, listens: bool = True
    ) -> TeamMessage:
        """Keep a pending message outside any batch and return it with its defaults filled in.

        ``member`` names the mailbox key; None keeps a message that nobody claims (a report to the lead). A message
        whose id is taken is not sent again: the stored one is returned. A note (mail with an ``urgency``) to somebody
        who ``listens`` while at work is kept for that work; the holder of its lease gets the signal
        ``note:<lease kind>:<lease id>:<note id>`` of an ``interrupt``.

        Raises:
            SizeLimitError: the content is over the limit.
            StoreError: the mailbox is at its depth limit.
        """
        ...

    async def claim(self, member: str, owner: str, lease_ms: int, count: int = 1) -> list[Claim]:
        """Lease up to ``count`` of the next claimable messages of a mailbox; empty when there is none."""
        ...

    async def claim_message(self, message_id: str, owner: str, lease_ms: int) -> Claim | None:
        """Lease this very message if it is pending."""
        ...

    async def settle(
        self, lease: Lease, outcome: Outcome, step: Step, *, claim_next: tuple[str, str, int] | None = None
    ) -> Settled:
        """End a work item: state, report, countdown of its batch, events, the conversation's next message; one step.

        ``claim_next`` is ``(member, owner, lease_ms)``: the next message of that mailbox comes with the reply. Whoever
        waits for the batch is woken by the last settle.
        """
        ...

    async def hand_back(self, lease: Lease, step: Step | None = None) -> str:
        """Give a message back unfinished: pending again, at the head. returned | stale.

        A run's lease is let go: the run stays as it is, and whoever asks next may take it (a coordinator that leaves).
        """
        ...

    async def update_status(self, message_id: str, status: str) -> bool:
        """Move a message along ``ALLOWED_MOVES``; False when it is unknown or the move is refused.

        Work that is cancelled takes along what was asked or handed off for it; the run's events tell of each.
        """
        ...

    async def get(self, message_id: str) -> TeamMessage | None:
        """Return a message, or None."""
        ...

    async def inbox(self, member: str, status: str = "pending") -> list[TeamMessage]:
        """Return the messages of a mailbox in send order; ``status`` may be ``all``."""
        ...

    async def counts(self, member: str) -> dict[str, int]:
        """Return how many messages of a mailbox have each status (only those that occur)."""
        ...

    async def take_notes(self, lease: Lease, member: str, limit: int = 100) -> list[TeamMessage]:
        """Return the pending notes (mail with an ``urgency``) of a mailbox for the work on a lease, in send order.

        They are kept for that work, so that nobody claims one as a task: a step that has them among its ``reads``
        makes them *read*; until then the same work, whoever goes on with it, gets them again. Notes of other runs are
        left out. Work that ends leaves what it was not shown to others of its member and run, else to be claimed.
        """
        ...

    async def backlog(self, member: str) -> tuple[int, int]:
        """Return how many tasks and how much mail wait in a mailbox, and for how many ms the first in line has."""
        ...

    # --- retries, budgets, dead letters -------------------------------------------------------------------------

    async def postpone(self, lease: Lease, delay_ms: int, reason: str, step: Step | None = None) -> str:
        """Put a message off: pending again once ``delay_ms`` have passed, held by nobody until then. postponed | stale.

        It keeps its turn in a conversation that it shares, and it does not count as a lost attempt.
        """
        ...

    async def wake_due(self, limit: int = 100) -> int | None:
        """Make messages pending whose time has come; returns the ms until the next one's, None if there is none."""
        ...

    async def draw(self, run_id: str, budget: Budget, *, calls: int = 1, tokens: int = 0) -> Allowance:
        """Count ``tokens`` that were used for a run, and grant it ``calls`` more model calls if its budget allows them.

        With no calls this only counts and looks.
        """
        ...

    async def work_items(self, run_id: str) -> list[WorkState]:
        """Return the work of a run in send order, reports left out."""
        ...

    async def dead_letters(self, limit: int = 100) -> list[DeadLetter]:
        """Return the newest dead letters first; one is kept as long as its message is."""
        ...

    async def requeue_dead(self, message_id: str) -> TeamMessage | None:
        """Send the work of a dead letter again, and drop the letter; None if there is no such letter.

        The new message belongs to no run, its attempts begin anew, and its report goes to the lead's mailbox.

        Raises:
            StoreError: the mailbox is at its depth limit.
        """
        ...

    async def drop_dead(self, message_id: str) -> bool:
        """Take a message off the dead letters; False if it is none."""
        ...

    # --- conversations ------------------------------------------------------------------------------------------

    async def append(self, lease: Lease, step: Step) -> str:
        """Write a step. ``written``, or ``stale`` with nothing written."""
        ...

    async def load(self, conversation: str) -> ConversationState:
        """Return a conversation as stored."""
        ...

    # --- leases and processes -----------------------------------------------------------------------------------

    async def now(self) -> int:
        """Return the epoch milliseconds of the store's clock."""
        ...

    async def renew(self, leases: Sequence[Lease], lease_ms: int) -> list[Lease]:
        """Extend leases; returns those that are lost."""
        ...

    async def reclaim_expired(
        self, owner: str, lease_ms: int, limit: int = 100, *, runs: bool = True
    ) -> list[ExpiredLease]:
        """Free what died, and say what became of it. ``runs=False`` (a worker) leaves expired runs to coordinators.

        Below ``max_attempts`` a message is pending again, at the head; else it fails, is reported (code
        ``worker_lost``) and becomes a dead letter. Expired runs are only named, and left for a third of ``lease_ms`` to
        whoever asked, so that it can ``take_run`` them. When nobody has asked for half of ``lease_ms`` (the store was
        away), nothing is freed for ``lease_ms``: whoever lives renews its leases first.
        """
        ...

    async def next_expiry(self) -> int | None:
        """Return the ms until the next lease runs out that is not renewed, None if there is none."""
        ...

    async def heartbeat(self, info: ProcessInfo, ttl_ms: int) -> None:
        """Say that a process lives."""
        ...

    async def processes(self) -> list[ProcessInfo]:
        """Return the live processes."""
        ...

    async def forget_process(self, process_id: str) -> None:
        """Say that a process has ended."""
        ...

    async def forget_runs(self, limit: int = 100) -> int:
        """Remove runs whose retention is over, and all that belongs to them; returns how many."""
        ...

    # --- waiting ------------------------------------------------------------------------------------------------

    async def await_claims(self, member: str, owner: str, lease_ms: int, count: int, timeout_ms: int) -> list[Claim]:
        """Wait until a mailbox may have something, for ``timeout_ms`` at most, then ``claim`` from it, in one step.

        One message wakes one waiter. A wait that is cancelled has claimed nothing: what it got is given back.
        """
        ...

    async def wait_for_signals(self, process_id: str, timeout_ms: int) -> Iterable[str]:
        """Wait for signals to a process.

        ``batch:<id>`` (complete), ``cancel:<message or run id>`` (stop it), ``note:<lease kind>:<lease id>:<note id>``
        (an urgent note), ``interrupt:<run id>``.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
