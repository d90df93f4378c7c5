"""``lattice inbox``: what is in a member's mailbox."""

from functools import partial

import click

from lattice.errors import OptionError
from lattice.mailbox import LEAD_MAILBOX, MessageStatus
from lattice.team.nested import teams_by_key_space
from lattice.team.team import Team
from workers.apps import load_app
from workers.connections import client_of
from workers.local_team import find_member
from workers.options import LOGGING, TEAM, with_settings
from workers.process import EXIT_OK, run_once
from workers.runs import as_json
from workers.settings import Settings
from workers.tables import age, one_line, print_json, print_table

__all__ = ["inbox"]


@click.command()
@click.argument("member")
@click.option(
    "--status",
    type=click.Choice([*map(str, MessageStatus), "all"]),
    default="all",
    show_default=True,
    help="Only messages in this state.",
)
@click.option("--team", metavar="TEAM", help="A team inside the team, as `lattice dead list` names it.")
@as_json
@with_settings(*TEAM, *LOGGING)
def inbox(settings: Settings, *, member: str, status: str, team: str | None, as_json: bool) -> int:
    """List the messages of a member's mailbox, the oldest first."""
    return run_once(partial(_inbox, settings, member, status, team, as_json=as_json))


async def _inbox(settings: Settings, member: str, status: str, name: str | None, *, as_json: bool) -> int:
    space, team = _find_team(load_app(settings.app).team, name)
    key = LEAD_MAILBOX if member == LEAD_MAILBOX else find_member(team, member).key
    async with client_of(settings, space) as client:
        messages = await client.inbox(key, status)
    if as_json:
        print_json([message.to_dict() for message in messages])
        return EXIT_OK
    print_table(
        ("MESSAGE", "STATUS", "AGE", "FROM", "ROLE", "CONTENT"),
        (
            (one.id, one.status, age(one.created_at), one.from_, one.work_item_role, one_line(one.content))
            for one in messages
        ),
        empty=f"no {'' if status == 'all' else status + ' '}messages for {member}",
    )
    return EXIT_OK


def _find_team(outermost: Team, name: str | None) -> tuple[str, Team]:
    """Return the key space of a team, and the team; the outermost one if none is named.

    Raises:
        OptionError: neither the team nor a team inside it has that name; lists those that there are.
    """
    teams = teams_by_key_space(outermost)
    space = outermost.key if name is None else name
    if space not in teams:
        raise OptionError(f"there is no team {name!r}; --team takes one of {', '.join(teams)}")
    return space, teams[space]
