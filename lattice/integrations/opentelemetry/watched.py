"""A run store whose steps are seen: messages sent, claimed, settled, returned, reports that arrive, writes refused."""

import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer

from lattice.integrations.opentelemetry import conventions as names
from lattice.integrations.opentelemetry.metrics import MailboxMetrics
from lattice.integrations.opentelemetry.propagation import current_traceparent, extract_context, traceparent_of
from lattice.mailbox import MessageStatus, TeamMessage, mailbox_key
from lattice.run_store import RunStore
from lattice.runs import Batch, Claim, ExpiredLease, Lease, Outcome, RunStatus, Settled, Step, WorkItem

__all__ = ["WatchedStore", "current_claim"]

current_claim: ContextVar[Claim | None] = ContextVar("lattice_claim", default=None)
"""The work item that is worked on."""


class WatchedStore:
    """Hands every step to the store behind it, which must not know that it is watched."""

    def __init__(self, store: RunStore, team: str, metrics: MailboxMetrics, spans: Tracer) -> None:
        self._store = store
        self._team = team
        self._metrics = metrics
        self._spans = spans

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    # --- sending ------------------------------------------------------------------------------------------------

    async def hand_off(self, lease: Lease, batch: Batch, step: Step) -> tuple[str, tuple[TeamMessage, ...]]:
        """See ``RunStore.hand_off``: a span for each message, below the call that sent it."""
        sending = [self._sending(item.message, item.traceparent) for item in batch.items]
        items = tuple(_carrying(item, span) for item, span in zip(batch.items, sending, strict=True))
        word = "failed"
        try:
            word, messages = await self._store.hand_off(lease, replace(batch, items=items), step)
        finally:
            for span in sending:
                _end(span, None if word in {"accepted", "exists"} else word)
        self._note_word("hand_off", word)
        if word == "accepted":
            for item in items:
                self._count("messages.sent", member=item.member)
        return word, messages

    async def send(self, message: TeamMessage, *, member: str | None, conversation: str | None = None) -> TeamMessage:
        """See ``RunStore.send``."""
        span = self._sending(message, current_traceparent())
        carried = traceparent_of(span)
        if carried is not None:
            message = message.evolve(metadata={**(message.metadata or {}), names.TRACEPARENT: carried})
        word: str | None = "failed"
        try:
            sent = await self._store.send(message, member=member, conversation=conversation)
            word = None
        finally:
            _end(span, word)
        self._count("messages.sent", member=member or mailbox_key(message.to))
        return sent

    # --- taking and ending --------------------------------------------------------------------------------------

    async def claim(self, member: str, owner: str, lease_ms: int, count: int = 1) -> list[Claim]:
        """See ``RunStore.claim``."""
        claims = await self._store.claim(member, owner, lease_ms, count)
        self._note_claims(claims)
        return claims

    async def await_claims(self, member: str, owner: str, lease_ms: int, count: int, timeout_ms: int) -> list[Claim]:
        """See ``RunStore.await_claims``."""
        claims = await self._store.await_claims(member, owner, lease_ms, count, timeout_ms)
        self._note_claims(claims)
        return claims

    async def settle(
        self, lease: Lease, outcome: Outcome, step: Step, *, claim_next: tuple[str, str, int] | None = None
    ) -> Settled:
        """See ``RunStore.settle``: spans of the settling, and of the report that it sends."""
        claim = current_claim.get()
        if claim is None or claim.lease.id != lease.id:
            settled = await self._store.settle(lease, outcome, step, claim_next=claim_next)
        else:
            settled = await self._settle(claim, outcome, step, claim_next)
        self._note_word("settle", settled.word)
        if settled.word == "settled":
            member = {} if claim is None else {"member": claim.item.member}
            self._count("messages.settled", status=str(outcome.status), **member)
        self._note_claims(settled.next)
        return settled

    async def _settle(self, claim: Claim, outcome: Outcome, step: Step, claim_next: Any) -> Settled:
        message = claim.item.message
        _describe_ending(trace.get_current_span(), outcome)
        attributes = names.message_attributes("settle", message.to, message.id, message.thread_id)
        options: dict[str, Any] = {"kind": SpanKind.CLIENT, "attributes": attributes, "record_exception": False}
        with self._spans.start_as_current_span(f"settle {message.to}", **options) as settling:
            report = None
            if outcome.report is not None:
                report = self._start("send", message.from_, outcome.report_id, message.thread_id, SpanKind.PRODUCER)
                carried = traceparent_of(report)
                if carried is not None:
                    outcome = replace(outcome, metadata={**(outcome.metadata or {}), names.TRACEPARENT: carried})
            word = "failed"
            try:
                settled = await self._store.settle(claim.lease, outcome, step, claim_next=claim_next)
                word = settled.word
            finally:
                refused = None if word == "settled" else word
                if report is not None:
                    _end(report, refused)
                if refused is not None:
                    settling.set_attribute(names.ERROR_TYPE, refused)
                    settling.set_status(Status(StatusCode.ERROR))
        return settled

    async def resume(self, lease: Lease, batch_id: str) -> tuple[str, tuple[TeamMessage, ...]]:
        """See ``RunStore.resume``: a span of the reports' arrival, linked to their sending."""
        word, reports = await self._store.resume(lease, batch_id)
        self._note_word("resume", word)
        if word == "complete":
            self._note_reports(lease, batch_id, reports)
        return word, reports

    async def append(self, lease: Lease, step: Step) -> str:
        """See ``RunStore.append``."""
        word = await self._store.append(lease, step)
        self._note_word("append", word)
        return word

    async def hand_back(self, lease: Lease, step: Step | None = None) -> str:
        """See ``RunStore.hand_back``."""
        word = await self._store.hand_back(lease, step)
        self._note_word("hand_back", word)
        return word

    async def finish_run(
        self, lease: Lease, status: RunStatus, result: dict[str, Any], step: Step, error: dict[str, Any] | None = None
    ) -> str:
        """See ``RunStore.finish_run``."""
        word = await self._store.finish_run(lease, status, result, step, error)
        self._note_word("finish_run", word)
        if word == "finished":
            self._count("runs.finished", status=str(status))
            _describe_end(trace.get_current_span(), status, error)
        return word

    async def reclaim_expired(
        self, owner: str, lease_ms: int, limit: int = 100, *, runs: bool = True
    ) -> list[ExpiredLease]:
        """See ``RunStore.reclaim_expired``."""
        expired = await self._store.reclaim_expired(owner, lease_ms, limit, runs=runs)
        for lease in expired:
            if lease.word in _RECLAIMED:
                self._count(_RECLAIMED[lease.word])
        return expired

    # --- what is noted ------------------------------------------------------------------------------------------

    def _note_claims(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            self._count("messages.claimed", member=claim.item.member)
            if claim.attempt == 1:
                self._waited("claim.latency", claim.item.message.created_at, member=claim.item.member)

    def _note_reports(self, lease: Lease, batch_id: str, reports: Sequence[TeamMessage]) -> None:
        if lease.kind == "run" and reports:
            self._waited("resume.latency", max(report.created_at for report in reports))
        senders = [(report.metadata or {}).get(names.TRACEPARENT) for report in reports]
        contexts = [trace.get_current_span(extract_context(sender)).get_span_context() for sender in senders if sender]
        destination = reports[0].to if reports else names.queue_of(self._team)
        attributes = names.message_attributes("receive", destination, None, batch_id)
        attributes[names.BATCH_COUNT] = len(reports)
        self._spans.start_span(
            f"receive {destination}",
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=[Link(context) for context in contexts if context.is_valid],
        ).end()

    def _note_word(self, step: str, word: str) -> None:
        if word == "stale":
            self._count("writes.fenced", step=step)

    def _count(self, name: str, **labels: str) -> None:
        self._metrics.count(name, 1, team=self._team, **labels)

    def _waited(self, name: str, since_ms: int, **labels: str) -> None:
        self._metrics.waited(name, time.time() - since_ms / 1000, team=self._team, **labels)

    # --- spans --------------------------------------------------------------------------------------------------

    def _sending(self, message: TeamMessage, parent: str | None) -> Span:
        return self._start("send", message.to, message.id, message.thread_id, SpanKind.PRODUCER, parent)

    def _start(
        self,
        operation: str,
        destination: str,
        message_id: str | None,
        conversation: str | None,
        kind: SpanKind,
        parent: str | None = None,
    ) -> Span:
        attributes = names.message_attributes(operation, destination, message_id, conversation)
        context = extract_context(parent)
        return self._spans.start_span(f"{operation} {destination}", context, kind=kind, attributes=attributes)


_RECLAIMED = {"returned": "messages.redelivered", "dead": "messages.dead"}


def _carrying(item: WorkItem, span: Span) -> WorkItem:
    carried = traceparent_of(span)
    return item if carried is None else replace(item, traceparent=carried)


def _end(span: Span, refused: str | None) -> None:
    if refused is not None:
        span.set_attribute(names.ERROR_TYPE, refused)
        span.set_status(Status(StatusCode.ERROR))
    span.end()


def _describe_ending(span: Span, outcome: Outcome) -> None:
    """Say on the span of the work how it ended."""
    span.set_attribute(names.OUTCOME, str(outcome.status))
    if outcome.status is MessageStatus.FAILED:
        error = (outcome.metadata or {}).get("error") or {}
        span.set_attribute(names.ERROR_TYPE, str(error.get("code") or "failed"))
        span.set_status(Status(StatusCode.ERROR))


def _describe_end(span: Span, status: RunStatus, error: dict[str, Any] | None) -> None:
    span.set_attribute(names.OUTCOME, str(status))
    if status is RunStatus.FAILED:
        span.set_attribute(names.ERROR_TYPE, str((error or {}).get("code") or "failed"))
        span.set_status(Status(StatusCode.ERROR))
