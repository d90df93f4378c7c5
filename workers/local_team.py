"""A whole team on this machine: Redis if none is configured, a coordinator, one worker for each member."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from lattice.errors import OptionError
from lattice.team.definition import TeamMemberDefinition
from lattice.team.team import Team
from workers.children import Child, Children, LinePrinter, command_line
from workers.embedded_redis import embedded_redis
from workers.settings import Settings

__all__ = ["find_member", "log_format_for", "member_names", "redis_url_for", "start_team", "team_processes"]

COORDINATOR = "coordinator"
GRACE = 5.0
"""Seconds beyond the drain timeout before what has not ended is killed."""


@asynccontextmanager
async def redis_url_for(settings: Settings, folder: Path) -> AsyncIterator[str]:
    """Give the configured URL, or that of an embedded server with its data in ``folder``.

    Raises:
        OptionError: nothing is configured and no server can be started.
    """
    if settings.redis_url is not None:
        yield settings.redis_url
        return
    async with embedded_redis(folder) as server:
        yield server.url


def log_format_for(settings: Settings, output: TextIO) -> str | None:
    """Return the log format of processes that write into a pipe, for whoever looks at ``output``."""
    return settings.log_format or ("console" if output.isatty() else None)


def team_processes(
    members: tuple[str, ...], settings: Settings, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> list[Child]:
    """Return what runs for a team; every process is told the same settings."""
    # One port cannot be served by several processes, and each one's member is told on its command line.
    same = replace(settings, member=None, burst=False, health_port=None, metrics_port=None)
    told = {**same.to_environment(), **(env or {})}
    coordinator = command_line("lattice-coordinator", "workers.coordinator")
    worker = command_line("lattice-worker", "workers.member")
    return [
        Child(name=COORDINATOR, argv=coordinator, env=told, cwd=cwd),
        *(Child(name=name, argv=(*worker, "--member", name), env=told, cwd=cwd) for name in members),
    ]


@asynccontextmanager
async def start_team(
    wanted: list[Child], settings: Settings, output: TextIO
) -> AsyncIterator[tuple[Children, LinePrinter]]:
    """Run the processes of a team until the block ends, then drain them; an interrupted block kills them.

    What they say goes to ``output``, each line with the name of its process.
    """
    say = LinePrinter(["lattice", *(child.name for child in wanted)], output)
    children = Children(say)
    try:
        for child in wanted:
            children.start(child)
        yield children, say
        if not await children.stop(within=settings.drain_timeout + GRACE):
            say("lattice", "some processes did not drain in time and were killed")
    except BaseException:
        children.kill()
        await children.stop(within=GRACE)
        raise


def member_names(team: Team) -> tuple[str, ...]:
    """Return the names of the mailboxes that workers drain."""
    return tuple(member.key for member in team.members)


def find_member(team: Team, name: str | None) -> TeamMemberDefinition:
    """Return a member by its name.

    Raises:
        OptionError: the team has no such member; lists those that it has.
    """
    for member in team.members:
        if name in (member.key, member.name):
            return member
    asked = "no member was named; give --member" if name is None else f"there is no member {name!r}"
    raise OptionError(f"{asked}; the members of team {team.key!r} are {', '.join(member_names(team)) or 'none'}")
