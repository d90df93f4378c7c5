"""OpenTelemetry: spans and metrics by the GenAI conventions, and trace context across processes."""

from lattice.integrations.opentelemetry.instruments import TeamInstruments
from lattice.integrations.opentelemetry.metrics import MailboxMetrics, ModelMetrics
from lattice.integrations.opentelemetry.prometheus import render, serve_metrics
from lattice.integrations.opentelemetry.propagation import continue_trace, current_traceparent, extract_context
from lattice.integrations.opentelemetry.setup import Telemetry, start_telemetry
from lattice.integrations.opentelemetry.stalls import watch_event_loop
from lattice.integrations.opentelemetry.tracer import OpenTelemetryTracer, create_opentelemetry_context_tracer

__all__ = [
    "MailboxMetrics",
    "ModelMetrics",
    "OpenTelemetryTracer",
    "TeamInstruments",
    "Telemetry",
    "continue_trace",
    "create_opentelemetry_context_tracer",
    "current_traceparent",
    "extract_context",
    "render",
    "serve_metrics",
    "start_telemetry",
    "watch_event_loop",
]
