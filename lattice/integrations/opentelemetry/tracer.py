"""A context tracer that makes OpenTelemetry spans: invoke_agent, chat and execute_tool."""

import asyncio
import os
import time
from dataclasses import dataclass
from typing import Any

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from lattice.encoding import compact_json
from lattice.integrations.opentelemetry import conventions as names
from lattice.integrations.opentelemetry.metrics import ModelMetrics
from lattice.integrations.tracing.facts import error_text, plain, run_name, token_counts, when
from lattice.integrations.tracing.tracer import Redact, redacted
from lattice.integrations.tracing.tree import OpenRun, TraceTree
from lattice.tracer import ContextTraceEvent

__all__ = ["OpenTelemetryTracer", "create_opentelemetry_context_tracer"]

_SCOPE = "lattice"
_NANOSECONDS = 1_000_000_000


def create_opentelemetry_context_tracer(
    *,
    provider_name: str = "anthropic",
    capture_content: bool | None = None,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
    redact: Redact | None = None,
    fail_on_error: bool = False,
) -> "OpenTelemetryTracer":
    """Make a tracer of spans and metrics by the GenAI conventions.

    Where they go is up to the application: the SDK's providers, or the standard ``OTEL_*`` variables of the commands.

    Args:
        provider_name: ``gen_ai.provider.name`` of the model calls.
        capture_content: whether messages, tool arguments and tool results are put into the spans; by default only if
            ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` is ``true``.
        tracer_provider: makes the spans, instead of the global one.
        meter_provider: makes the metrics, instead of the global one.
        redact: returns the event as it may leave the house, or None to leave it out.
        fail_on_error: whether an error leaves ``query()``.
    """
    if capture_content is None:
        capture_content = os.environ.get(names.CAPTURE_VARIABLE, "").strip().lower() == "true"
    sink = _SpanSink(provider_name, capture_content, tracer_provider, ModelMetrics(meter_provider))
    return OpenTelemetryTracer(sink, (tracer_provider, meter_provider), redact=redact, strict=fail_on_error)


class OpenTelemetryTracer:
    """Takes trace events where they happen, so that the spans of tools are current while the tools run."""

    def __init__(
        self,
        sink: "_SpanSink",
        providers: tuple[Any, Any],
        *,
        redact: Redact | None,
        strict: bool,
    ) -> None:
        self.tree = TraceTree(sink)
        self._providers = providers
        self._redact = redact
        self._strict = strict

    def on_event(self, event: ContextTraceEvent) -> None:
        """Take one event."""
        shown = redacted(event, self._redact)
        if shown is not None:
            self.tree.take(shown)

    async def after_query(self) -> None:
        """Wait for nothing: the SDK exports in the background."""

    async def flush(self) -> None:
        """Return when the SDK has exported what it has."""
        traces, meters = self._providers
        for provider in (traces or trace.get_tracer_provider(), meters or metrics.get_meter_provider()):
            force_flush = getattr(provider, "force_flush", None)
            if callable(force_flush):
                await asyncio.to_thread(force_flush)

    async def close(self) -> None:
        """End what is still open and flush; the providers stay open, they are the application's."""
        self.tree.end_all()
        await self.flush()


@dataclass(slots=True)
class _Work:
    """A span, when it began (nanoseconds since 1970), and what was current before it, if it has been made current."""

    span: Span
    began: int
    attributes: dict[str, Any]
    outside: Context | None = None


class _SpanSink:
    def __init__(
        self, provider_name: str, capture: bool, tracer_provider: trace.TracerProvider | None, model: ModelMetrics
    ) -> None:
        self._provider = provider_name
        self._capture = capture
        self._tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider, schema_url=names.SCHEMA_URL)
        self._metrics = model

    def start_run(self, event: ContextTraceEvent, parent: _Work | None) -> _Work:
        source, data = event.source, event.data
        name = run_name(source)
        is_team = data.get("runtime") == "team"  # the lead has the same source, and is an agent
        operation = names.INVOKE_WORKFLOW if is_team else names.INVOKE_AGENT
        attributes = _known(
            {
                names.OPERATION: operation,
                names.PROVIDER: None if is_team else self._provider,
                names.WORKFLOW_NAME if is_team else names.AGENT_NAME: name,
                names.CONVERSATION: data.get("agent_session_id") or event.session_id,
                names.REQUEST_MODEL: data.get("model"),
                names.QUERY_ID: event.run_id,
                names.TEAM: source.get("team"),
                names.MEMBER: source.get("member"),
                names.MAILBOX: source.get("mailbox"),
            }
        )
        return self._start(f"{operation} {name}", SpanKind.INTERNAL, attributes, _parent_context(parent))

    def give_input(self, run: OpenRun[_Work], event: ContextTraceEvent) -> None:
        if self._capture:
            run.span.span.set_attribute(names.INPUT_MESSAGES, names.messages_attribute([event.data.get("message")]))

    def start_call(self, run: OpenRun[_Work], event: ContextTraceEvent) -> _Work:
        data = event.data
        model = str(data.get("model"))
        shared = {names.OPERATION: names.CHAT, names.PROVIDER: self._provider, names.REQUEST_MODEL: model}
        attributes = _known(
            {
                **shared,
                names.REQUEST_MAX_TOKENS: data.get("max_tokens"),
                names.REQUEST_STREAM: True if data.get("stream") else None,
                names.OUTPUT_TYPE: "json" if data.get("outputFormat") else None,
                names.CONVERSATION: event.session_id,
                names.TURN: run.turn,
                names.PURPOSE: data.get("purpose"),
            }
        )
        if self._capture:
            attributes[names.INPUT_MESSAGES] = names.messages_attribute(data.get("messages") or [])
            if data.get("systemPrompt"):
                attributes[names.SYSTEM_INSTRUCTIONS] = names.instructions_attribute(data["systemPrompt"])
        work = self._start(f"{names.CHAT} {model}", SpanKind.CLIENT, attributes, _inside(run.span))
        work.attributes = shared
        return work

    def end_call(self, span: _Work, event: ContextTraceEvent | None, error: str | None) -> None:
        data = {} if event is None else event.data
        kind = None if error is None else str(data.get("subtype") or "no_answer")
        message = data.get("message") if error is None else None
        if isinstance(message, dict):
            self._describe_answer(span, message)
        # The call settled when the event says so; its consumer may have taken longer.
        ended = time.time_ns() if event is None or error else int(when(event).timestamp() * _NANOSECONDS)
        ended = max(ended, span.began)
        labels = dict(span.attributes)
        if isinstance(message, dict) and message.get("model"):
            labels[names.RESPONSE_MODEL] = message["model"]
        self._metrics.call_ended((ended - span.began) / _NANOSECONDS, labels, kind)
        _end(span, kind, error, ended)

    def _describe_answer(self, span: _Work, message: dict[str, Any]) -> None:
        reason = message.get("stopReason")
        counts = token_counts(message)
        attributes = {
            names.RESPONSE_ID: message.get("providerResponseId"),
            names.RESPONSE_MODEL: message.get("model"),
            names.FINISH_REASONS: None if reason is None else [reason],
        }
        if counts is not None:
            read = counts.get("cache_read_input_tokens", 0)
            created = counts.get("cache_creation_input_tokens", 0)
            inputs, outputs = counts.get("input_tokens", 0) + read + created, counts.get("output_tokens", 0)
            attributes |= {
                names.INPUT_TOKENS: inputs,
                names.OUTPUT_TOKENS: outputs,
                names.CACHE_READ_TOKENS: read or None,
                names.CACHE_CREATION_TOKENS: created or None,
            }
            self._metrics.tokens_used(inputs, outputs, span.attributes)
        if self._capture:
            attributes[names.OUTPUT_MESSAGES] = names.messages_attribute([message])
        span.span.set_attributes(_known(attributes))

    def start_tool(self, run: OpenRun[_Work], event: ContextTraceEvent) -> _Work:
        data = event.data
        name = str(data.get("name"))
        attributes = _known(
            {
                names.OPERATION: names.EXECUTE_TOOL,
                names.TOOL_NAME: name,
                names.TOOL_TYPE: "function",
                names.TOOL_CALL_ID: data.get("id"),
                names.TOOL_DESCRIPTION: data.get("description"),
                names.TOOL_ARGUMENTS: compact_json(plain(data.get("input"))) if self._capture else None,
            }
        )
        context = _inside(run.span)
        work = self._start(f"{names.EXECUTE_TOOL} {name}", SpanKind.INTERNAL, attributes, context)
        work.outside = otel_context.get_current()
        otel_context.attach(trace.set_span_in_context(work.span, context))
        return work

    def end_tool(self, span: _Work, event: ContextTraceEvent | None, error: str | None) -> None:
        data = {} if event is None else event.data
        if span.outside is not None and trace.get_current_span() is span.span:
            otel_context.attach(span.outside)
        kind = None
        if error is None and data.get("is_error"):
            kind, error = "tool_error", error_text(data) if self._capture else None
        elif error is not None:
            kind = "no_result"
        if self._capture and "content" in data:
            span.span.set_attribute(names.TOOL_RESULT, compact_json(plain(data["content"])))
        _end(span, kind, error)

    def note(self, run: OpenRun[_Work], event: ContextTraceEvent) -> None:
        if event.type == "user_message":
            return  # tool results, which have spans of their own
        work = run.call if event.type == "retry" and run.call is not None else run.span
        shown = {key: value for key, value in event.data.items() if isinstance(value, (str, int, float, bool))}
        if not self._capture:
            shown = {key: value for key, value in shown.items() if key not in _CONTENT_KEYS}
        work.span.add_event(f"lattice.{event.type}", {f"lattice.{key}": value for key, value in shown.items()})

    def end_run(self, run: OpenRun[_Work], event: ContextTraceEvent | None) -> None:
        if event is None:
            _end(run.span, "abandoned", "The run was abandoned")
            return
        data = event.data
        kept = {names.SUBTYPE: data.get("subtype"), names.TURNS: data.get("num_turns")}
        if self._capture and isinstance(data.get("result"), str):
            answer = {"role": "assistant", "content": data["result"]}
            kept[names.OUTPUT_MESSAGES] = names.messages_attribute([answer])
        run.span.span.set_attributes(_known(kept))
        failed = bool(data.get("is_error"))
        _end(run.span, str(data.get("subtype")) if failed else None, error_text(data) if failed else None)

    def _start(self, name: str, kind: SpanKind, attributes: dict[str, Any], context: Context) -> _Work:
        began = time.time_ns()
        span = self._tracer.start_span(name, context, kind, attributes, start_time=began)
        return _Work(span, began, attributes)


_CONTENT_KEYS = frozenset({"summary", "content", "message", "text", "result"})


def _known(attributes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in attributes.items() if value is not None}


def _inside(work: _Work) -> Context:
    return trace.set_span_in_context(work.span)


def _parent_context(parent: _Work | None) -> Context:
    """The tool that started the run if it is current, else the run above, else whatever is current."""
    current = otel_context.get_current()
    if parent is None:
        return current
    inner = trace.get_current_span(current).get_span_context()
    return current if inner.trace_id == parent.span.get_span_context().trace_id else _inside(parent)


def _end(work: _Work, kind: str | None, error: str | None, at: int | None = None) -> None:
    if kind is not None:
        work.span.set_attribute(names.ERROR_TYPE, kind)
        work.span.set_status(Status(StatusCode.ERROR, error))
    work.span.end(at)
