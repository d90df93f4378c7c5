"""Why a run is not moving: what it waits for, who holds it, until when, and what helps."""

from collections.abc import Iterator

from lattice.client import RunStanding
from lattice.redis.checkup import OK, WARNING, WRONG, Finding
from lattice.runs import ProcessInfo, RunStatus, WorkState

__all__ = ["explain"]

_COORDINATOR = "lattice-coordinator"
_ENDED = ("failed", "finished", "canceled", "stopped")


def explain(standing: RunStanding) -> list[Finding]:
    """Return what there is to say of a run; work that has ended is left out."""
    return [_of_run(standing), *_of_work(standing)]


def _of_run(standing: RunStanding) -> Finding:
    run = standing.run
    if run.status.is_terminal:
        why = f": {run.error.get('code')}: {run.error.get('message')}" if run.error else ""
        return Finding("run", OK, f"it has ended: {run.status}{why}")
    coordinators = [one for one in standing.processes if one.role == "coordinator"]
    if run.status is RunStatus.QUEUED:
        return _queued(standing, coordinators)
    holder = _process(standing, run.owner)
    left = _seconds(standing, standing.held_until)
    if holder is not None:
        what = "waits for its members" if run.status is RunStatus.WAITING else "the lead is at work"
        return Finding("run", OK, f"{what}; {_named(holder)} holds it (lease for {left:.0f} s more, renewed)")
    gone = f"nobody holds it ({run.owner} does not answer)" if run.owner else "nobody holds it"
    if not coordinators:
        return Finding("run", WRONG, f"{gone}, and no coordinator is alive to take it over", _COORDINATOR)
    return Finding("run", WARNING, f"{gone}; a coordinator takes it over within {max(left, 0) + 1:.0f} s")


def _queued(standing: RunStanding, coordinators: list[ProcessInfo]) -> Finding:
    job, run_id = standing.job, standing.run.id
    if job.status == "scheduled" and job.due is not None:
        return Finding("run", OK, f"it is due at {job.due:%Y-%m-%d %H:%M:%S} UTC")
    if job.status == "deferred":
        return Finding("run", OK, "it waits for the runs that it was submitted --after")
    if job.status is None:
        cancel = f"lattice cancel {run_id}"
        return Finding("run", WRONG, "it was recorded, but its RQ job is gone: nobody will start it", cancel)
    if job.status in _ENDED:
        return Finding("run", WRONG, f"it is to go on, but its RQ job is {job.status}", f"lattice resume {run_id}")
    if not coordinators:
        return Finding("run", WRONG, "it waits for a coordinator, and none is alive", _COORDINATOR)
    room = sum(max(0, one.concurrency - one.busy) for one in coordinators)
    ahead = "" if job.ahead is None else f", {job.ahead} in line before it"
    if room:
        return Finding("run", OK, f"it is about to start{ahead}")
    return Finding("run", WARNING, f"every coordinator is full{ahead}", f"{_COORDINATOR} (one more)")


def _of_work(standing: RunStanding) -> Iterator[Finding]:
    if standing.run.status.is_terminal:
        return
    for state in standing.work:
        if not state.message.status.is_terminal:
            yield _of_item(standing, state)


def _of_item(standing: RunStanding, state: WorkState) -> Finding:
    name = f"{state.member} {state.message.id}"
    if state.message.status == "processing":
        return _held(standing, state, name)
    if state.due_at is not None:
        wait = _seconds(standing, state.due_at)
        return Finding(name, OK, f"is tried again in {max(wait, 0):.0f} s after {state.retry_reason}")
    if state.behind is not None:
        return Finding(name, OK, f"waits for its turn: {state.behind} works in the same conversation")
    workers = [one for one in standing.processes if one.role == "worker" and one.member == state.member]
    start = f"lattice-worker --member {state.member}"
    if not workers and not state.member.startswith("delegate."):
        return Finding(name, WRONG, f"waits for a worker of {state.member}, and none is alive", start)
    if workers and all(one.busy >= one.concurrency for one in workers):
        return Finding(name, WARNING, f"waits: every worker of {state.member} is full", f"{start} (one more)")
    return Finding(name, OK, "is about to be claimed, or held back by the team's limit of work at once")


def _held(standing: RunStanding, state: WorkState, name: str) -> Finding:
    holder, left = _process(standing, state.owner), _seconds(standing, state.lease_until)
    attempt = f"attempt {state.attempts}"
    if holder is not None:
        return Finding(name, OK, f"{_named(holder)} works on it, {attempt} (lease for {left:.0f} s more, renewed)")
    says = f"{state.owner} had it and does not answer, {attempt}; it is free again in {max(left, 0) + 1:.0f} s"
    if any(one.role == "worker" and one.member == state.member for one in standing.processes):
        return Finding(name, WARNING, says)
    return Finding(
        name, WRONG, f"{says}, but no worker of {state.member} is alive", f"lattice-worker --member {state.member}"
    )


def _process(standing: RunStanding, process_id: str | None) -> ProcessInfo | None:
    return next((one for one in standing.processes if one.id == process_id), None)


def _named(process: ProcessInfo) -> str:
    return f"{process.id} (pid {process.pid} on {process.host})"


def _seconds(standing: RunStanding, until: int | None) -> float:
    return 0.0 if until is None else (until - standing.now) / 1000
