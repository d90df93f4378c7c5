"""``lattice dead``: messages that ran out of attempts, and what is to become of them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any

import click

from lattice.client import LatticeClient
from lattice.errors import OptionError
from lattice.runs import DeadLetter
from lattice.team.nested import key_spaces
from workers.apps import load_app
from workers.connections import client_of
from workers.options import LOGGING, TEAM, with_settings
from workers.process import EXIT_OK, run_once
from workers.runs import as_json
from workers.settings import Settings
from workers.tables import age, one_line, print_facts, print_json, print_table

__all__ = ["dead"]


@click.group()
def dead() -> None:
    """Dead letters: messages whose workers were lost until their attempts were used up."""


@dead.command("list")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="How many.")
@as_json
@with_settings(*TEAM, *LOGGING)
def list_(settings: Settings, *, limit: int, as_json: bool) -> int:
    """List the dead letters of the team and of the teams inside it, the newest first."""
    return run_once(partial(_list, settings, limit, as_json=as_json))


@dead.command()
@click.argument("message_id", metavar="MESSAGE")
@as_json
@with_settings(*TEAM, *LOGGING)
def show(settings: Settings, *, message_id: str, as_json: bool) -> int:
    """Show one dead letter: its task, why it died, and how often it was tried."""
    return run_once(partial(_show, settings, message_id, as_json=as_json))


@dead.command()
@click.argument("message_id", metavar="MESSAGE")
@as_json
@with_settings(*TEAM, *LOGGING)
def requeue(settings: Settings, *, message_id: str, as_json: bool) -> int:
    """Send the work of a dead letter to its member again.

    It is a new message that belongs to no run: the run has had its failure report. Its own report goes to the lead's
    mailbox, where `lattice inbox manager` shows it (with `--team TEAM` for a team inside).
    """
    return run_once(partial(_requeue, settings, message_id, as_json=as_json))


@dead.command()
@click.argument("message_id", metavar="MESSAGE")
@as_json
@with_settings(*TEAM, *LOGGING)
def drop(settings: Settings, *, message_id: str, as_json: bool) -> int:
    """Take a message off the dead letters; the message itself stays with its run."""
    return run_once(partial(_drop, settings, message_id, as_json=as_json))


async def _clients(settings: Settings) -> AsyncGenerator[LatticeClient, None]:
    """Yield a client for the team and for each team inside it, one after another, the outermost first."""
    for space in key_spaces(load_app(settings.app).team):
        async with client_of(settings, space) as client:
            yield client


async def _list(settings: Settings, limit: int, *, as_json: bool) -> int:
    letters = []
    async for client in _clients(settings):
        letters += [(client.team, letter) for letter in await client.dead_letters(limit)]
    letters = sorted(letters, key=lambda found: found[1].died_at, reverse=True)[:limit]
    if as_json:
        print_json([_object(team, letter) for team, letter in letters])
        return EXIT_OK
    print_table(
        ("MESSAGE", "TEAM", "MEMBER", "AGE", "ATTEMPTS", "RUN", "REASON"),
        (
            (one.message.id, team, one.member, age(one.died_at), one.attempts, one.message.run_id, one_line(one.reason))
            for team, one in letters
        ),
        empty="no dead letters",
    )
    return EXIT_OK


async def _show(settings: Settings, message_id: str, *, as_json: bool) -> int:
    async with aclosing(_clients(settings)) as clients:
        async for client in clients:
            letter = await client.dead_letter(message_id)
            if letter is not None:
                _print_letter(client.team, letter, as_json=as_json)
                return EXIT_OK
    raise _missing(message_id)


def _print_letter(team: str, letter: DeadLetter, *, as_json: bool) -> None:
    facts = _object(team, letter)
    if as_json:
        print_json(facts)
        return
    content = facts.pop("content")
    print_facts(
        {**facts, "died_at": f"{age(letter.died_at)} ago", "created_at": f"{age(letter.message.created_at)} ago"}
    )
    click.echo(f"\n{content}\n\nTry it again:  lattice dead requeue {letter.message.id}")


async def _requeue(settings: Settings, message_id: str, *, as_json: bool) -> int:
    own = None
    async with aclosing(_clients(settings)) as clients:
        async for client in clients:
            own = client.team if own is None else own
            message = await client.requeue_dead(message_id)
            if message is None:
                continue
            if as_json:
                status = str(message.status)
                print_json({"message_id": message.id, "requeued": message_id, "to": message.to, "status": status})
            else:
                inbox = "lattice inbox manager" + ("" if client.team == own else f" --team {client.team}")
                click.echo(f"{message.id} waits in {message.to}; its report will be in `{inbox}`")
            return EXIT_OK
    raise _missing(message_id)


async def _drop(settings: Settings, message_id: str, *, as_json: bool) -> int:
    async with aclosing(_clients(settings)) as clients:
        async for client in clients:
            if not await client.drop_dead(message_id):
                continue
            if as_json:
                print_json({"dropped": message_id})
            else:
                click.echo(f"{message_id} is no dead letter any more")
            return EXIT_OK
    raise _missing(message_id)


def _object(team: str, letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter as ``--json`` shows it; times are epoch milliseconds, ``team`` is its key space."""
    message = letter.message
    return {
        "message_id": message.id,
        "team": team,
        "member": letter.member,
        "run_id": message.run_id,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "from": message.from_,
        "to": message.to,
        "thread_id": message.thread_id,
        "created_at": message.created_at,
        "died_at": letter.died_at,
        "content": message.content,
    }


def _missing(message_id: str) -> OptionError:
    return OptionError(f"there is no dead letter {message_id!r}; `lattice dead list` shows those that there are")
