"""``lattice-submit``: give a team a task, and wait for its result or watch it being worked on."""

import asyncio
import contextlib
import sys
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import click

from lattice.client import LatticeClient
from lattice.encoding import compact_json
from lattice.errors import AppError, OptionError
from lattice.team.names import clean_name
from workers.apps import load_app
from workers.connections import client_of
from workers.follow import follow_view
from workers.logs import configure_logs
from workers.options import LOGGING, TEAM, with_settings
from workers.process import EXIT_FAILED, EXIT_OK, StopRequest, main_of, run
from workers.settings import Settings, parse_duration
from workers.telemetry import submitting

__all__ = ["main", "submit"]

EXIT_CANCELLED = 3
_FIRST_LOOK, _NEXT_LOOK = 1.5, 5.0
"""Seconds after which a waiting submitter looks whether anybody is alive to do the work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line asked for beside the settings."""

    task: str | None
    run_id: str | None
    wait: bool
    follow: bool
    as_json: bool
    options: dict[str, Any]


@click.command("lattice-submit", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("task", required=False)
@click.option("--team", "team_name", metavar="NAME", help="The team's name; without it the app is asked.")
@click.option("--wait", is_flag=True, help="Wait, and print the result instead of the run id.")
@click.option("--follow", is_flag=True, help="Show the run live on stderr, and print the result.")
@click.option("--run", "run_id", metavar="RUN", help="Wait for, or follow, a run that was submitted before.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--id", "key", metavar="KEY", help="Submit only once: the same key gives the same run.")
@click.option("--at", metavar="TIME", help="When it becomes due: 2030-01-31T08:00, local time unless it says more.")
@click.option("--in", "in_", metavar="TIME", help="In how long it becomes due: 90s, 5m, 2h, 7d.")
@click.option(
    "--retry", type=click.IntRange(0, 1000), default=0, metavar="N", help="How often a failed run is retried."
)
@click.option("--retry-interval", metavar="TIME", help="How long to wait before each retry.")
@click.option("--webhook", "webhooks", multiple=True, metavar="URL", help="Gets a POST at the end; may be repeated.")
@click.option("--after", "depends_on", multiple=True, metavar="RUN", help="Starts when that run has succeeded.")
@click.option("--max-seconds", metavar="TIME", help="How long it may take from its start: 90s, 5m, 2h; then it fails.")
@click.option("--max-model-calls", type=click.IntRange(1), metavar="N", help="How many model calls it may make.")
@click.option("--max-tokens", type=click.IntRange(1), metavar="N", help="How many tokens it may use, cached ones too.")
@with_settings(*TEAM, *LOGGING)
def submit(
    settings: Settings,
    *,
    task: str | None,
    team_name: str | None,
    wait: bool,
    follow: bool,
    run_id: str | None,
    as_json: bool,
    key: str | None,
    at: str | None,
    in_: str | None,
    retry: int,
    retry_interval: str | None,
    webhooks: tuple[str, ...],
    depends_on: tuple[str, ...],
    max_seconds: str | None,
    max_model_calls: int | None,
    max_tokens: int | None,
) -> int:
    """Submit TASK to the team and print the id of its run; - reads the task from stdin.

    Exit codes: 0 the run succeeded (or was submitted), 1 it failed, 2 wrong usage, 3 it was cancelled, 130 Ctrl-C,
    which detaches and leaves the run alone.
    """
    options = {
        "id": key,
        "at": _time(at),
        "in_": None if in_ is None else parse_duration(in_),
        "retry": retry,
        "retry_interval": 0.0 if retry_interval is None else parse_duration(retry_interval),
        "webhooks": webhooks,
        "depends_on": depends_on,
        "max_seconds": None if max_seconds is None else parse_duration(max_seconds),
        "max_model_calls": max_model_calls,
        "max_tokens": max_tokens,
    }
    request = Request(
        task=_read_task(task, run_id), run_id=run_id, wait=wait, follow=follow, as_json=as_json, options=options
    )
    configure_logs(settings)
    return run(partial(_main, settings, _team_of(settings, team_name), request))


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            f"--at {text!r} is no time; write for instance 2030-01-31T08:00 or 2030-01-31T08:00Z"
        ) from None


def _read_task(task: str | None, run_id: str | None) -> str | None:
    if run_id is not None:
        if task is not None:
            raise OptionError("--run names a run that was submitted before; it takes no task")
        return None
    if task is None:
        raise OptionError('what is the task? lattice-submit "do this", or - to read it from stdin')
    if task == "-":
        task = sys.stdin.buffer.read().decode("utf-8", "replace")
    if not task.strip():
        raise OptionError("the task is empty; say what the team is to do")
    return task


def _team_of(settings: Settings, team_name: str | None) -> str:
    if team_name is not None:
        return clean_name("Team", team_name)
    try:
        return load_app(settings.app).team.name
    except AppError as error:
        raise AppError(f"{error.message}\nOr name the team with --team.") from error


async def _main(settings: Settings, team: str, request: Request, stop: StopRequest) -> int:
    async with client_of(settings, team) as client:
        if request.run_id is None:
            async with submitting(settings, team) as traceparent:
                run_id = await client.submit(request.task, traceparent=traceparent, **request.options)
        else:
            run_id = (await client.run(request.run_id)).id
        if not (request.wait or request.follow or request.run_id):
            click.echo(compact_json({"run_id": run_id}) if request.as_json else run_id)
            return EXIT_OK
        _say(f"run {run_id}")
        return await _unless_interrupted(_see_to_end(client, run_id, request), stop, team, run_id)


async def _unless_interrupted(work: Coroutine[Any, Any, int], stop: StopRequest, team: str, run_id: str) -> int:
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        _say(
            f"detached; run {run_id} goes on. Follow it again:\n  lattice-submit --team {team} --run {run_id} --follow"
        )
        return 128 + (stop.signal or 2)
    finally:
        working.cancel()
        stopping.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)


async def _see_to_end(client: LatticeClient, run_id: str, request: Request) -> int:
    watching = asyncio.create_task(_watch_for_workers(client, run_id))
    try:
        if request.follow:
            with follow_view() as view:
                async for _offset, event in client.events(run_id):
                    view.show(event)
        outcome = await client.result(run_id)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    return _print_outcome(outcome, as_json=request.as_json)


async def _watch_for_workers(client: LatticeClient, run_id: str) -> None:
    """Say on stderr what the run waits for, whenever that changes: it waits, it does not fail."""
    known: list[str] = []
    await asyncio.sleep(_FIRST_LOOK)
    while True:
        missing = await client.unattended(run_id)
        for name in (name for name in missing if name not in known):
            who = "no coordinator" if name == "coordinator" else f"no worker for member {name!r}"
            _say(f"{who} is alive; the run waits for one")
        known = missing
        await asyncio.sleep(_NEXT_LOOK)


def _print_outcome(outcome: dict[str, Any], *, as_json: bool) -> int:
    status, result = outcome["status"], outcome["result"]
    if as_json:
        click.echo(compact_json(outcome))
    elif status == "succeeded" and result is not None:
        click.echo(result if isinstance(result, str) else compact_json(result))
    if status == "succeeded":
        return EXIT_OK
    error = outcome["error"] or {}
    why = ": ".join(str(error[part]) for part in ("code", "message") if error.get(part))
    _say(f"run {outcome['run_id']} {'was cancelled' if status == 'cancelled' else 'failed'}{': ' if why else ''}{why}")
    return EXIT_CANCELLED if status == "cancelled" else EXIT_FAILED


def _say(text: str) -> None:
    with contextlib.suppress(BrokenPipeError):
        click.echo(text, err=True)


main = main_of(submit)
