"""``lattice demo``: the bundled code review team at work on a folder, from start to report."""

import asyncio
import importlib.util
import os
import sys
import tempfile
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from lattice.client import LatticeClient
from lattice.errors import OptionError
from workers.children import Children, LinePrinter
from workers.connections import check_redis
from workers.local_team import log_format_for, redis_url_for, start_team, team_processes
from workers.options import LOGGING, with_settings
from workers.process import EXIT_FAILED, EXIT_OK, StopRequest, run
from workers.progress import describe
from workers.settings import Settings

__all__ = ["demo"]

TEAM = "code-review"
MEMBERS = ("surveyor", "risk_reviewer", "test_auditor")
DRAIN = 1.0
"""Seconds that work may go on after Ctrl-C."""

NO_KEY = "No ANTHROPIC_API_KEY: a scripted model plays the agents; what it reports it read with the real tools."


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundled:
    """Where the bundled team is, and what its processes need in their environment."""

    app: str
    env: Mapping[str, str]


@click.command()
@click.argument("path", default=".", type=click.Path(path_type=Path))
@click.option("--base-url", metavar="URL", help="An API that speaks the Anthropic Messages protocol.")
@click.option("--model", metavar="NAME", help="The model to use there.")
@with_settings("redis_url", *LOGGING)
def demo(settings: Settings, *, path: Path, base_url: str | None, model: str | None) -> int:
    """Watch a bundled team review the code in PATH (default: the current folder).

    A lead hands off to three members; each is a process of its own that reads the folder with the file tools. The
    lead's report is printed, and nothing is left running. Without ANTHROPIC_API_KEY the agents are scripted.
    """
    folder = _existing_folder(path)
    env = {"LATTICE_DEMO_PATH": str(folder), "LATTICE_DEMO_BASE_URL": base_url or "", "LATTICE_DEMO_MODEL": model or ""}
    if not (base_url or model or os.environ.get("ANTHROPIC_API_KEY")):
        click.echo(NO_KEY)
    return run(partial(_demo, settings, folder, _find_bundled(env)))


def _existing_folder(path: Path) -> Path:
    if not path.is_dir():
        raise OptionError(f"{path} is no folder; name one whose code is to be reviewed")
    return path.resolve()


def _find_bundled(env: Mapping[str, str]) -> Bundled:
    """Find the team in an installed wheel, else in the checkout that this file belongs to."""
    if importlib.util.find_spec("workers.code_review") is not None:
        return Bundled(app="workers.code_review.team:team", env=env)
    examples = Path(__file__).resolve().parent.parent / "examples"
    if not (examples / "code_review" / "team.py").is_file():
        raise OptionError("the bundled team is missing from this installation; install agent-lattice again")
    search = os.pathsep.join(part for part in (str(examples), os.environ.get("PYTHONPATH")) if part)
    return Bundled(app="code_review.team:team", env={**env, "PYTHONPATH": search})


async def _demo(settings: Settings, folder: Path, bundled: Bundled, stop: StopRequest) -> int:
    with tempfile.TemporaryDirectory(prefix="lattice-demo-", ignore_cleanup_errors=True) as data:
        async with redis_url_for(settings, Path(data)) as url:
            await check_redis(url)
            await _refuse_company(url)
            settings = _for_children(settings, bundled.app, url)
            # Not in the user's folder: its modules and its pyproject.toml are not the demo's.
            wanted = team_processes(MEMBERS, settings, env=bundled.env, cwd=Path(data))
            async with start_team(wanted, settings, sys.stderr) as (children, say):
                return await _unless_stopped(_review(url, folder, say), stop, children)


async def _refuse_company(url: str) -> None:
    """Two demos on one server would work each other's tasks, each in its own folder."""
    async with LatticeClient(team=TEAM, redis_url=url) as client:
        others = await client.processes()
    if others:
        raise OptionError(
            f"{len(others)} processes of a demo are at work on this Redis already; wait for their end, or leave out "
            "--redis-url and LATTICE_REDIS_URL to have a Redis of its own"
        )


def _for_children(settings: Settings, app: str, url: str) -> Settings:
    """Only what goes wrong is logged, unless more was asked for; an interrupted demo does not wait for a model."""
    level = "warning" if settings.log_level == Settings().log_level else settings.log_level
    shown = log_format_for(settings, sys.stderr)
    return replace(settings, app=app, redis_url=url, log_level=level, log_format=shown, drain_timeout=DRAIN)


async def _review(url: str, folder: Path, say: LinePrinter) -> int:
    async with LatticeClient(team=TEAM, redis_url=url) as client:
        run_id = await client.submit(f"Review the code in {folder}")
        say("lattice", f"run {run_id}: review of {folder}")
        async for _offset, event in client.events(run_id):
            for name, line in describe(event):
                say(name, line)
        outcome = await client.result(run_id)
    if outcome["status"] == "succeeded":
        click.echo(f"\n{outcome['result']}")
        return EXIT_OK
    click.echo(f"run {run_id}: {outcome['status']}: {(outcome['error'] or {}).get('message')}", err=True)
    return EXIT_FAILED


async def _unless_stopped(work: Coroutine[Any, Any, int], stop: StopRequest, children: Children) -> int:
    """Await ``work``; a signal, or a process that cannot start, ends it."""
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    failing = asyncio.create_task(children.failed.wait())
    try:
        await asyncio.wait((working, stopping, failing), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        return 128 + stop.signal if stop.signal is not None else children.exit_code or EXIT_FAILED
    finally:
        for task in (working, stopping, failing):
            task.cancel()
