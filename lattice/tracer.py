"""Contract: where the trace events of agents and teams go."""

import inspect
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from lattice.errors import OptionError

__all__ = [
    "CompositeContextTracer",
    "ContextTraceEvent",
    "ContextTraceEventType",
    "ContextTracer",
    "DefinedContextTracer",
    "Source",
    "create_composite_context_tracer",
    "define_context_tracer",
    "is_strict",
]

_log = logging.getLogger("lattice.tracer")

ContextTraceEventType = Literal[
    "run_start",
    "user_message",
    "model_request",
    "assistant_message",
    "tool_use",
    "tool_result",
    "compaction",
    "team_message",
    "retry",
    "error",
    "result",
]

Source = dict[str, Any]
"""Who an event is about: ``{"kind": "agent"|"team_member"|"root", "name"?, "team"?, "member"?, "mailbox"?}``."""


@dataclass(frozen=True, slots=True)
class ContextTraceEvent:
    """One row of a trace, in the documented envelope.

    ``type`` is one of run_start, user_message, model_request, assistant_message, tool_use, tool_result, compaction,
    team_message, retry, error, result.
    """

    version: int
    timestamp: str
    seq: int
    session_id: str
    run_id: str
    source: Source
    type: str
    data: dict[str, Any]
    parent_run_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the wire form; ``parent_run_id`` is absent at a root."""
        row: dict[str, Any] = {
            "version": self.version,
            "timestamp": self.timestamp,
            "seq": self.seq,
            "session_id": self.session_id,
            "run_id": self.run_id,
        }
        if self.parent_run_id is not None:
            row["parent_run_id"] = self.parent_run_id
        row["source"] = self.source
        row["type"] = self.type
        row["data"] = self.data
        return row


class ContextTracer(Protocol):
    """A sink for trace events; ``flush()`` and ``close()`` are optional, all may be ``def`` or ``async def``.

    A query flushes its tracer when it ends. A tracer that delivers in the background has an ``after_query()``, which is
    called instead: nobody waits for a network there.
    """

    def on_event(self, event: ContextTraceEvent) -> Any:
        """Take one event."""
        ...


def is_strict(port: Any) -> bool:
    """Whether the errors of a tracer or a history store are to leave the query; its factory has settled that."""
    return getattr(port, "_strict", False) is True


def trace_method(tracer: Any, name: str) -> Callable[..., Any] | None:
    """Return a tracer's method by its Python name, in either spelling, or None."""
    spellings = (name, "onEvent") if name == "on_event" else (name,)
    for spelling in spellings:
        method = tracer.get(spelling) if isinstance(tracer, dict) else getattr(tracer, spelling, None)
        if callable(method):
            return method  # type: ignore[no-any-return]
    return None


class DefinedContextTracer:
    """A tracer put together from functions; made by ``define_context_tracer()``."""

    __slots__ = ("__weakref__", "_close", "_flush", "_strict", "on_event")

    def __init__(self, methods: dict[str, Callable[..., Any] | None], *, strict: bool) -> None:
        on_event = methods["on_event"]
        assert on_event is not None
        self.on_event = on_event
        self._flush = methods["flush"]
        self._close = methods["close"]
        self._strict = strict

    async def flush(self) -> None:
        """Write what is buffered, if the implementation buffers."""
        await _call(self._flush)

    async def close(self) -> None:
        """Flush and let go of resources, if the implementation holds any."""
        await _call(self._close)


def define_context_tracer(
    implementation: Any = None,
    /,
    *,
    on_event: Callable[..., Any] | None = None,
    flush: Callable[..., Any] | None = None,
    close: Callable[..., Any] | None = None,
    fail_on_error: bool | None = None,
) -> DefinedContextTracer:
    """Make a tracer of an object (or dict) with ``on_event`` and perhaps ``flush`` and ``close``, or of functions.

    Args:
        implementation: an object or a dict; an object's methods stay bound to it.
        on_event: takes one ``ContextTraceEvent``.
        flush: writes what is buffered.
        close: lets go of resources.
        fail_on_error: whether an error of the tracer leaves ``query()``; by default it is only logged.

    Raises:
        OptionError: there is no ``on_event``.
    """
    given = {"on_event": on_event, "flush": flush, "close": close}
    methods = {name: method or trace_method(implementation, name) for name, method in given.items()}
    if methods["on_event"] is None:
        raise OptionError("define_context_tracer requires an on_event(event) method")
    if fail_on_error is None:
        declared = [_get(implementation, name) for name in ("fail_on_error", "failOnError")]
        fail_on_error = any(bool(value) for value in declared)
    return DefinedContextTracer(methods, strict=fail_on_error)


class CompositeContextTracer:
    """Hands each event to several tracers, one after another; made by ``create_composite_context_tracer()``."""

    __slots__ = ("__weakref__", "_strict", "_tracers")

    def __init__(self, tracers: list[Any]) -> None:
        self._tracers = tracers
        self._strict = any(is_strict(tracer) for tracer in tracers)

    @property
    def tracers(self) -> tuple[Any, ...]:
        """The tracers in their order."""
        return tuple(self._tracers)

    async def on_event(self, event: ContextTraceEvent) -> None:
        """Hand the event to every tracer; each gets a record of its own."""
        for tracer in self._tracers:
            await self._tell(tracer, "on_event", replace(event))

    async def after_query(self) -> None:
        """Do for every tracer what is due at the end of a query."""
        for tracer in self._tracers:
            await self._tell(tracer, "flush" if trace_method(tracer, "after_query") is None else "after_query")

    async def flush(self) -> None:
        """Flush every tracer that can."""
        for tracer in self._tracers:
            await self._tell(tracer, "flush")

    async def close(self) -> None:
        """Close every tracer that can."""
        for tracer in self._tracers:
            await self._tell(tracer, "close")

    async def _tell(self, tracer: Any, name: str, *arguments: Any) -> None:
        try:
            await _call(trace_method(tracer, name), *arguments)
        except Exception as error:
            if is_strict(tracer):
                raise
            _log.warning("%s of tracer %r failed: %s", name, tracer, error)


def create_composite_context_tracer(tracers: Iterable[Any]) -> CompositeContextTracer:
    """Make one tracer of several; None entries are skipped. It is strict if one of them is.

    Raises:
        OptionError: an entry has no ``on_event``.
    """
    kept = [tracer for tracer in tracers if tracer is not None]
    for tracer in kept:
        if trace_method(tracer, "on_event") is None:
            raise OptionError(f"create_composite_context_tracer: {tracer!r} has no on_event(event) method")
    return CompositeContextTracer(kept)


async def _call(method: Callable[..., Any] | None, *arguments: Any) -> None:
    if method is not None:
        returned = method(*arguments)
        if inspect.isawaitable(returned):
            await returned


def _get(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, dict) else getattr(holder, name, None)
