"""What a run in one process is made of: who takes part, with which tools and options, within which limits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lattice.agent.agent import Agent
from lattice.agent.spec import is_agent_spec
from lattice.mailbox import TeamMailbox
from lattice.runs import Budget
from lattice.team.actor import member_source
from lattice.team.alerts import Alerts
from lattice.team.definition import Directory
from lattice.team.metering import Purse
from lattice.tools.tool import ToolDefinition

__all__ = ["RunPlan"]


def _no_tools(_mailbox_id: str) -> Sequence[ToolDefinition]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One call of a team or runner.

    ``lead_options`` are query options for the lead, ``shared_options`` those that members get as well. ``depth`` is how
    deep this team stands inside others, ``chain`` the conversations there that wait for it. ``tools_of(mailbox_id)``
    are the tools that the team adds to a member. ``purse`` is what pays for it if that is the run of another team,
    ``alerts`` where the team's urgent mail is told.
    """

    lead: Any
    directory: Directory
    mailbox: TeamMailbox
    source: dict[str, Any]
    lead_tools: Sequence[ToolDefinition] = ()
    tools_of: Callable[[str], Sequence[ToolDefinition]] = _no_tools
    lead_options: Mapping[str, Any] = field(default_factory=dict)
    shared_options: Mapping[str, Any] = field(default_factory=dict)
    tracer: Any = None
    trace_parent: Any = None
    permissions: Any = None
    depth: int = 0
    chain: tuple[str, ...] = ()
    max_delegate_depth: int = 8
    max_concurrent_work_items: int = 1
    max_message_bytes: int = 1024 * 1024
    budget: Budget = field(default_factory=Budget)
    purse: Purse | None = None
    alerts: Alerts = field(default_factory=Alerts)

    @property
    def trace_data(self) -> dict[str, Any]:
        """What the trace says of the team when it starts."""
        return {
            "team": self.source["name"],
            "max_delegate_depth": self.max_delegate_depth,
            "max_concurrent_work_items": self.max_concurrent_work_items,
        }

    def source_of(self, name: str, mailbox_id: str) -> dict[str, Any]:
        """Return how events name whoever works at a mailbox; ``name`` is the tool that leads to it."""
        member = self.directory.at(mailbox_id)
        if member is not None:
            return member_source(self.directory.team, member)
        source = {"kind": "team_member", "name": name, "member": name, "mailbox": mailbox_id}
        return source if "team" not in self.source else {**source, "team": self.source["team"]}

    def caller_of(self, mailbox_id: str) -> dict[str, Any]:
        """Return how events name whoever sent something from a mailbox."""
        return self.source if mailbox_id == self.source["mailbox"] else self.source_of(mailbox_id, mailbox_id)

    def tools_for(self, mailbox_id: str, agent: Any) -> Sequence[ToolDefinition]:
        """Return the tools that the team adds to an agent; a host's own agent gets none."""
        return self.tools_of(mailbox_id) if isinstance(agent, Agent) or is_agent_spec(agent) else ()
