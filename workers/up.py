"""``lattice up``: everything for one team on this machine, supervised, until Ctrl-C."""

import asyncio
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

import click

from workers.apps import LoadedApp, load_app
from workers.children import Children, LinePrinter
from workers.connections import check_redis, client_of
from workers.embedded_redis import DATA_FOLDER
from workers.local_team import log_format_for, member_names, redis_url_for, start_team, team_processes
from workers.logs import hide_passwords
from workers.options import LOGGING, TEAM, with_settings
from workers.process import EXIT_OK, StopRequest, run
from workers.settings import Settings

__all__ = ["up"]


@click.command()
@with_settings(*TEAM, "concurrency", "lease", "max_attempts", "drain_timeout", *LOGGING)
def up(settings: Settings) -> int:
    """Start everything for a team on this machine.

    That is a Redis if none is configured (its data is kept in .lattice), a coordinator, and one worker for each member.
    A process that dies is started again. Ctrl-C lets running work finish and stops everything; a second one stops at
    once.
    """
    app = load_app(settings.app)
    return run(partial(_up, app, settings))


async def _up(app: LoadedApp, settings: Settings, stop: StopRequest) -> int:
    async with redis_url_for(settings, Path.cwd() / DATA_FOLDER) as url:
        await check_redis(url)
        settings = replace(settings, app=app.app, redis_url=url, log_format=log_format_for(settings, sys.stdout))
        members = member_names(app.team)
        async with start_team(team_processes(members, settings), settings, sys.stdout) as (children, say):
            _introduce(say, app.team.name, members, url)
            announcing = asyncio.create_task(_announce(say, app.team.name, children, settings))
            try:
                await _until_stopped(stop, children)
            finally:
                announcing.cancel()
            say("lattice", "stopping; Ctrl-C again stops at once")
        return children.exit_code if children.exit_code is not None else EXIT_OK


def _introduce(say: LinePrinter, team: str, members: tuple[str, ...], url: str) -> None:
    say("lattice", f"team {team}: coordinator and {', '.join(members)}")
    shown = hide_passwords(url)
    say("lattice", f"Redis: {shown}")
    if url.startswith("unix:"):
        say("lattice", f"redis-cli -s '{unquote(urlsplit(url).path)}'")
    # With a password it is left to the variable: nobody is to copy it from here.
    where = f"--redis-url '{url}' " if shown == url else ""
    say("lattice", f'submit with: lattice-submit --team {team} {where}"your task"')


async def _announce(say: LinePrinter, team: str, children: Children, settings: Settings) -> None:
    """Say when every process has reported."""
    async with client_of(settings, team) as client:
        while not children.pids <= {process.pid for process in await client.processes()}:  # noqa: ASYNC110 - they report to Redis
            await asyncio.sleep(0.2)
    say("lattice", "ready")


async def _until_stopped(stop: StopRequest, children: Children) -> None:
    waits = [asyncio.create_task(stop.wait()), asyncio.create_task(children.failed.wait())]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
