"""``lattice inbox``: what is in a member's mailbox."""

from functools import partial

import click

from lattice.mailbox import LEAD_MAILBOX, MessageStatus
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
@as_json
@with_settings(*TEAM, *LOGGING)
def inbox(settings: Settings, *, member: str, status: str, as_json: bool) -> int:
    """List the messages of a member's mailbox, the oldest first."""
    return run_once(partial(_inbox, settings, member, status, as_json=as_json))


async def _inbox(settings: Settings, member: str, status: str, *, as_json: bool) -> int:
    team = load_app(settings.app).team
    key = LEAD_MAILBOX if member == LEAD_MAILBOX else find_member(team, member).key
    async with client_of(settings, team.name) as client:
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
