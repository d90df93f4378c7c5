"""OpenTelemetry: spans and metrics by the GenAI conventions, and trace context across processes."""

from lattice.integrations.opentelemetry.metrics import MailboxMetrics, ModelMetrics
from lattice.integrations.opentelemetry.propagation import continue_trace, current_traceparent, extract_context
from lattice.integrations.opentelemetry.tracer import OpenTelemetryTracer, create_opentelemetry_context_tracer

__all__ = [
    "MailboxMetrics",
    "ModelMetrics",
    "OpenTelemetryTracer",
    "continue_trace",
    "create_opentelemetry_context_tracer",
    "current_traceparent",
    "extract_context",
]
