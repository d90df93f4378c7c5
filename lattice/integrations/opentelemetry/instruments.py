"""Watches a process at work on teams: spans of the work by the messaging conventions, and the metrics of mailboxes."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, cast

from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

from lattice.errors import LeaseLostError, RunParkedError
from lattice.integrations.opentelemetry import conventions as names
from lattice.integrations.opentelemetry.metrics import MailboxMetrics
from lattice.integrations.opentelemetry.propagation import continue_trace, current_traceparent, extract_context
from lattice.integrations.opentelemetry.setup import Telemetry
from lattice.integrations.opentelemetry.tracer import create_opentelemetry_context_tracer
from lattice.integrations.opentelemetry.watched import WatchedStore, current_claim
from lattice.run_store import RunStore
from lattice.runs import Claim, Lease, TakenRun

__all__ = ["TeamInstruments"]

_SCOPE = "lattice"


class TeamInstruments:
    """The ``Instruments`` of a process of one team, over the providers of ``start_telemetry()``."""

    def __init__(self, team: str, telemetry: Telemetry) -> None:
        self.team = team
        traces, meters = telemetry.tracer_provider, telemetry.meter_provider
        self.metrics = MailboxMetrics(team, meters)
        self.spans = trace.get_tracer(_SCOPE, tracer_provider=traces, schema_url=names.SCHEMA_URL)
        self._tracers = (create_opentelemetry_context_tracer(tracer_provider=traces, meter_provider=meters),)

    def watch(self, store: RunStore, team: str | None = None) -> RunStore:
        """Return a store whose steps are seen; ``team`` is the key space that it is of, if not the team's own."""
        return cast("RunStore", WatchedStore(store, team or self.team, self.metrics, self.spans))

    # --- the contract -------------------------------------------------------------------------------------------

    @contextmanager
    def working(self, claim: Claim) -> Iterator[None]:
        """See ``Instruments.working``: a span of the message being processed."""
        item, message = claim.item, claim.item.message
        attributes = {
            **names.message_attributes("process", message.to, message.id, message.thread_id),
            names.MEMBER: item.member,
            names.ATTEMPT: claim.attempt,
            **({} if message.run_id is None else {names.RUN_ID: message.run_id}),
        }
        sent = item.traceparent or (message.metadata or {}).get(names.TRACEPARENT)
        token = current_claim.set(claim)
        try:
            with continue_trace(sent), self._span(f"process {message.to}", SpanKind.CONSUMER, attributes, sent):
                yield
        finally:
            current_claim.reset(token)

    @contextmanager
    def driving(self, taken: TakenRun) -> Iterator[None]:
        """See ``Instruments.driving``: a span of the run's job, and of the team as a workflow inside."""
        run = taken.run
        queue = names.queue_of(run.team)
        job = {
            **names.message_attributes("process", queue, run.id, run.id),
            names.RUN_ID: run.id,
            names.ATTEMPT: run.epoch,
        }
        workflow = {
            names.OPERATION: names.INVOKE_WORKFLOW,
            names.WORKFLOW_NAME: run.team,
            names.TEAM: run.team,
            names.RUN_ID: run.id,
        }
        with (
            continue_trace(run.traceparent),
            self._span(f"process {queue}", SpanKind.CONSUMER, job, run.traceparent),
            self._span(f"{names.INVOKE_WORKFLOW} {run.team}", SpanKind.INTERNAL, workflow, None),
        ):
            yield

    def tracers(self) -> Sequence[Any]:
        """See ``Instruments.tracers``: one that makes spans of agents, model calls and tools, and their metrics."""
        return self._tracers

    def traceparent(self) -> str | None:
        """See ``Instruments.traceparent``."""
        return current_traceparent()

    def lease_lost(self, lease: Lease) -> None:
        """See ``Instruments.lease_lost``."""
        self.metrics.count("leases.lost", kind=lease.kind)

    # --- what commands do besides -------------------------------------------------------------------------------

    def submitting(self, queue: str, run_id: str | None) -> AbstractContextManager[Span]:
        """Return a span of a run being sent to the coordinators of a queue."""
        attributes = names.message_attributes("send", queue, run_id, run_id)
        return self._span(f"send {queue}", SpanKind.PRODUCER, attributes, None)

    @contextmanager
    def _span(self, name: str, kind: SpanKind, attributes: dict[str, Any], sent: str | None) -> Iterator[Span]:
        links = () if sent is None else _link_to(sent)
        options: dict[str, Any] = {"kind": kind, "attributes": attributes, "links": links}
        with self.spans.start_as_current_span(
            name, **options, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except BaseException as error:
                _tell_why(span, error)
                raise


def _link_to(traceparent: str) -> tuple[Link, ...]:
    sender = trace.get_current_span(extract_context(traceparent)).get_span_context()
    return (Link(sender),) if sender.is_valid else ()


def _tell_why(span: Span, error: BaseException) -> None:
    """Work that goes on elsewhere is no error of this process; its text may hold what it worked on, and stays out."""
    if isinstance(error, (LeaseLostError, RunParkedError)):
        span.set_attribute(names.OUTCOME, "lost" if isinstance(error, LeaseLostError) else "handed_over")
        return
    span.set_attribute(names.ERROR_TYPE, type(error).__name__)
    span.set_status(Status(StatusCode.ERROR))
