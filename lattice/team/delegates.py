"""Agents that are no members but stand behind tools of the team: who serves them when the team is processes.

A lead's or member's own ``agent_tool`` has a mailbox like a member; it is drained by the processes of whoever has the
tool, in a queue of its own.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from lattice.agent.agent import Agent
from lattice.agent.spec import is_agent_spec
from lattice.team.agent_tool import target_of
from lattice.team.definition import Directory, TeamMemberDefinition
from lattice.team.host import Host
from lattice.team.team import Team
from lattice.tools.tool import ToolDefinition

__all__ = ["DelegateWorkers", "delegates_behind", "with_delegates"]


def delegates_behind(agent: Any, directory: Directory) -> list[TeamMemberDefinition]:
    """Return a definition for every agent that the tools of ``agent`` lead to, at any depth, members left out."""
    found: dict[str, TeamMemberDefinition] = {}
    _collect(agent, directory, found)
    return list(found.values())


def with_delegates(directory: Directory, agents: list[Any]) -> Directory:
    """Return a directory that also knows the delegates of ``agents``, without making them recipients of mail."""
    delegates: dict[str, TeamMemberDefinition] = {}
    for agent in agents:
        _collect(agent, directory, delegates)
    return directory.extended(delegates.values())


class Served(Protocol):
    """What works a delegate's mailbox."""

    async def run(self, burst: bool = False) -> None:
        """Work until stopped."""
        ...

    async def stop(self) -> None:
        """Hand back what is under way."""
        ...


class DelegateWorkers:
    """The workers of the delegates that one process serves."""

    def __init__(self, host: Host, team: Team, make: Callable[..., Served], **options: int) -> None:
        """``make(host, team, definition, **options)`` makes the worker of one delegate."""
        self._host, self._team, self._make, self._options = host, team, make, options
        self._workers: list[Served] = []
        self._tasks: list[asyncio.Task[None]] = []

    def serve(self, agent: Any) -> None:
        """Serve the delegates of an agent from ``start`` on."""
        for delegate in delegates_behind(agent, self._team.directory):
            self._workers.append(self._make(self._host, self._team, delegate, **self._options))

    def start(self) -> None:
        """Begin to work, once."""
        if self._tasks:
            return
        self._tasks = [asyncio.get_running_loop().create_task(worker.run()) for worker in self._workers]

    async def stop(self) -> None:
        """Hand back what is under way, and end."""
        await asyncio.gather(*(worker.stop() for worker in self._workers))
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _collect(agent: Any, directory: Directory, found: dict[str, TeamMemberDefinition]) -> None:
    for definition in _agent_tools(agent):
        mailbox_id = getattr(definition.handler, "target_mailbox_id", None) or definition.name
        if directory.at(mailbox_id) is not None or mailbox_id in found:
            continue
        target = target_of(definition)
        found[mailbox_id] = TeamMemberDefinition(
            name=definition.name,
            role="executor",
            agent=target,
            mailbox_id=mailbox_id,
            own_queue=f"delegate.{mailbox_id}",
        )
        _collect(target, directory, found)


def _agent_tools(agent: Any) -> Iterator[ToolDefinition]:
    if is_agent_spec(agent):
        tools = getattr(agent, "options", {}).get("tools") or ()
    elif isinstance(agent, Agent):
        tools = agent.toolset.by_name.values()
    else:
        tools = ()
    return (entry for entry in tools if isinstance(entry, ToolDefinition) and target_of(entry) is not None)
