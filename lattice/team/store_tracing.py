"""Context traces of runs whose lead and members are separate processes: one root, and who else traces what."""

import hashlib
import uuid
from typing import Any

from lattice.agent.agent import Agent
from lattice.agent.spec import is_agent_spec
from lattice.runs import RunRecord, WorkItem
from lattice.team.actor import lead_source
from lattice.team.host import Host
from lattice.team.run_trace import RunTrace
from lattice.team.team import Team
from lattice.tracer import CompositeContextTracer, create_composite_context_tracer

__all__ = ["StoreTracing"]


class StoreTracing:
    """What a process knows about tracing the runs of one team.

    The team's tracer takes the root of a run and everything below it, as the query option does in one process. Without
    one, agents trace for themselves. The tracers of the host's instruments come on top of either.
    """

    def __init__(self, host: Host, team: Team) -> None:
        self._team = team
        self._tracer = team.tracer if host.tracer is None else host.tracer
        self._more = tuple(host.instruments.tracers())
        self._source = lead_source(team.key)

    @property
    def data(self) -> dict[str, Any]:
        """What the trace says of the team when a run starts."""
        team = self._team
        return {
            "team": team.key,
            "max_delegate_depth": team.max_delegate_depth,
            "max_concurrent_work_items": team.max_concurrent_work_items,
        }

    def root(self, run: RunRecord) -> RunTrace | None:
        """Return the root of a run's trace; the same ids in every process that ever drives it."""
        if self._tracer is None:
            return None
        run_id = _root_id(run)
        session, _, above = run.options.get("trace", "").partition("/")
        ids = (session or run_id, run_id, above.partition("/")[0] or None)
        return RunTrace(self._tracer, self._source, ids=ids, strict=False, began=run.created_at / 1000)

    def joined(self, item: WorkItem) -> RunTrace | None:
        """Return the root that the work on an item belongs to; it was started by whoever drives the run."""
        if self._tracer is None or item.trace is None:
            return None
        session, run_id, parent = item.trace.split("/")
        return RunTrace(self._tracer, self._source, ids=(session, run_id, parent or None), strict=False)

    def options(self, agent: Any, trace: RunTrace | None) -> dict[str, Any]:
        """Return the query options that tie an agent's trace to the run's."""
        if not (isinstance(agent, (Agent, Team)) or is_agent_spec(agent)):
            return {} if trace is None else {"tracer": trace.tracer, "trace_parent": trace.parent}
        if trace is not None:
            return {"tracer": _combined(trace.tracer, self._more), "trace_parent": trace.parent}
        if not self._more:
            return {}
        own = agent.options.get("tracer") if is_agent_spec(agent) else getattr(agent, "tracer", None)
        return {"tracer": _combined(own, self._more)}


def _combined(tracer: Any, more: tuple[Any, ...]) -> Any:
    """Return one tracer of all; of a kind that traces already there is no second one."""
    known = {type(one) for one in _flat(tracer)}
    missing = [one for one in more if type(one) not in known]
    if not missing:
        return tracer
    return missing[0] if tracer is None and len(missing) == 1 else create_composite_context_tracer([tracer, *missing])


def _flat(tracer: Any) -> list[Any]:
    if isinstance(tracer, CompositeContextTracer):
        return [one for part in tracer.tracers for one in _flat(part)]
    return [] if tracer is None else [tracer]


def _root_id(run: RunRecord) -> str:
    """Return the id of a run's root: a UUID that tells when the run was submitted, so that trees can be ordered by it.

    The outermost root's id is the session's too.
    """
    digest = int.from_bytes(hashlib.blake2b(run.id.encode(), digest_size=10).digest())
    number = (run.created_at & (1 << 48) - 1) << 80 | digest
    number = number & ~(0xF << 76) | 7 << 76
    return str(uuid.UUID(int=number & ~(0b11 << 62) | 0b10 << 62))
