"""Running a team, or any agent with delegate tools, in this process."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, TypeAlias, TypedDict

from lattice.abort import AbortSignal
from lattice.errors import LatticeError, OptionError
from lattice.events import AgentLikeEvent, SDKResultMessage
from lattice.mailbox import LEAD_MAILBOX, TeamMailbox
from lattice.memory.mailbox import create_memory_mailbox
from lattice.runs import Budget
from lattice.team.alerts import Alerts
from lattice.team.answers import event_type
from lattice.team.definition import Directory
from lattice.team.local_run import LocalRun
from lattice.team.plan import RunPlan
from lattice.team.team_options import read_depth, read_limit
from lattice.workspace.grants import normalise_grants

__all__ = ["TeamRunner", "TeamRunnerConfig", "TeamRunnerMessage", "create_team_runner"]

TeamRunnerMessage: TypeAlias = AgentLikeEvent
"""What a runner's ``query()`` yields."""

_LEAD_OPTIONS = ("stream", "output_format", "thinking_config", "reasoning_effort", "request_timeout_ms", "context")
_SHARED_OPTIONS = ("stream", "request_timeout_ms", "context")
_OWN_OPTIONS = ("signal", "tracer", "permissions", "runtime", "agent_runtime", "trace_parent")

_GRACE = 5.0
"""Seconds that a run has to end after its listener went away, before it is cut off."""


class TeamRunnerConfig(TypedDict, total=False):
    """What ``create_team_runner()`` takes: ``team`` or ``root``, and the limits of the run."""

    team: Any
    root: Any
    mailbox: TeamMailbox | None
    source: dict[str, Any] | None
    max_concurrent_work_items: int | None
    max_delegate_depth: int | None


def create_team_runner(config: Mapping[str, Any] | None = None, /, **keywords: Any) -> "TeamRunner":
    """Make a runner of a team, or of any agent whose tools delegate.

    Args:
        config: the same as ``keywords``, as a dict.
        keywords: see ``TeamRunnerConfig``; ``root`` wins over the team's lead, ``mailbox`` over the team's.

    Raises:
        OptionError: neither ``team`` nor ``root`` is given, or an option is unknown or cannot be used.
    """
    given: dict[str, Any] = {**(config or {}), **keywords}
    for key in given:
        if key not in TeamRunnerConfig.__annotations__:
            raise OptionError(f'TeamRunnerOptions: unknown option "{key}"')
    team, root = given.get("team"), given.get("root")
    if root is None and team is not None:
        root = team.lead
    if root is None:
        raise OptionError("createTeamRunner requires either team or root")
    name = team.name if team is not None else "root"
    return TeamRunner(
        root=root,
        mailbox=given.get("mailbox") or (create_memory_mailbox() if team is None else team.mailbox),
        source=given.get("source") or {"kind": "root", "name": name, "mailbox": LEAD_MAILBOX},
        team=team,
        max_concurrent_work_items=read_limit(given.get("max_concurrent_work_items")),
        max_delegate_depth=read_depth(given.get("max_delegate_depth")),
    )


class TeamRunner:
    """Runs ``root`` with a mailbox in this process; made by ``create_team_runner`` or by a team."""

    def __init__(
        self,
        *,
        root: Any,
        mailbox: TeamMailbox,
        source: dict[str, Any],
        team: Any = None,
        max_concurrent_work_items: int | None = None,
        max_delegate_depth: int | None = None,
    ) -> None:
        self.root = root
        self.mailbox = mailbox
        self._source = source
        self._team = team
        own_limit = None if team is None else team.max_concurrent_work_items
        own_depth = None if team is None else team.max_delegate_depth
        self._limit = max_concurrent_work_items or own_limit or 1
        self._depth = read_depth(own_depth) if max_delegate_depth is None else max_delegate_depth
        self._runs: list[LocalRun] = []

    def query(
        self, prompt: Any, options: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> AsyncGenerator[Any, None]:
        """Ask the root; yields its events and those of the team, the root's final result last.

        Giving up the iteration stops the run. Besides the options of ``Agent.query()``: none.

        Raises:
            OptionError: an option is unknown.
            AbortError: the signal fired (raised by the iteration).
        """
        plan, signal = self._plan({**(options or {}), **keywords})
        return self._stream(LocalRun(plan, prompt, signal))

    async def prompt(
        self, prompt: Any, options: Mapping[str, Any] | None = None, /, **keywords: Any
    ) -> SDKResultMessage:
        """Ask the root and return its final result.

        Raises:
            AbortError: the signal fired.
        """
        result = None
        async for event in self.query(prompt, options, **keywords):
            if event_type(event) == "result":
                result = event
        if result is None:
            raise LatticeError("Team runner query completed without a result message")
        return result  # type: ignore[no-any-return]

    def interrupt(self) -> bool:
        """Make no further call of the root: its result is ``interrupted``. False if nothing runs."""
        stopped = [run.interrupt() for run in self._runs]
        return any(stopped)

    async def _stream(self, run: LocalRun) -> AsyncGenerator[Any, None]:
        self._runs.append(run)
        task = asyncio.get_running_loop().create_task(run.main())
        try:
            while (event := await run.events.next()) is not None:
                yield event
            await task
        finally:
            await _ended(run, task)
            self._runs.remove(run)

    def _plan(self, options: dict[str, Any]) -> tuple[RunPlan, AbortSignal | None]:
        known = {*_LEAD_OPTIONS, *_OWN_OPTIONS}
        for key in options:
            if key not in known:
                raise OptionError(f'QueryOptions: unknown option "{key}"; known are {", ".join(sorted(known))}')
        given = {key: value for key, value in options.items() if value is not None}
        runtime = given.get("runtime", given.get("agent_runtime"))
        actor = getattr(runtime, "actor", None)
        depth = 0 if actor is None else actor.depth
        limit = self._depth + depth
        team = self._team
        plan = RunPlan(
            lead=self.root,
            directory=Directory(str(self._source["name"]), ()) if team is None else team.directory,
            mailbox=self.mailbox,
            source=self._source,
            lead_tools=() if team is None else tuple(team.tools),
            tools_of=_no_tools if team is None else team.tools_at,
            lead_options={key: given[key] for key in _LEAD_OPTIONS if key in given},
            shared_options={key: given[key] for key in _SHARED_OPTIONS if key in given},
            tracer=given.get("tracer", getattr(team, "tracer", None)),
            trace_parent=given.get("trace_parent"),
            permissions=_permissions(given, runtime),
            depth=depth,
            chain=() if actor is None else (*actor.chain, actor.conversation),
            max_delegate_depth=limit if actor is None else min(limit, actor.max_depth),
            max_concurrent_work_items=self._limit,
            budget=Budget() if team is None else team.budget,
            purse=None if actor is None or actor.meter is None else actor.meter.purse,
            alerts=Alerts() if team is None else team.alerts,
            max_message_bytes=int(getattr(self.mailbox, "max_message_bytes", 1024 * 1024)),
        )
        return plan, given.get("signal")


def _no_tools(_mailbox_id: str) -> tuple[()]:
    return ()


def _permissions(options: Mapping[str, Any], runtime: Any) -> Any:
    permissions = options.get("permissions") if runtime is None else getattr(runtime, "permissions", None)
    if permissions is None:
        return None
    grants = (
        permissions.get("workspace_grants", permissions.get("workspaceGrants"))
        if isinstance(permissions, Mapping)
        else getattr(permissions, "workspace_grants", None)
    )
    return {"workspace_grants": [grant.to_dict() for grant in normalise_grants(grants)]}


async def _ended(run: LocalRun, task: "asyncio.Task[None]") -> None:
    """Stop a run that nobody listens to any more."""
    if not task.done():
        run.controller.abort()
        run.events.end()
        _, pending = await asyncio.wait([task], timeout=_GRACE)
        for late in pending:
            late.cancel()
        await asyncio.gather(task, return_exceptions=True)
    elif not task.cancelled():
        task.exception()
