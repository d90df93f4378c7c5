"""W3C trace context in and out of messages, so that one run is one trace across processes."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import Span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

__all__ = ["continue_trace", "current_traceparent", "extract_context", "traceparent_of"]

_TRACEPARENT = "traceparent"
_propagator = TraceContextTextMapPropagator()


def current_traceparent() -> str | None:
    """Return the ``traceparent`` of the current span, or None if there is none."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier.get(_TRACEPARENT)


def traceparent_of(span: Span) -> str | None:
    """Return the ``traceparent`` of a span, or None if nothing traces it."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, set_span_in_context(span))
    return carrier.get(_TRACEPARENT)


def extract_context(traceparent: str | None) -> Context:
    """Return the context that a ``traceparent`` names; the current one if it is None or makes no sense."""
    if not traceparent:
        return otel_context.get_current()
    return _propagator.extract({_TRACEPARENT: traceparent}, otel_context.get_current())


@contextmanager
def continue_trace(traceparent: str | None) -> Iterator[None]:
    """Make what happens inside part of the trace that ``traceparent`` names."""
    token = otel_context.attach(extract_context(traceparent))
    try:
        yield
    finally:
        otel_context.detach(token)
