"""Urgent mail within one process: who is told, and that a drain beside a run leaves notes to those at work."""

import asyncio
import sqlite3

import pytest

from lattice import create_memory_mailbox, create_sqlite_mailbox, tool
from lattice.mailbox import TeamMessage
from lattice.team.alerts import Alerts
from lattice.testing import tool_use, turn
from tests.teams import handoff, model_of, spec, team_of


class Somebody:
    def __init__(self):
        self.told = []

    def alert(self, note_id):
        self.told.append(note_id)


def note(urgency="interrupt", to="squad::a"):
    metadata = None if urgency is None else {"urgency": urgency}
    return TeamMessage(id="n", from_="manager", to=to, content="stop", metadata=metadata)


def test_whoever_has_worked_longest_is_told_and_nobody_else():
    alerts, first, second = Alerts(), Somebody(), Somebody()
    with alerts.listening("squad::a", first), alerts.listening("squad::a", second):
        alerts.tell(note())
    assert (first.told, second.told) == (["n"], [])


@pytest.mark.parametrize("message", [note("note"), note("steer"), note(None), note(to="squad::b")])
def test_other_mail_can_wait(message):
    alerts, somebody = Alerts(), Somebody()
    with alerts.listening("squad::a", somebody):
        alerts.tell(message)
    assert somebody.told == []


def test_who_has_ended_is_told_nothing():
    alerts, somebody = Alerts(), Somebody()
    with alerts.listening("squad::a", somebody):
        assert alerts.at_work("squad::a")
    alerts.tell(note())
    assert somebody.told == []
    assert not alerts.at_work("squad::a")


def memory(_folder):
    return create_memory_mailbox()


def sqlite(folder):
    return create_sqlite_mailbox(database=sqlite3.connect(folder / "mail.db"))


@pytest.mark.parametrize("make", [memory, sqlite])
async def test_a_drain_beside_a_run_leaves_a_note_to_the_member_at_work(make, tmp_path):
    looking, go_on = asyncio.Event(), asyncio.Event()

    async def look(value):
        looking.set()
        await asyncio.wait_for(go_on.wait(), 5)
        return "seen"

    tools = [tool("look", "Look.", {"type": "object"}, look)]
    member = spec("a", [turn(tool_use("look", {})), "done"], tools=tools)
    team = team_of([handoff("a"), "end"], {"a": member}, mailbox=make(tmp_path))
    running = asyncio.create_task(team.prompt("go"))
    await asyncio.wait_for(looking.wait(), 5)
    sent = await team.send("manager", "a", "the API has changed", metadata={"urgency": "steer"})
    drained = await team.drain()
    go_on.set()
    await running
    assert drained.processed == 0
    assert model_of(member).calls == 2
    assert "the API has changed" in str(model_of(member).requests[1].messages[-1])
    assert team.mailbox.get(sent.id).status == "read"


async def test_a_drain_works_off_notes_to_a_member_that_is_idle():
    member = spec("a", ["read it"])
    team = team_of(["end"], {"a": member})
    await team.send("manager", "a", "the API has changed", metadata={"urgency": "note"})
    assert (await team.drain()).processed == 1
