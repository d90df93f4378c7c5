"""Traces as LangSmith runs: a chain per agent run, an llm run per model call, a tool run per tool call."""

import importlib.util
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
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
    "LangSmithContextTracerOptions",
    "LangSmithRunTreeConfig",
    "LangSmithRunTreeLike",
    "create_langsmith_context_tracer",
]

Run = Any
"""A ``RunTree`` of LangSmith, or what ``run_tree`` returned in its place."""

LangSmithRunTreeConfig: TypeAlias = dict[str, Any]
"""The arguments of a ``RunTree``."""

Redact = Callable[[ContextTraceEvent], "ContextTraceEvent | dict[str, Any] | None"]


class LangSmithRunTreeLike(Protocol):
    """What is needed of a ``RunTree``."""

    def create_child(self, **config: Any) -> "LangSmithRunTreeLike":
        """Make a run below this one."""
        ...

    def add_event(self, events: Any) -> None:
        """Add an event to the run."""
        ...

    def post(self, exclude_child_runs: bool = ...) -> None:
        """Send the beginning of the run."""
        ...

    def end(self, **values: Any) -> None:
        """Set outputs, error, end time and metadata."""
        ...

    def patch(self, *, exclude_inputs: bool | None = ...) -> None:
        """Send the end of the run."""
        ...


class LangSmithContextTracerOptions(TypedDict, total=False):
    """What ``create_langsmith_context_tracer()`` takes.

    ``name`` is what runs are called, instead of the agent's name; ``project_name`` the project that they go to;
    ``client`` a ``langsmith.Client`` of the host's own; ``api_key``, ``api_url`` and ``workspace_id`` stand in for the
    environment variables; ``tags`` and ``metadata`` are put on every run. ``redact`` returns the event as it may leave
    the house, or None to leave it out. With ``fail_on_error`` events are handled before the query goes on, and errors
    leave it. ``run_tree`` makes the object of a root run from its configuration, ``RunTree`` stands in for the class.
    """

    name: str
    project_name: str
    client: Any
    api_key: str
    api_url: str
    workspace_id: str
    tags: Iterable[str]
    metadata: Mapping[str, Any]
    redact: Redact
    fail_on_error: bool
    run_tree: Callable[[LangSmithRunTreeConfig], Any]
    RunTree: Callable[..., Any]


def create_langsmith_context_tracer(**options: Unpack[LangSmithContextTracerOptions]) -> ProjectingTracer:
    """Make a tracer that sends runs to LangSmith; needs the extra ``langsmith``. See ``LangSmithContextTracerOptions``.

    Without a client, a key, a URL and a workspace, LangSmith's own environment variables count. Close the tracer before
    a short process ends.

    Raises:
        OptionError: an option is unknown, or the extra is not installed.
    """
    refuse_unknown("create_langsmith_context_tracer", options, LangSmithContextTracerOptions)
    run_tree, run_tree_class = options.get("run_tree"), options.get("RunTree")
    if run_tree is None and run_tree_class is None and importlib.util.find_spec("langsmith") is None:
        raise OptionError('the LangSmith tracer needs an extra: pip install "agent-lattice[langsmith]"')
    connection = {name: options.get(name) for name in ("api_key", "api_url", "workspace_id")}
    sink = _LangSmithSink(
        name=options.get("name"),
        project_name=options.get("project_name"),
        client=options.get("client"),
        connection={key: value for key, value in connection.items() if value is not None},
        tags=tuple(options.get("tags", ())),
        metadata=dict(options.get("metadata", {})),
        factory=run_tree or (None if run_tree_class is None else lambda config: run_tree_class(**config)),
    )
    redact, strict = options.get("redact"), options.get("fail_on_error", False)
    return ProjectingTracer("LangSmith", sink, sink.drain, redact=redact, strict=strict)


class _LangSmithSink:
    def __init__(
        self,
        *,
        name: str | None,
        project_name: str | None,
        client: Any,
        connection: dict[str, Any],
        tags: tuple[str, ...],
        metadata: dict[str, Any],
        factory: Callable[[dict[str, Any]], Any] | None,
    ) -> None:
        self._name = name
        self._project = project_name
        self._client = client
        self._connection = connection
        self._tags = tags
        self._metadata = metadata
        self._factory = factory
        self._clients: dict[int, Any] = {} if client is None else {id(client): client}

    def start_run(self, event: ContextTraceEvent, parent: Run | None) -> Run:
        options: dict[str, Any] = {
            "name": self._name or run_name(event.source),
            "run_type": "chain",
            "inputs": {},
            "start_time": when(event),
            "extra": {"metadata": metadata_of(event, self._metadata, run_metadata(event))},
            "tags": tags_of(event.source, (), self._tags),
        }
        run_id = _as_uuid(event.run_id)
        if parent is None:
            run = self._make_root({**options, **_place(event), **({} if run_id is None else {"id": run_id})})
        else:
            run = _child(parent, **options, run_id=run_id)
        run.post(exclude_child_runs=True)
        self._note_client(run)
        return run

    def give_input(self, run: OpenRun[Run], event: ContextTraceEvent) -> None:
        run.span.inputs = {"message": plain(event.data.get("message"))}

    def start_call(self, run: OpenRun[Run], event: ContextTraceEvent) -> Run:
        data = event.data
        own = {"sdk_event_type": "model_request", **{key: data.get(key) for key in ("model", "max_tokens", "stream")}}
        return self._start_child(
            run,
            event,
            name=f"{data.get('model')} turn {run.turn}",
            run_type="llm",
            inputs=call_inputs(event),
            own=own,
            tags=("run:llm",),
        )

    def end_call(self, span: Run, event: ContextTraceEvent | None, error: str | None) -> None:
        outputs = None
        if event is not None and error is None:
            outputs = {"message": plain(event.data.get("message"))}
            usage = _usage(token_counts(event.data.get("message")))
            if usage is not None:
                outputs["usage_metadata"] = usage
        _end(span, event, outputs, error)

    def start_tool(self, run: OpenRun[Run], event: ContextTraceEvent) -> Run:
        data = event.data
        own = {
            "sdk_event_type": "tool_use",
            "tool_use_id": data.get("id"),
            "tool_name": data.get("name"),
            "tool_description": data.get("description"),
        }
        return self._start_child(
            run,
            event,
            name=str(data.get("name")),
            run_type="tool",
            inputs={"input": plain(data.get("input"))},
            own=own,
            tags=("run:tool", f"tool:{data.get('name')}"),
        )

    def end_tool(self, span: Run, event: ContextTraceEvent | None, error: str | None) -> None:
        outputs = None
        if event is not None and error is None:
            outputs = {key: plain(event.data.get(key)) for key in ("content", "is_error")}
            error = error_text(event.data) if event.data.get("is_error") else None
        _end(span, event, outputs, error)

    def note(self, run: OpenRun[Run], event: ContextTraceEvent) -> None:
        run.span.add_event({"name": event.type, "time": event.timestamp, "kwargs": event_facts(event)})

    def end_run(self, run: OpenRun[Run], event: ContextTraceEvent | None) -> None:
        if event is None:
            run.span.end(error="The run was abandoned")
        else:
            error = error_text(event.data) if event.data.get("is_error") else None
            run.span.end(outputs=plain(event.data), error=error, end_time=when(event))
        run.span.patch(exclude_inputs=False)
        _forget_content(run.span)

    def drain(self) -> None:
        """Bring everything to LangSmith; called where it may wait."""
        for client in list(self._clients.values()):
            flush = getattr(client, "flush", None)
            if callable(flush):
                flush()

    def _make_root(self, options: dict[str, Any]) -> Run:
        if self._project is not None:
            options["project_name"] = self._project
        if self._factory is not None:
            own = {} if self._client is None else {"client": self._client}
            return self._factory({**options, **self._connection, **own})
        from langsmith import Client, RunTree  # noqa: PLC0415 - only who uses LangSmith pays for the import

        if self._client is None and self._connection:
            self._client = Client(**self._connection)
        return RunTree(**options, **({} if self._client is None else {"ls_client": self._client}))

    def _start_child(
        self,
        run: OpenRun[Run],
        event: ContextTraceEvent,
        *,
        name: str,
        run_type: str,
        inputs: dict[str, Any],
        own: dict[str, Any],
        tags: tuple[str, ...],
    ) -> Run:
        child = _child(
            run.span,
            name=name,
            run_type=run_type,
            inputs=inputs,
            start_time=when(event),
            extra={"metadata": metadata_of(event, self._metadata, own)},
            tags=tags_of(event.source, tags, self._tags),
        )
        child.post(exclude_child_runs=True)
        return child

    def _note_client(self, run: Run) -> None:
        client = getattr(run, "client", None)
        if client is not None:
            self._clients[id(client)] = client


def _child(parent: Run, **options: Any) -> Run:
    child = parent.create_child(**options)
    children = getattr(parent, "child_runs", None)
    if isinstance(children, list):
        children.clear()  # each child is posted by itself; the parent of a long run must not keep them all
    return child


def _end(span: Run, event: ContextTraceEvent | None, outputs: dict[str, Any] | None, error: str | None) -> None:
    closing = {} if event is None else {"sdk_end_event_type": event.type, "sdk_end_seq": event.seq}
    end_time = datetime.now(UTC) if event is None else when(event)
    started = getattr(span, "start_time", None)
    if isinstance(started, datetime) and started.tzinfo is not None and end_time < started:
        end_time = started
    span.end(outputs=outputs, error=error, end_time=end_time, metadata=closing)
    span.patch(exclude_inputs=False)


def _forget_content(run: Run) -> None:
    # An ended run stays known for a while as a parent; its texts need not.
    run.inputs, run.outputs, run.events = {}, {}, []


def _usage(counts: dict[str, int] | None) -> dict[str, Any] | None:
    if counts is None:
        return None
    read, created = counts.get("cache_read_input_tokens"), counts.get("cache_creation_input_tokens")
    inputs = counts.get("input_tokens", 0) + (read or 0) + (created or 0)
    outputs = counts.get("output_tokens", 0)
    usage: dict[str, Any] = {"input_tokens": inputs, "output_tokens": outputs, "total_tokens": inputs + outputs}
    details = {"cache_creation": created, "cache_read": read}
    known = {key: value for key, value in details.items() if value is not None}
    return {**usage, "input_token_details": known} if known else usage


def _place(event: ContextTraceEvent) -> dict[str, Any]:
    """Return where a run stands whose parent another process writes.

    LangSmith orders a tree by the times at which runs began; the ids of team roots in worker processes tell theirs, and
    the session has the id of the outermost one.
    """
    above = [run_id for run_id in map(_as_uuid, (event.session_id, event.parent_run_id or "")) if run_id is not None]
    if event.parent_run_id is None or len(above) < 2 or any(run_id.version != 7 for run_id in above):
        return {}
    above = list(dict.fromkeys(above))
    order = ".".join(f"{_began(run_id):%Y%m%dT%H%M%S%fZ}{run_id}" for run_id in above)
    return {"trace_id": above[0], "parent_run_id": above[-1], "parent_dotted_order": order}


def _began(run_id: uuid.UUID) -> datetime:
    return datetime.fromtimestamp((run_id.int >> 80) / 1000, UTC)


def _as_uuid(run_id: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(run_id)
    except ValueError:
        return None
