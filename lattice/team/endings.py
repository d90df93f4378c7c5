"""How a work item ends: what an answer or an error makes of it, and the report that follows."""

import time
from dataclasses import dataclass
from typing import Any

from lattice.encoding import clean_text
from lattice.errors import AbortError, LatticeError
from lattice.mailbox import MessageStatus, TeamMessage, WorkItemRole
from lattice.runs import Outcome
from lattice.team.actor import Actor
from lattice.team.answers import Answer
from lattice.team.failures import AgentRuntimeFailure, failure_of, failure_text
from lattice.tools.tool import UNSET

__all__ = ["Ending", "ending_of", "report_message"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The terminal state of a work item; a cancelled one has no report.

    Mail may be left ``processing``, for a later reply to end it.
    ``error`` is what a failure was made of. With ``retry_in`` seconds it is not the end: the work is tried again.
    """

    status: MessageStatus
    report: str | None = None
    failure: AgentRuntimeFailure | None = None
    structured_result: Any = UNSET
    error: Any = None
    retry_in: float | None = None

    @property
    def metadata(self) -> dict[str, Any] | None:
        """What goes with the report."""
        if self.failure is not None:
            return {"status": "failed", "error": self.failure.to_dict()}
        if self.structured_result is not UNSET:
            return {"structuredResult": _plain(self.structured_result)}
        return None

    def outcome(self, report_id: str | None = None) -> Outcome:
        """Return what the store is told."""
        return Outcome(
            status=self.status,
            report=self.report,
            metadata=self.metadata,
            report_id=report_id if self.report is not None else None,
        )


def ending_of(actor: Actor, answer: Answer | None, error: Any = None) -> Ending:
    """Return how a work item ends, from the member's answer or what it raised.

    ``error`` is why it failed, if it did. What the member said by ``team_reply`` is its report, however it went on.
    """
    failed = answer is None or answer.is_error
    if actor.reply is not None and not (failed and isinstance(error, AbortError)):
        return Ending(status=MessageStatus.DONE, report=clean_text(actor.reply))
    if not failed:
        assert answer is not None
        return Ending(
            status=MessageStatus.DONE, report=clean_text(answer.text), structured_result=answer.structured_result
        )
    if isinstance(error, AbortError) or (answer is not None and answer.aborted and not _is_deadline(error)):
        return Ending(status=MessageStatus.CANCELLED)
    fallback = (answer.text if answer is not None else "") or f"Delegate {actor.name} failed"
    failure = failure_of(error, fallback)
    return Ending(
        status=MessageStatus.FAILED,
        report=failure_text(actor.name, failure),
        failure=failure,
        error=error,
    )


def report_message(request: TeamMessage, ending: Ending, report_id: str) -> TeamMessage:
    """Return the report on a work item as its sender gets it."""
    return TeamMessage(
        id=report_id,
        from_=request.to,
        to=request.from_,
        content=ending.report or "",
        created_at=time.time_ns() // 1_000_000,
        thread_id=request.thread_id,
        parent_message_id=request.id,
        work_item_id=request.work_item_id,
        work_item_role=WorkItemRole.UPSTREAM_REPORT,
        upstream_message_id=request.upstream_message_id or request.id,
        parent_work_item_id=request.parent_work_item_id,
        run_id=request.run_id,
        metadata=ending.metadata,
    )


def _is_deadline(error: Any) -> bool:
    return isinstance(error, LatticeError) and not isinstance(error, AbortError)


def _plain(payload: Any) -> Any:
    dump = getattr(payload, "model_dump", None)
    return dump(mode="json") if callable(dump) else payload
