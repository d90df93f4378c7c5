"""Folds trace events into runs with model calls and tool calls inside, whatever the order in which they end.

Everything that is opened is closed: a model call that nobody answered ends with the next event that shows it, a run
that was abandoned ends when too many are open.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from lattice.tracer import ContextTraceEvent

__all__ = ["OpenRun", "TraceSink", "TraceTree"]

Span = TypeVar("Span")

_OPEN_LIMIT = 4096
_ENDED_LIMIT = 256


@dataclass(slots=True)
class OpenRun(Generic[Span]):
    """A run under way: its span, and the spans of what it is doing."""

    span: Span
    run_id: str
    turn: int = 0
    has_input: bool = False
    call: Span | None = None
    tools: dict[str, Span] = field(default_factory=dict)


class TraceSink(Protocol[Span]):
    """One technology's way to write spans."""

    def start_run(self, event: ContextTraceEvent, parent: Span | None) -> Span:
        """Open the span of a run; the event is its ``run_start``, or the first that was seen of it."""
        ...

    def give_input(self, run: OpenRun[Span], event: ContextTraceEvent) -> None:
        """Take the first user message of a run."""
        ...

    def start_call(self, run: OpenRun[Span], event: ContextTraceEvent) -> Span:
        """Open the span of a model call; ``run.turn`` is its number."""
        ...

    def end_call(self, span: Span, event: ContextTraceEvent | None, error: str | None) -> None:
        """Close the span of a model call with its ``assistant_message``.

        With ``error``, the event is the one that shows that there is no answer; None if the run was abandoned.
        """
        ...

    def start_tool(self, run: OpenRun[Span], event: ContextTraceEvent) -> Span:
        """Open the span of a tool call."""
        ...

    def end_tool(self, span: Span, event: ContextTraceEvent | None, error: str | None) -> None:
        """Close the span of a tool call with its ``tool_result``; ``error`` as above."""
        ...

    def note(self, run: OpenRun[Span], event: ContextTraceEvent) -> None:
        """Take an event that is neither the start nor the end of anything."""
        ...

    def end_run(self, run: OpenRun[Span], event: ContextTraceEvent | None) -> None:
        """Close the span of a run with its ``result``; None if it was abandoned."""
        ...


NO_ANSWER = "The model call was not answered"
NO_RESULT = "The tool call has no result"


class TraceTree(Generic[Span]):
    """Hands trace events to a sink as starts and ends of spans; not for several threads at once."""

    def __init__(self, sink: TraceSink[Span], *, open_limit: int = _OPEN_LIMIT) -> None:
        self._sink = sink
        self._open_limit = open_limit
        self._runs: OrderedDict[str, OpenRun[Span]] = OrderedDict()
        self._ended: OrderedDict[str, Span] = OrderedDict()

    @property
    def open_runs(self) -> int:
        """How many runs are under way."""
        return len(self._runs)

    def take(self, event: ContextTraceEvent) -> None:
        """Take the next event."""
        run = self._runs.get(event.run_id)
        if run is None:
            if event.type == "result" and event.run_id in self._ended:
                return
            if event.type == "team_message":
                return  # of a team whose root another process writes
            run = self._start(event)
            if event.type == "run_start":
                return
        self._hand_on(run, event)

    def end_all(self) -> None:
        """Close every run that is still open."""
        while self._runs:
            self._abandon()

    def _hand_on(self, run: OpenRun[Span], event: ContextTraceEvent) -> None:
        match event.type:
            case "user_message":
                self._user_message(run, event)
            case "model_request":
                self._model_request(run, event)
            case "assistant_message":
                self._assistant_message(run, event)
            case "tool_use":
                self._tool_use(run, event)
            case "tool_result":
                self._tool_result(run, event)
            case "result":
                self._result(run, event)
            case _:
                self._sink.note(run, event)

    def _start(self, event: ContextTraceEvent) -> OpenRun[Span]:
        while len(self._runs) >= self._open_limit:
            self._abandon()
        run = OpenRun(self._sink.start_run(event, self._parent(event)), event.run_id)
        self._runs[event.run_id] = run
        return run

    def _parent(self, event: ContextTraceEvent) -> Span | None:
        if event.parent_run_id is None:
            return None
        parent = self._runs.get(event.parent_run_id)
        return self._ended.get(event.parent_run_id) if parent is None else parent.span

    def _abandon(self) -> None:
        _, run = self._runs.popitem(last=False)
        self._close_inside(run, None)
        self._sink.end_run(run, None)

    def _user_message(self, run: OpenRun[Span], event: ContextTraceEvent) -> None:
        if run.has_input:
            self._sink.note(run, event)
        else:
            run.has_input = True
            self._sink.give_input(run, event)

    def _model_request(self, run: OpenRun[Span], event: ContextTraceEvent) -> None:
        self._close_call(run, event, NO_ANSWER)
        run.turn += 1
        run.call = self._sink.start_call(run, event)

    def _assistant_message(self, run: OpenRun[Span], event: ContextTraceEvent) -> None:
        if run.call is None:
            self._sink.note(run, event)
        else:
            self._close_call(run, event, None)

    def _close_inside(self, run: OpenRun[Span], event: ContextTraceEvent | None) -> None:
        self._close_call(run, event, NO_ANSWER)
        for span in run.tools.values():
            self._sink.end_tool(span, event, NO_RESULT)
        run.tools.clear()

    def _close_call(self, run: OpenRun[Span], event: ContextTraceEvent | None, error: str | None) -> None:
        call, run.call = run.call, None
        if call is not None:
            self._sink.end_call(call, event, error)

    def _tool_use(self, run: OpenRun[Span], event: ContextTraceEvent) -> None:
        run.tools[str(event.data.get("id"))] = self._sink.start_tool(run, event)

    def _tool_result(self, run: OpenRun[Span], event: ContextTraceEvent) -> None:
        span = run.tools.pop(str(event.data.get("tool_use_id")), None)
        if span is None:
            self._sink.note(run, event)
        else:
            self._sink.end_tool(span, event, None)

    def _result(self, run: OpenRun[Span], event: ContextTraceEvent) -> None:
        del self._runs[run.run_id]
        self._close_inside(run, event)
        self._sink.end_run(run, event)
        self._ended[run.run_id] = run.span
        while len(self._ended) > _ENDED_LIMIT:
            self._ended.popitem(last=False)
