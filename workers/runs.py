"""``lattice runs``, ``show``, ``cancel`` and ``interrupt``: what became of a task."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import click

from lattice.encoding import pretty_json
from lattice.errors import OptionError
from lattice.run_store import RunStore
from lattice.runs import RunRecord, WorkState
from workers.apps import load_app
from workers.connections import client_of, store_of
from workers.options import LOGGING, TEAM, with_settings
from workers.process import EXIT_OK, run_once
from workers.settings import Settings, parse_duration
from workers.tables import age, one_line, print_facts, print_json, print_table

__all__ = ["as_json", "cancel", "interrupt", "resume", "run_object", "runs", "show"]

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many.")
@as_json
@with_settings(*TEAM, *LOGGING)
def runs(settings: Settings, *, limit: int, as_json: bool) -> int:
    """List the newest runs of the team, the newest first."""
    return run_once(partial(_runs, settings, limit, as_json=as_json))


@click.command()
@click.argument("run_id", metavar="RUN")
@as_json
@with_settings(*TEAM, *LOGGING)
def show(settings: Settings, *, run_id: str, as_json: bool) -> int:
    """Show one run: its work items and its result."""
    return run_once(partial(_show, settings, run_id, as_json=as_json))


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--reason", default="cancelled by hand", show_default=True, help="Kept with the run.")
@as_json
@with_settings(*TEAM, *LOGGING)
def cancel(settings: Settings, *, run_id: str, reason: str, as_json: bool) -> int:
    """Cancel a run and everything that works for it."""
    return run_once(partial(_cancel, settings, run_id, reason, as_json=as_json))


@click.command()
@click.argument("run_id", metavar="RUN")
@as_json
@with_settings(*TEAM, *LOGGING)
def interrupt(settings: Settings, *, run_id: str, as_json: bool) -> int:
    """Have a run end without another call of its lead: what is under way is finished, what is queued is cancelled."""
    return run_once(partial(_interrupt, settings, run_id, as_json=as_json))


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--max-seconds", metavar="TIME", help="A new limit of time, counted from its first start: 90s, 5m, 2h.")
@click.option("--max-model-calls", type=click.IntRange(1), metavar="N", help="A new limit of model calls.")
@click.option("--max-tokens", type=click.IntRange(1), metavar="N", help="A new limit of tokens.")
@as_json
@with_settings(*TEAM, *LOGGING)
def resume(
    settings: Settings,
    *,
    run_id: str,
    max_seconds: str | None,
    max_model_calls: int | None,
    max_tokens: int | None,
    as_json: bool,
) -> int:
    """Let a failed run go on from its last recorded step, with a larger budget if that was spent."""
    limits = {
        "max_seconds": None if max_seconds is None else parse_duration(max_seconds),
        "max_model_calls": max_model_calls,
        "max_tokens": max_tokens,
    }
    return run_once(partial(_resume, settings, run_id, limits, as_json=as_json))


async def _resume(settings: Settings, run_id: str, limits: dict[str, Any], *, as_json: bool) -> int:
    async with client_of(settings, load_app(settings.app).team.name) as client:
        await client.resume(run_id, **limits)
        record = await client.run(run_id)
    if as_json:
        print_json(run_object(record))
    else:
        click.echo(f"run {run_id} goes on; follow it: lattice-submit --run {run_id} --follow")
    return EXIT_OK


async def _runs(settings: Settings, limit: int, *, as_json: bool) -> int:
    async with client_of(settings, load_app(settings.app).team.name) as client:
        found = await client.runs(limit)
    if as_json:
        print_json([run_object(record) for record in found])
        return EXIT_OK
    print_table(
        ("RUN", "STATUS", "AGE", "ROUNDS", "TASK"),
        ((one.id, one.status, age(one.created_at), one.round, one_line(task_text(one.task))) for one in found),
        empty="no runs yet; submit one with lattice-submit",
    )
    return EXIT_OK


async def _show(settings: Settings, run_id: str, *, as_json: bool) -> int:
    async with store_of(settings, load_app(settings.app).team.name) as store:
        record = await store.get_run(run_id)
        if record is None:
            raise OptionError(f"there is no run {run_id!r}; lattice runs lists those that are kept")
        items = work_items(await _all_events(store, run_id))
        dropped = await store.lost_events(run_id)
        states = {state.message.id: state for state in await store.work_items(run_id)}
    for item in items:
        item.update(_tries(states.get(item["id"])))
    if as_json:
        print_json({**run_object(record), "work_items": items, "events_dropped": dropped})
        return EXIT_OK
    print_facts({**_facts(record), "dropped": f"{dropped:,} events, the oldest" if dropped else None})
    click.echo()
    print_table(
        ("MEMBER", "STATUS", "ATTEMPTS", "MESSAGE", "TASK"),
        (
            (item["member"], item["status"], item.get("attempts"), item["id"], one_line(item["content"]))
            for item in items
        ),
        empty="no work was delegated",
    )
    answer = record.outcome()["result"]
    if answer:
        click.echo(f"\n{answer if isinstance(answer, str) else pretty_json(answer)}")
    return EXIT_OK


async def _all_events(store: RunStore, run_id: str) -> list[dict[str, Any]]:
    """Return what has happened so far; a store gives long streams in parts."""
    events, after = [], "0"
    while part := await store.read_events(run_id, after):
        after = part[-1][0]
        events += [event for _offset, event in part]
    return events


async def _cancel(settings: Settings, run_id: str, reason: str, *, as_json: bool) -> int:
    async with client_of(settings, load_app(settings.app).team.name) as client:
        word = await client.cancel(run_id, reason)
        return _stopped(word, await client.run(run_id), f"run {run_id} is cancelled", as_json=as_json)


async def _interrupt(settings: Settings, run_id: str, *, as_json: bool) -> int:
    done = f"run {run_id} ends as soon as what is under way has ended"
    async with client_of(settings, load_app(settings.app).team.name) as client:
        word = await client.interrupt(run_id)
        return _stopped(word, await client.run(run_id), done, as_json=as_json)


def _stopped(word: str, record: RunRecord, done: str, *, as_json: bool) -> int:
    """Say what became of the wish to stop a run."""
    if as_json:
        print_json(run_object(record))
    elif word == "ended":
        click.echo(f"run {record.id} had ended before: {record.status}")
    else:
        click.echo(done)
    return EXIT_OK


def run_object(record: RunRecord) -> dict[str, Any]:
    """Return a run as ``--json`` shows it; times are epoch milliseconds."""
    return {
        **record.outcome(),
        "team": record.team,
        "task": record.task,
        "rounds": record.round,
        "owner": record.owner,
        "created_at": record.created_at,
        "started_at": record.started_at,
        "finished_at": record.finished_at,
        "model_calls": record.model_calls,
        "tokens": record.tokens,
        "budget": record.options.get("budget"),
        "interrupted": record.interrupted,
    }


def task_text(task: Any) -> str:
    """Return the text of a task that may be content blocks."""
    if isinstance(task, str):
        return task
    return " ".join(str(block.get("text", block.get("type"))) for block in task if isinstance(block, Mapping))


def work_items(events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages that a run's events tell of, in the order they were sent, each in its last known state."""
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        message = event.get("message")
        if event.get("type") != "team_message" or not isinstance(message, Mapping) or event.get("subtype") == "replied":
            continue
        item = found.setdefault(str(message["id"]), {"member": str(message.get("to", "")).rpartition("::")[2]})
        item.update(message)
        if event.get("error"):
            item["error"] = event["error"]
    return list(found.values())


def _tries(state: WorkState | None) -> dict[str, Any]:
    """Return how often a work item was claimed, and what of it were retries."""
    if state is None:
        return {}
    tries: dict[str, Any] = {"status": str(state.message.status), "attempts": state.attempts, "retries": state.retries}
    if state.retry_reason is not None:
        tries["retry_reason"] = state.retry_reason
    if state.due_at is not None:
        tries["due_at"] = state.due_at
    return tries


def _facts(record: RunRecord) -> dict[str, object]:
    usage = record.outcome()["usage"]
    error = record.error
    return {
        "run": record.id,
        "team": record.team,
        "status": record.status,
        "task": one_line(task_text(record.task)),
        "age": age(record.created_at),
        "took": f"{(record.finished_at - record.created_at) / 1000:.2f}s" if record.finished_at else None,
        "rounds": record.round,
        "owner": record.owner,
        "interrupted": "yes" if record.interrupted else None,
        "usage": ", ".join(f"{name} {count:,}" for name, count in usage.items()) if usage else None,
        "error": f"{error.get('code') or error.get('name')}: {error.get('message')}" if error else None,
    }
