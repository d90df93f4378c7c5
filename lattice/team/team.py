"""A team: a lead, its members and their mailboxes, callable like an agent."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from lattice.agent.spec import is_agent_spec
from lattice.errors import OptionError
from lattice.events import AgentLikeEvent, SDKResultMessage
from lattice.mailbox import LEAD_MAILBOX, TeamMailbox, TeamMessage
from lattice.memory.adapter import MailboxAdapter
from lattice.memory.mailbox import create_memory_mailbox
from lattice.run_store import RunStore
from lattice.team.agent_tool import agent_tool
from lattice.team.definition import Directory, TeamMemberDefinition
from lattice.team.mailbox_tools import mailbox_tools
from lattice.team.names import clean_name
from lattice.team.store_mail import StoreMail
from lattice.tools.tool import ToolDefinition

__all__ = ["Team", "TeamDrainOptions", "TeamDrainResult", "create_team"]

DEFAULT_DEPTH = 8


class RunnerOptions(TypedDict, total=False):
    """How a team runs: ``max_concurrent_work_items`` (1 in one process) and ``max_delegate_depth`` (8)."""

    max_concurrent_work_items: int | None
    max_delegate_depth: int | None


class TeamDrainOptions(TypedDict, total=False):
    """Limits of ``Team.drain``: ``max_rounds`` (10) and ``max_messages`` (50)."""

    max_rounds: int
    max_messages: int


@dataclass(frozen=True, slots=True)
class TeamDrainResult:
    """What ``Team.drain`` did."""

    processed: int
    failed: int
    rounds: int


def create_team(
    *,
    name: str,
    lead: Any,
    members: Iterable[TeamMemberDefinition] = (),
    mailbox: TeamMailbox | None = None,
    runner: Mapping[str, Any] | None = None,
    expose_lead_mailbox_tools: bool = False,
) -> "Team":
    """Make a team; neither the lead nor the members are changed.

    Args:
        name: names the team in mailbox ids, events and keys.
        lead: an ``AgentSpec`` (a fresh session per run) or anything with ``query``.
        members: made by ``team_member()``.
        mailbox: where messages are kept while the team runs in one process; in memory if not given.
        runner: ``max_concurrent_work_items`` and ``max_delegate_depth``.
        expose_lead_mailbox_tools: whether the lead gets the six mailbox tools too.

    Raises:
        OptionError: a name is blank, taken or not usable, or an option cannot be used.
    """
    return Team(
        name=name,
        lead=lead,
        members=members,
        mailbox=mailbox,
        runner=runner,
        expose_lead_mailbox_tools=expose_lead_mailbox_tools,
    )


class Team:
    """Made by ``create_team``; ``key`` is the name as it stands in keys, ``tools`` are what the lead gets."""

    def __init__(
        self,
        *,
        name: str,
        lead: Any,
        members: Iterable[TeamMemberDefinition],
        mailbox: TeamMailbox | None,
        runner: Mapping[str, Any] | None,
        expose_lead_mailbox_tools: bool,
    ) -> None:
        self.key = clean_name("Team", name)
        self.name = self.key
        if not is_agent_spec(lead) and not callable(getattr(lead, "query", None)):
            raise OptionError(f"team {name!r}: lead must be an AgentSpec or have query(), not {lead!r}")
        self.lead = lead
        self.directory = Directory(self.key, members)
        self.members = tuple(self.directory)
        self.mailbox: TeamMailbox = create_memory_mailbox() if mailbox is None else mailbox
        self.runner_options = dict(runner or {})
        self.max_delegate_depth = _depth(self.runner_options.get("max_delegate_depth"))
        self.max_concurrent_work_items = _limit(self.runner_options.get("max_concurrent_work_items"))
        self._lead_has_mail = expose_lead_mailbox_tools
        self._mail = MailboxAdapter(self.mailbox)
        self._member_tools = [_member_tool(member) for member in self.members]
        self.tools = [*self._member_tools, *self._lead_mail_tools(self._mail)]
        self.member_tools = {member.key: self._tools_for(member, self._mail) for member in self.members}

    def _lead_mail_tools(self, mail: Any) -> list[ToolDefinition]:
        return mailbox_tools(LEAD_MAILBOX, mail, self.directory) if self._lead_has_mail else []

    def _tools_for(self, member: TeamMemberDefinition, mail: Any) -> list[ToolDefinition]:
        if not is_agent_spec(member.agent) and not callable(getattr(member.agent, "add_tools", None)):
            return []
        return mailbox_tools(str(member.mailbox_id), mail, self.directory)

    # --- for processes ------------------------------------------------------------------------------------------

    def lead_tools(self, store: RunStore) -> list[ToolDefinition]:
        """Return what the lead gets in a process that works over ``store``."""
        return [*self._member_tools, *self._lead_mail_tools(StoreMail(store, self.directory))]

    def store_tools(self, store: RunStore, mailbox_id: str) -> list[ToolDefinition]:
        """Return what a member gets in a process that works over ``store``."""
        member = self.directory.at(mailbox_id)
        assert member is not None
        return self._tools_for(member, StoreMail(store, self.directory))

    # --- mail ---------------------------------------------------------------------------------------------------

    async def send(self, from_: str, to: str, content: str, **options: Any) -> TeamMessage:
        """Send a message to a member (by name or mailbox id) or to the lead (``manager``), and return it.

        Raises:
            OptionError: the team has no such recipient, or an option is unknown.
            SizeLimitError: the content is over the limit.
        """
        draft = TeamMessage(id="", from_=from_, to=self.directory.resolve(to), content=content, **options)
        return await self._mail.send(draft)

    # --- running in this process --------------------------------------------------------------------------------

    def query(self, prompt: Any, **options: Any) -> AsyncGenerator[AgentLikeEvent, None]:
        """Ask the lead; yields its events and those of the team, the lead's result last."""
        raise NotImplementedError

    async def prompt(self, prompt: Any, **options: Any) -> SDKResultMessage:
        """Ask the lead and return its final result."""
        raise NotImplementedError


def _member_tool(member: TeamMemberDefinition) -> ToolDefinition:
    lines = [f"Delegate work to the team member {member.name}.", f"Role: {member.role}."]
    if member.focus:
        lines.append(f"Focus: {member.focus}")
    lines += [
        "Pass a clear task.",
        "Ask for deliverables in the member's own workspace, reported in natural language with workspace paths.",
        "Include write grants for shared paths that the member has to write to.",
    ]
    return agent_tool(member.key, member.agent, description="\n".join(lines), target_mailbox_id=member.mailbox_id)


def _depth(value: Any) -> int:
    if value is None:
        return DEFAULT_DEPTH
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise OptionError(f"TeamRunnerOptions.max_delegate_depth must be an integer >= 0, not {value!r}")
    return value


def _limit(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise OptionError(f"TeamRunnerOptions.max_concurrent_work_items must be a positive integer, not {value!r}")
    return value
