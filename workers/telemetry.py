"""What a process tells of its work: log lines that say what they are about, and OpenTelemetry where it is wanted."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from structlog.contextvars import bound_contextvars

from lattice.instruments import NO_INSTRUMENTS, Instruments
from lattice.run_store import RunStore
from lattice.runs import Claim, Lease, TakenRun
from workers.settings import Settings

if TYPE_CHECKING:
    from lattice.integrations.opentelemetry import Telemetry

__all__ = ["INSTANCE", "LogInstruments", "Watch", "submitting", "watching"]

_log = logging.getLogger("lattice.telemetry")

INSTANCE = "service.instance.id"

LOOK = 5.0
"""Seconds between two looks at the mailboxes."""

_WISHES = ("OTEL_EXPORTER_OTLP", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER")


class LogInstruments:
    """Binds what a piece of work is about to every log line that is written on the way; and more instruments."""

    def __init__(self, inner: Instruments = NO_INSTRUMENTS) -> None:
        self._inner = inner

    @contextmanager
    def working(self, claim: Claim) -> Iterator[None]:
        """See ``Instruments.working``."""
        item, message = claim.item, claim.item.message
        about = {"member": item.member, "run_id": message.run_id, "message_id": message.id, "attempt": claim.attempt}
        team = message.to.rpartition("::")[0]
        with (
            self._inner.working(claim),
            bound_contextvars(**about, **self._trace(item.traceparent), **_known(team=team)),
        ):
            yield

    @contextmanager
    def driving(self, taken: TakenRun) -> Iterator[None]:
        """See ``Instruments.driving``."""
        run = taken.run
        with (
            self._inner.driving(taken),
            bound_contextvars(run_id=run.id, attempt=run.epoch, **self._trace(run.traceparent)),
        ):
            yield

    def tracers(self) -> Sequence[Any]:
        """See ``Instruments.tracers``."""
        return self._inner.tracers()

    def traceparent(self) -> str | None:
        """See ``Instruments.traceparent``."""
        return self._inner.traceparent()

    def lease_lost(self, lease: Lease) -> None:
        """See ``Instruments.lease_lost``."""
        self._inner.lease_lost(lease)

    def _trace(self, sent: str | None) -> dict[str, str]:
        traceparent = self._inner.traceparent() or sent
        parts = (traceparent or "").split("-")
        return {"trace_id": parts[1]} if len(parts) == 4 else {}


class Watch:
    """The instruments of one process, and how its stores are watched."""

    def __init__(self, instruments: Instruments, watch: Callable[..., RunStore] | None = None) -> None:
        self.instruments = instruments
        self._watch = watch

    def store(self, store: Any, team: str | None = None) -> Any:
        """Return the store as the process is to use it; ``team`` is its key space, if it is not the team's own."""
        return store if self._watch is None else self._watch(store, team)


@asynccontextmanager
async def watching(
    settings: Settings, role: str, team: str, store: RunStore, members: Sequence[str], **attributes: str
) -> AsyncIterator[Watch]:
    """Set up what the environment and the settings ask for; at the end, export what is left.

    ``members`` are those whose mailboxes are measured, ``attributes`` say more of the process.

    Raises:
        OptionError: an exporter is not installed, or the port for metrics is taken.
    """
    if settings.metrics_port is None and not _is_wanted(os.environ):
        yield Watch(LogInstruments())
        return
    # An extra hundred milliseconds at the start, for those who want it.
    from lattice.integrations.opentelemetry import (  # noqa: PLC0415 - see above
        TeamInstruments,
        serve_metrics,
        watch_event_loop,
    )

    telemetry = _start(f"lattice-{role}", settings, {"lattice.team": team, **attributes})
    instruments = TeamInstruments(team, telemetry)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(telemetry.shutdown)
        if telemetry.reader is not None:
            await stack.enter_async_context(serve_metrics(settings.metrics_port, telemetry.reader))
        await stack.enter_async_context(watch_event_loop(lambda late: _stalled(instruments, late)))
        looking = asyncio.create_task(_measure(instruments.metrics.mailbox, store, members), name="lattice-mailboxes")
        stack.push_async_callback(_cancelled, looking)
        yield Watch(LogInstruments(instruments), instruments.watch)


@asynccontextmanager
async def submitting(settings: Settings, team: str) -> AsyncIterator[str | None]:
    """Open a span of a run that is submitted, and yield the ``traceparent`` to send along.

    One in the variable TRACEPARENT is continued, or handed on as it is where nothing is exported.
    """
    given = os.environ.get("TRACEPARENT")
    if not _is_wanted(os.environ):
        yield given
        return
    from lattice.integrations.opentelemetry import TeamInstruments, continue_trace  # noqa: PLC0415 - as above
    from lattice.integrations.opentelemetry.conventions import queue_of  # noqa: PLC0415 - as above

    telemetry = _start("lattice-submit", settings, {"lattice.team": team})
    instruments = TeamInstruments(team, telemetry)
    try:
        with continue_trace(given), instruments.submitting(queue_of(team), None):
            yield instruments.traceparent() or given
    finally:
        await telemetry.shutdown()


def _start(service: str, settings: Settings, attributes: Mapping[str, str]) -> "Telemetry":
    from lattice.integrations.opentelemetry import start_telemetry  # noqa: PLC0415 - as above

    telemetry = start_telemetry(service, attributes=attributes, prometheus=settings.metrics_port is not None)
    telemetry.publish()
    return telemetry


def _is_wanted(environ: Mapping[str, str]) -> bool:
    return any(name.startswith(_WISHES) and value for name, value in environ.items())


def _stalled(instruments: Any, seconds: float) -> None:
    instruments.metrics.count("loop.stalls")
    _log.warning("the event loop was blocked for %.1f s; a tool computes or waits without await", seconds)


async def _measure(record: Callable[[str, int, float], None], store: RunStore, members: Sequence[str]) -> None:
    """Look at how much waits, again and again; while Redis is away nothing is said."""
    while True:
        with suppress(Exception):
            for member in members:
                waiting, age_ms = await store.backlog(member)
                record(member, waiting, age_ms / 1000)
        await asyncio.sleep(LOOK)


async def _cancelled(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _known(**values: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}
