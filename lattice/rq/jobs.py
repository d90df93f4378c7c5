"""The job function that queued jobs remember by its dotted name; it never moves."""

from contextvars import Context, ContextVar, copy_context
from typing import Any, Protocol

from lattice.errors import LatticeError

__all__ = ["Engine", "RunCancelledError", "RunFailedError", "again", "context_of", "drive_run"]


class Engine(Protocol):
    """Drives the runs of one team."""

    async def drive(self, run_id: str, *, again: bool = False) -> dict[str, Any]:
        """Drive a run to its end and return its outcome: run_id, status, result, usage, error.

        With ``again`` RQ has queued it once more after it failed: it goes on from its last recorded step.

        Raises:
            RunHeldError: somebody else drives it.
            RunParkedError: this process is leaving and has handed the run over.
        """
        ...


class RunFailedError(LatticeError):
    """The run failed."""

    def __init__(self, outcome: dict[str, Any]) -> None:
        """Take the outcome; the message is its error."""
        error = outcome.get("error") or {}
        super().__init__(
            f"{error.get('code') or error.get('name') or 'failed'}: {error.get('message') or 'no message'}"
        )
        self.outcome = outcome


class RunCancelledError(LatticeError):
    """The run was cancelled."""

    def __init__(self, outcome: dict[str, Any]) -> None:
        """Take the outcome."""
        super().__init__(None)
        self.outcome = outcome


_engine: ContextVar[Engine | None] = ContextVar("lattice_engine", default=None)

again: ContextVar[bool] = ContextVar("lattice_again", default=False)
"""Whether the job was run to an end before, and RQ retries it or somebody requeued it."""


def context_of(engine: Engine) -> Context:
    """Return a copy of the current context in which jobs are driven by ``engine``."""
    context = copy_context()
    context.run(_engine.set, engine)
    return context


async def drive_run(run_id: str) -> dict[str, Any]:
    """Drive a run to its end; the outcome of a run that succeeded is the job's return value.

    Raises:
        RunFailedError: it failed.
        RunCancelledError: it was cancelled.
        LatticeError: no coordinator runs in this process.
    """
    engine = _engine.get()
    if engine is None:
        raise LatticeError(f"run {run_id} needs a coordinator: start lattice-coordinator instead of a plain RQ worker")
    outcome = await engine.drive(run_id, again=again.get())
    if outcome["status"] == "failed":
        raise RunFailedError(outcome)
    if outcome["status"] == "cancelled":
        raise RunCancelledError(outcome)
    return outcome
