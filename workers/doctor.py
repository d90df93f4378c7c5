"""``lattice doctor``: whether Redis, the app and the processes are fit for work, and why a run is not moving."""

from collections.abc import Iterable
from functools import partial
from importlib.metadata import version

import click

from lattice.client import LatticeClient
from lattice.errors import AppError, OptionError
from lattice.redis.checkup import OK, WARNING, WRONG, Finding, examine_server
from lattice.redis.connection import open_redis
from lattice.runs import ProcessInfo
from lattice.team.team import Team
from workers.apps import load_app
from workers.connections import client_of, redis_url_of
from workers.options import LOGGING, TEAM, with_settings
from workers.process import EXIT_FAILED, EXIT_OK, run_once
from workers.runs import as_json
from workers.settings import Settings
from workers.tables import print_json
from workers.why import explain

__all__ = ["check_processes", "doctor"]

_MARKS = {OK: "ok  ", WARNING: "warn", WRONG: "FAIL"}


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@as_json
@with_settings(*TEAM, *LOGGING)
def doctor(settings: Settings, *, run_id: str | None, as_json: bool) -> int:
    """Check Redis, the app and the processes of the team; with RUN, say why that run is not moving.

    Exit codes: 0 nothing is wrong (warnings may stand), 1 something is, 2 wrong usage.
    """
    return run_once(partial(_doctor, settings, run_id, as_json=as_json))


async def _doctor(settings: Settings, run_id: str | None, *, as_json: bool) -> int:
    if run_id is None:
        found = await _check_all(settings)
    else:
        async with client_of(settings, load_app(settings.app).team.name) as client:
            found = explain(await client.standing(run_id))
    healthy = all(finding.status != WRONG for finding in found)
    if as_json:
        about = {} if run_id is None else {"run_id": run_id}
        print_json({**about, "ok": healthy, "findings": [finding.to_dict() for finding in found]})
    else:
        _print(found)
    return EXIT_OK if healthy else EXIT_FAILED


def _print(found: Iterable[Finding]) -> None:
    for finding in found:
        click.echo(f"{_MARKS[finding.status]}  {finding.check}: {finding.says}")
        if finding.do is not None:
            click.echo(f"        try: {finding.do}")


async def _check_all(settings: Settings) -> list[Finding]:
    app, team = _check_app(settings)
    try:
        url = redis_url_of(settings)
    except OptionError as error:
        return [Finding("redis", WRONG, error.message, "lattice up"), app]
    redis = open_redis(url)
    try:
        server = await examine_server(redis, url, team.key if team is not None else "doctor")
    finally:
        await redis.aclose(close_connection_pool=True)
    if team is None or any(finding.status == WRONG for finding in server):
        return [*server, app]
    async with client_of(settings, team.name) as client:
        return [*server, app, *check_processes(team, await client.processes()), *await _check_dead(client)]


def _check_app(settings: Settings) -> tuple[Finding, Team | None]:
    try:
        team = load_app(settings.app).team
    except AppError as error:
        return Finding("app", WRONG, error.message, "name it with --app module:attribute"), None
    members = ", ".join(member.key for member in team.members) or "none"
    return Finding("app", OK, f"team {team.key}, members: {members}"), team


def check_processes(team: Team, alive: Iterable[ProcessInfo]) -> list[Finding]:
    """Say for each role whether somebody is alive, and whether all are of one version."""
    processes = list(alive)
    coordinators = [one for one in processes if one.role == "coordinator"]
    found = [_staff("coordinator", coordinators, "lattice-coordinator")]
    for member in team.members:
        workers = [one for one in processes if one.role == "worker" and one.member == member.key]
        found.append(_staff(f"member {member.key}", workers, f"lattice-worker --member {member.key}"))
    strangers = {str(one.member) for one in processes if one.role == "worker"} - {one.key for one in team.members}
    if strangers:
        says = f"workers are alive for {', '.join(sorted(strangers))}, which this app does not have"
        found.append(Finding("members", WARNING, says, "start all processes with the same app"))
    versions = {one.version for one in processes}
    if len(versions | {version("agent-lattice")}) > 1 and versions:
        says = f"{', '.join(sorted(versions))} are at work, this command is {version('agent-lattice')}"
        found.append(Finding("versions", WARNING, says, "restart the processes that are behind"))
    return found


def _staff(name: str, processes: list[ProcessInfo], start: str) -> Finding:
    if not processes:
        return Finding(name, WRONG, "no process is alive", start)
    busy, places = sum(one.busy for one in processes), sum(one.concurrency for one in processes)
    says = f"{len(processes)} alive, {busy} of {places} places taken"
    if busy >= places:
        return Finding(name, WARNING, f"{says}: more work has to wait", f"{start} (one more)")
    return Finding(name, OK, says)


async def _check_dead(client: LatticeClient) -> list[Finding]:
    letters = await client.dead_letters(client.options.max_dead_letters)
    if not letters:
        return []
    return [Finding("dead letters", WARNING, f"{len(letters)} messages were given up", "lattice dead list")]
