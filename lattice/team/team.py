"""A team: a lead, its members and their mailboxes, callable like an agent."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Any, TypedDict

from lattice.agent.spec import is_agent_spec
from lattice.errors import OptionError
from lattice.events import AgentLikeEvent, SDKResultMessage
from lattice.mailbox import LEAD_MAILBOX, TeamMailbox, TeamMessage
from lattice.memory.mailbox import create_memory_mailbox
from lattice.run_store import RunStore
from lattice.runs import Budget
from lattice.team.actor import lead_source
from lattice.team.agent_tool import agent_tool
from lattice.team.alerts import Alerts, LocalMail
from lattice.team.assembly import check_added_tools
from lattice.team.definition import Directory, TeamMemberDefinition
from lattice.team.drain import Drain, TeamDrainResult, read_drain_options
from lattice.team.mailbox_tools import mailbox_tools
from lattice.team.names import clean_name
from lattice.team.runner import TeamRunner
from lattice.team.store_mail import StoreMail
from lattice.team.team_options import read_depth, read_limit, read_runner_options
from lattice.tools.tool import ToolDefinition
from lattice.tracer import ContextTracer, trace_method

__all__ = ["Team", "TeamDrainOptions", "TeamDrainResult", "create_team"]


class RunnerOptions(TypedDict, total=False):
    """How a team runs: ``max_concurrent_work_items`` (1 in one process) and ``max_delegate_depth`` (8)."""

    max_concurrent_work_items: int | None
    max_delegate_depth: int | None


class TeamDrainOptions(TypedDict, total=False):
    """Limits of ``Team.drain``: ``max_rounds`` (10) and ``max_messages`` (50)."""

    max_rounds: int
    max_messages: int


def create_team(
    *,
    name: str,
    lead: Any,
    members: Iterable[TeamMemberDefinition] = (),
    mailbox: TeamMailbox | None = None,
    runner: Mapping[str, Any] | None = None,
    expose_lead_mailbox_tools: bool = False,
    tracer: ContextTracer | None = None,
    budget: Mapping[str, Any] | Budget | None = None,
) -> "Team":
    """Make a team; neither the lead nor the members are changed.

    Args:
        name: names the team in mailbox ids, events and keys.
        lead: an ``AgentSpec`` (a fresh session per run) or anything with ``query``.
        members: made by ``team_member()``.
        mailbox: where messages are kept while the team runs in one process; in memory if not given.
        runner: ``max_concurrent_work_items`` and ``max_delegate_depth``.
        expose_lead_mailbox_tools: whether the lead gets the six mailbox tools too.
        tracer: takes the traces of the team's runs, in worker processes too; the query option of that name wins.
        budget: what each run may use, with all that works for it: ``max_seconds``, ``max_model_calls``, ``max_tokens``
            (input, cache and output). Limits that a run was submitted with win; inside another team the outer run pays.

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
        tracer=tracer,
        budget=budget,
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
        tracer: ContextTracer | None,
        budget: Mapping[str, Any] | Budget | None,
    ) -> None:
        self.key = clean_name("Team", name)
        self.name = self.key
        if not is_agent_spec(lead) and not callable(getattr(lead, "query", None)):
            raise OptionError(f"team {name!r}: lead must be an AgentSpec or have query(), not {lead!r}")
        if tracer is not None and trace_method(tracer, "on_event") is None:
            raise OptionError(f"team {name!r}: tracer must have a method on_event(event), which {tracer!r} has not")
        self.lead = lead
        self.tracer = tracer
        self.directory = Directory(self.key, members)
        self.members = tuple(self.directory)
        self.mailbox: TeamMailbox = create_memory_mailbox() if mailbox is None else mailbox
        self.runner_options = read_runner_options(runner)
        self.max_delegate_depth = read_depth(self.runner_options.get("max_delegate_depth"))
        self.max_concurrent_work_items = read_limit(self.runner_options.get("max_concurrent_work_items"))
        self.budget = Budget.read(budget)
        self._lead_has_mail = expose_lead_mailbox_tools
        self.alerts = Alerts()
        self._mail = LocalMail(self.mailbox, self.alerts)
        self._member_tools = [_member_tool(member) for member in self.members]
        self.tools = [*self._member_tools, *self._lead_mail_tools(self._mail)]
        self.member_tools = {member.key: self._tools_for(member, self._mail) for member in self.members}
        check_added_tools(f"the lead of team {name!r}", lead, self.tools)
        for member in self.members:
            who = f"the member {member.key!r} of team {name!r}"
            check_added_tools(who, member.agent, self.member_tools[member.key])
        self._runner = TeamRunner(root=lead, mailbox=self.mailbox, source=lead_source(self.key), team=self)

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

    def store_tools(self, store: RunStore, member: TeamMemberDefinition) -> list[ToolDefinition]:
        """Return what a member gets in a process that works over ``store``; a mere delegate gets nothing."""
        if self.directory.at(str(member.mailbox_id)) is None:
            return []
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

    async def drain(self, options: Mapping[str, Any] | None = None, /, **keywords: Any) -> TeamDrainResult:
        """Claim what waits in each member's own mailbox and prompt that member with it, one after another.

        Args:
            options: the same as ``keywords``, as a dict.
            keywords: ``max_rounds`` (10; one message per member each), ``max_messages`` (50) and ``signal``.

        Raises:
            OptionError: an option is unknown or cannot be used.
            AbortError: the signal fired.
        """
        limits = read_drain_options({**(options or {}), **keywords})
        return await Drain(self.directory, self.mailbox, self.member_tools, self.alerts).run(*limits)

    # --- running in this process --------------------------------------------------------------------------------

    def query(
        self, prompt: Any, options: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> AsyncGenerator[AgentLikeEvent, None]:
        """Ask the lead; yields its events and those of the team, the lead's final result last.

        Takes the options of ``Agent.query()``. Giving up the iteration stops the run.

        Raises:
            OptionError: an option is unknown.
            AbortError: the signal fired (raised by the iteration).
        """
        return self._runner.query(prompt, options, **keywords)

    async def prompt(
        self, prompt: Any, options: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> SDKResultMessage:
        """Ask the lead and return its final result.

        Raises:
            OptionError: an option is unknown.
            AbortError: the signal fired.
        """
        return await self._runner.prompt(prompt, options, **keywords)

    def interrupt(self) -> bool:
        """Make no further call of the lead, whoever is at work: the result is ``interrupted``; False if idle."""
        return self._runner.interrupt()

    def tools_at(self, mailbox_id: str) -> list[ToolDefinition]:
        """Return what the team adds to the tools of whoever works at a mailbox."""
        member = self.directory.at(mailbox_id)
        return [] if member is None else self.member_tools[member.key]


def _member_tool(member: TeamMemberDefinition) -> ToolDefinition:
    lines = [f"Delegate work to the team member {member.name}.", f"Role: {member.role}."]
    if member.focus:
        lines.append(f"Focus: {member.focus}")
    lines += [
        "Pass a clear task.",
        "Ask for deliverables in the member's own workspace, reported in natural language with workspace paths.",
        "Include write grants for shared paths that the member has to write to.",
    ]
    return agent_tool(
        member.key,
        member.agent,
        description="\n".join(lines),
        target_mailbox_id=member.mailbox_id,
        ask_timeout_ms=member.ask_timeout_ms,
    )
