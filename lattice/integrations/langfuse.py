"""Traces as Langfuse observations: a chain per agent run, a generation per model call, a tool per tool call."""

import importlib.util
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypedDict, Unpack

from lattice.errors import OptionError
from lattice.integrations.tracing.facts import (
    call_inputs,
    error_text,
    event_facts,
    metadata_of,
    plain,
    run_metadata,
    run_name,
    tags_of,
    token_counts,
    when,
)
from lattice.integrations.tracing.tracer import ProjectingTracer, refuse_unknown
from lattice.integrations.tracing.tree import OpenRun
from lattice.tracer import ContextTraceEvent

__all__ = [
    "LangfuseChainLike",
    "LangfuseContextTracerOptions",
    "LangfuseFlushableSpanProcessor",
    "LangfuseGenerationLike",
    "LangfuseKVMap",
    "LangfuseObservationLike",
    "LangfuseStartObservation",
    "LangfuseToolLike",
    "create_langfuse_context_tracer",
]

_NANOSECONDS = 1_000_000_000

LangfuseKVMap: TypeAlias = dict[str, Any]
"""Values by name, for instance metadata."""

LangfuseStartObservation: TypeAlias = Callable[..., "LangfuseObservationLike"]
"""Makes a root observation of ``name``, ``as_type``, ``input`` and ``metadata``."""

Redact = Callable[[ContextTraceEvent], "ContextTraceEvent | dict[str, Any] | None"]


class LangfuseObservationLike(Protocol):
    """What is needed of an observation; ``set_attribute`` and ``create_event`` are used where there are any."""

    def start_observation(self, **options: Any) -> "LangfuseObservationLike":
        """Make an observation below this one."""
        ...

    def update(self, **values: Any) -> Any:
        """Set input, output, level and the like."""
        ...

    def end(self, *, end_time: int | None = ...) -> Any:
        """End the observation, at a time in nanoseconds since 1970."""
        ...


LangfuseChainLike: TypeAlias = LangfuseObservationLike
LangfuseGenerationLike: TypeAlias = LangfuseObservationLike
LangfuseToolLike: TypeAlias = LangfuseObservationLike


class LangfuseFlushableSpanProcessor(Protocol):
    """A span processor that can be told to export what it holds."""

    def force_flush(self) -> Any:
        """Export everything."""
        ...


class LangfuseContextTracerOptions(TypedDict, total=False):
    """What ``create_langfuse_context_tracer()`` takes.

    ``name`` is what traces are called, instead of the agent's name; ``client`` a ``Langfuse`` client of the host's own;
    ``span_processor`` is flushed by ``flush()`` and ``close()``, if the host registered one itself;
    ``start_observation`` stands in for the client's method of that name; ``tags`` are put on every trace, ``metadata``
    on every observation. ``redact`` returns the event as it may leave the house, or None to leave it out. With
    ``fail_on_error`` events are handled before the query goes on, and errors leave it.
    """

    name: str
    client: Any
    span_processor: LangfuseFlushableSpanProcessor
    start_observation: LangfuseStartObservation
    tags: Iterable[str]
    metadata: Mapping[str, Any]
    redact: Redact
    fail_on_error: bool


def create_langfuse_context_tracer(**options: Unpack[LangfuseContextTracerOptions]) -> ProjectingTracer:
    """Make a tracer that sends observations to Langfuse; needs the extra ``langfuse``.

    See ``LangfuseContextTracerOptions``. Without a client, the one that Langfuse makes of its own environment variables
    is used. Close the tracer before a short process ends.

    Raises:
        OptionError: an option is unknown, or the extra is not installed.
    """
    refuse_unknown("create_langfuse_context_tracer", options, LangfuseContextTracerOptions)
    client, start_observation = options.get("client"), options.get("start_observation")
    if client is None and start_observation is None and importlib.util.find_spec("langfuse") is None:
        raise OptionError('the Langfuse tracer needs an extra: pip install "agent-lattice[langfuse]"')
    sink = _LangfuseSink(
        name=options.get("name"),
        client=client,
        span_processor=options.get("span_processor"),
        start_observation=start_observation,
        tags=tuple(options.get("tags", ())),
        metadata=dict(options.get("metadata", {})),
    )
    redact, strict = options.get("redact"), options.get("fail_on_error", False)
    return ProjectingTracer("Langfuse", sink, sink.drain, redact=redact, strict=strict)


@dataclass(slots=True)
class _Observation:
    """An observation of the SDK, when it began (nanoseconds since 1970), and what it began with."""

    handle: Any
    began: int
    metadata: dict[str, Any]

    def end(self, event: ContextTraceEvent | None, **update: Any) -> None:
        known = {key: value for key, value in update.items() if value is not None}
        if known:
            self.handle.update(**known)
        # The SDK takes no start time: an end in the past of it would be a negative duration.
        ended = self.began if event is None else int(when(event).timestamp() * _NANOSECONDS)
        self.handle.end(end_time=max(ended, self.began))


class _LangfuseSink:
    def __init__(
        self,
        *,
        name: str | None,
        client: Any,
        span_processor: Any,
        start_observation: Callable[..., Any] | None,
        tags: tuple[str, ...],
        metadata: dict[str, Any],
    ) -> None:
        self._name = name
        self._client = client
        self._processor = span_processor
        self._start_observation = start_observation
        self._tags = tags
        self._metadata = metadata

    def start_run(self, event: ContextTraceEvent, parent: _Observation | None) -> _Observation:
        name = self._name or run_name(event.source)
        metadata = metadata_of(event, self._metadata, run_metadata(event))
        options: dict[str, Any] = {"name": name, "as_type": "chain", "input": {}, "metadata": metadata}
        if parent is not None:
            return _Observation(parent.handle.start_observation(**options), time.time_ns(), metadata)
        trace = {
            "trace_name": name,
            "session_id": event.session_id,
            "tags": tags_of(event.source, (), self._tags),
        }
        if event.parent_run_id is not None:  # the parent is traced by another process: join its trace
            trace = {}
        with self._attributes(trace):
            handle = self._start_root(event, options)
        _set_attributes(handle, trace)
        return _Observation(handle, time.time_ns(), metadata)

    def give_input(self, run: OpenRun[_Observation], event: ContextTraceEvent) -> None:
        run.span.handle.update(input={"message": plain(event.data.get("message"))})

    def start_call(self, run: OpenRun[_Observation], event: ContextTraceEvent) -> _Observation:
        data = event.data
        own = {"sdk_event_type": "model_request", **{key: data.get(key) for key in ("model", "max_tokens", "stream")}}
        model = {"model": data["model"]} if isinstance(data.get("model"), str) else {}
        return self._start_child(
            run,
            event,
            own,
            name=f"{data.get('model')} turn {run.turn}",
            as_type="generation",
            input=call_inputs(event),
            **model,
        )

    def end_call(self, span: _Observation, event: ContextTraceEvent | None, error: str | None) -> None:
        metadata = _end_metadata(span, event)
        if event is None or error is not None:
            span.end(event, metadata=metadata, level="ERROR", status_message=error)
            return
        message = event.data.get("message")
        span.end(
            event, output={"message": plain(message)}, usage_details=_usage(token_counts(message)), metadata=metadata
        )

    def start_tool(self, run: OpenRun[_Observation], event: ContextTraceEvent) -> _Observation:
        data = event.data
        own = {
            "sdk_event_type": "tool_use",
            "tool_use_id": data.get("id"),
            "tool_name": data.get("name"),
            "tool_description": data.get("description"),
        }
        tool_input = {"input": plain(data.get("input"))}
        return self._start_child(run, event, own, name=str(data.get("name")), as_type="tool", input=tool_input)

    def end_tool(self, span: _Observation, event: ContextTraceEvent | None, error: str | None) -> None:
        metadata = _end_metadata(span, event)
        if event is None or error is not None:
            span.end(event, metadata=metadata, level="ERROR", status_message=error)
            return
        output = {key: plain(event.data.get(key)) for key in ("content", "is_error")}
        span.end(event, output=output, metadata=metadata, **_failure(event))

    def note(self, run: OpenRun[_Observation], event: ContextTraceEvent) -> None:
        create = getattr(run.span.handle, "create_event", None)
        facts = event_facts(event)
        if callable(create):
            create(name=event.type, metadata=facts)
        else:
            run.span.handle.start_observation(name=event.type, as_type="event", metadata=facts).end()

    def end_run(self, run: OpenRun[_Observation], event: ContextTraceEvent | None) -> None:
        if event is None:
            run.span.end(None, level="ERROR", status_message="The run was abandoned")
        else:
            run.span.end(event, output=plain(event.data), **_failure(event))

    def drain(self) -> None:
        """Bring everything to Langfuse; called where it may wait."""
        for holder, method in ((self._processor, "force_flush"), (self._client, "flush")):
            flush = getattr(holder, method, None)
            if callable(flush):
                flush()

    def _start_child(
        self, run: OpenRun[_Observation], event: ContextTraceEvent, own: dict[str, Any], **options: Any
    ) -> _Observation:
        metadata = metadata_of(event, self._metadata, own)
        handle = run.span.handle.start_observation(metadata=metadata, **options)
        return _Observation(handle, time.time_ns(), metadata)

    def _start_root(self, event: ContextTraceEvent, options: dict[str, Any]) -> Any:
        if self._start_observation is not None:
            return self._start_observation(**options)
        client = self._langfuse()
        # Runs of one team call find the same trace from several processes: they share the session, others do not.
        is_of_team = event.parent_run_id is not None or event.source.get("kind") == "root"
        seed = event.session_id if is_of_team else event.run_id
        return client.start_observation(trace_context={"trace_id": client.create_trace_id(seed=seed)}, **options)

    def _attributes(self, trace: dict[str, Any]) -> AbstractContextManager[Any]:
        if not trace or self._start_observation is not None:
            return nullcontext()
        from langfuse import propagate_attributes  # noqa: PLC0415 - only who uses Langfuse pays for the import

        return propagate_attributes(**trace)

    def _langfuse(self) -> Any:
        if self._client is None:
            from langfuse import get_client  # noqa: PLC0415 - only who uses Langfuse pays for the import

            self._client = get_client()
        return self._client


def _set_attributes(handle: Any, trace: dict[str, Any]) -> None:
    set_attribute = getattr(handle, "set_attribute", None)
    if not callable(set_attribute) or not trace:
        return
    set_attribute("langfuse.trace.name", trace["trace_name"])
    set_attribute("session.id", trace["session_id"])
    set_attribute("langfuse.trace.tags", trace["tags"])


def _end_metadata(span: _Observation, event: ContextTraceEvent | None) -> dict[str, Any]:
    if event is None:
        return span.metadata
    return {**span.metadata, "sdk_end_event_type": event.type, "sdk_end_seq": event.seq}


def _failure(event: ContextTraceEvent) -> dict[str, Any]:
    if not event.data.get("is_error"):
        return {}
    return {"level": "ERROR", "status_message": error_text(event.data)}


def _usage(counts: dict[str, int] | None) -> dict[str, int] | None:
    if counts is None:
        return None
    usage = {"input": counts.get("input_tokens", 0), "output": counts.get("output_tokens", 0)}
    for key in ("cache_creation_input_tokens", "cache_read_input_tokens"):
        if key in counts:
            usage[key] = counts[key]
    return {**usage, "total": sum(usage.values())}
