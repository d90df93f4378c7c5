"""A context tracer that projects events into spans of another technology, in the background unless it is strict."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from lattice.errors import OptionError
from lattice.integrations.tracing.delivery import Delivery
from lattice.integrations.tracing.tree import TraceSink, TraceTree
from lattice.tracer import ContextTraceEvent

__all__ = ["ProjectingTracer", "Redact", "redacted", "refuse_unknown"]

Redact = Callable[[ContextTraceEvent], "ContextTraceEvent | dict[str, Any] | None"]


def refuse_unknown(factory: str, options: Mapping[str, Any], known: type) -> None:
    """Refuse options that a factory does not know.

    Raises:
        OptionError: there is one.
    """
    names = sorted(known.__annotations__)
    for key in options:
        if key not in names:
            raise OptionError(f'{factory}: unknown option "{key}"; known are {", ".join(names)}')


def redacted(event: ContextTraceEvent, redact: Redact | None) -> ContextTraceEvent | None:
    """Return the event as it may leave the house, or None if it may not."""
    if redact is None:
        return event
    shown = redact(event)
    return ContextTraceEvent(**shown) if isinstance(shown, dict) else shown


class ProjectingTracer:
    """Takes events, hands them to a ``TraceTree``, and lets ``drain`` bring the rest to the backend.

    ``on_event`` never waits. ``flush()`` returns when everything has arrived, ``close()`` too, after it has ended what
    is open. At the end of a query nothing is waited for: ``after_query()`` stands in for ``flush()`` there.
    """

    def __init__(
        self, label: str, sink: TraceSink[Any], drain: Callable[[], Any], *, redact: Redact | None, strict: bool
    ) -> None:
        self.delivery = Delivery(label)
        self.tree = TraceTree(sink)
        self._drain = drain
        self._redact = redact
        self._strict = strict

    def on_event(self, event: ContextTraceEvent) -> None:
        """Take one event.

        Raises:
            Exception: whatever the backend raised, if the tracer is strict; or ``redact``.
        """
        shown = redacted(event, self._redact)
        if shown is None:
            return
        if self._strict:
            self.tree.take(shown)
        else:
            self.delivery.submit(partial(self.tree.take, shown))

    async def after_query(self) -> None:
        """Wait for nothing: delivery goes on in the background."""

    async def flush(self) -> None:
        """Return when everything that was traced has been sent.

        Raises:
            Exception: whatever the backend raised.
        """
        await self.delivery.drain(self._drain)

    async def close(self) -> None:
        """End what is still open and flush."""
        self.delivery.submit(self.tree.end_all)
        await self.flush()
