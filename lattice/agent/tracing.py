"""Writes the trace of one query: envelopes, numbers per tracer, and what to do when a tracer fails."""

import asyncio
import inspect
import itertools
import logging
import weakref
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from lattice.encoding import timestamp
from lattice.redaction import hide_value
from lattice.tracer import ContextTraceEvent, is_strict, trace_method

__all__ = ["FLUSH_SECONDS", "Trace", "next_number"]

FLUSH_SECONDS = 1.0
"""How long the end of a query waits for a tolerant tracer to flush."""

_log = logging.getLogger("lattice.agent")
_counters: dict[int, tuple[Any, Iterator[int]]] = {}


def next_number(tracer: Any) -> int:
    """Return 1, 2, 3, ... for each tracer object."""
    known = _counters.get(id(tracer))
    if known is None:
        key = id(tracer)
        try:
            holder: Any = weakref.ref(tracer, lambda _gone: _counters.pop(key, None))
        except TypeError:  # no weak references: keep the object, so that its id stays its own
            holder = tracer
        known = _counters[key] = (holder, itertools.count(1))
    return next(known[1])


class Trace:
    """The trace of one query under way."""

    __slots__ = ("_on_event", "_strict", "_tracer", "parent_run_id", "run_id", "session_id", "source")

    def __init__(
        self,
        tracer: Any,
        *,
        session_id: str,
        run_id: str,
        parent_run_id: str | None,
        source: dict[str, Any],
        may_raise: bool = True,
    ) -> None:
        """Unless it ``may_raise``, the errors of a strict tracer are logged as well."""
        self._tracer = tracer
        self._on_event = trace_method(tracer, "on_event")
        self._strict = may_raise and is_strict(tracer)
        self.session_id = session_id
        self.run_id = run_id
        self.parent_run_id = parent_run_id
        self.source = source

    async def emit(self, type: str, data: dict[str, Any], *, at: float | None = None) -> None:  # noqa: A002 - its name in the envelope
        """Write one row; ``at`` is when it happened, in seconds since 1970, if that was not now.

        Raises:
            Exception: whatever a strict tracer raised.
        """
        assert self._on_event is not None
        event = ContextTraceEvent(
            version=1,
            timestamp=timestamp(None if at is None else datetime.fromtimestamp(at, UTC)),
            seq=next_number(self._tracer),
            session_id=self.session_id,
            run_id=self.run_id,
            source=self.source.copy(),
            type=type,
            data=hide_value(data),
            parent_run_id=self.parent_run_id,
        )
        try:
            returned = self._on_event(event)
            if inspect.isawaitable(returned):
                await returned
        except Exception as error:
            if self._strict:
                raise
            _log.warning("tracer %r failed on %s: %s", self._tracer, type, error)

    async def flush(self) -> None:
        """Let the tracer write what it buffers; a tolerant one gets ``FLUSH_SECONDS`` and goes on by itself.

        Raises:
            Exception: whatever a strict tracer raised.
        """
        method = trace_method(self._tracer, "after_query") or trace_method(self._tracer, "flush")
        if method is None:
            return
        try:
            returned = method()
            if inspect.isawaitable(returned):
                await (returned if self._strict else asyncio.wait_for(returned, FLUSH_SECONDS))
        except Exception as error:
            if self._strict:
                raise
            _log.warning("tracer %r could not flush: %s", self._tracer, str(error) or type(error).__name__)
