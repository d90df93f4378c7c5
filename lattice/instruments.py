"""Contract: what a process is asked for by whoever watches its work: spans, metrics, fields of log lines.

The runtime knows nothing of telemetry; it enters these contexts around what it does. Without instruments nothing is
entered, and nothing is paid.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

from lattice.runs import Claim, Lease, TakenRun

__all__ = ["NO_INSTRUMENTS", "Instruments", "NoInstruments"]


class Instruments(Protocol):
    """Watches the work of one process."""

    def working(self, claim: Claim) -> AbstractContextManager[Any]:
        """Return what is entered around the work on one work item, from its claim to its end."""
        ...

    def driving(self, taken: TakenRun) -> AbstractContextManager[Any]:
        """Return what is entered around the driving of one run, from taking it to its end or its handing over."""
        ...

    def tracers(self) -> Sequence[Any]:
        """Return context tracers that take the events of every agent, beside the agent's own."""
        ...

    def traceparent(self) -> str | None:
        """Return the W3C trace context of what is under way, for what it sends; None if nothing is traced."""
        ...

    def lease_lost(self, lease: Lease) -> None:
        """Hear that a lease ran out, or was taken, while its work went on."""
        ...


class NoInstruments:
    """Watches nothing."""

    __slots__ = ()

    def working(self, claim: Claim) -> AbstractContextManager[Any]:
        """See ``Instruments.working``."""
        del claim
        return _NOTHING

    def driving(self, taken: TakenRun) -> AbstractContextManager[Any]:
        """See ``Instruments.driving``."""
        del taken
        return _NOTHING

    def tracers(self) -> Sequence[Any]:
        """See ``Instruments.tracers``."""
        return ()

    def traceparent(self) -> str | None:
        """See ``Instruments.traceparent``."""
        return None

    def lease_lost(self, lease: Lease) -> None:
        """See ``Instruments.lease_lost``."""


_NOTHING: Final = nullcontext()
NO_INSTRUMENTS: Final = NoInstruments()
"""For a process that nobody watches."""
