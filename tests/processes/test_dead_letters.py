"""A message that kills its workers becomes a dead letter, and the commands that deal with it."""

import asyncio
import json

import pytest

from lattice.redis.connection import open_redis
from lattice.run_store import StoreOptions
from tests.processes.commands import BOUND, Commands, until
from workers.connections import OwnRedisRunStore

pytestmark = [pytest.mark.processes, pytest.mark.redis]


@pytest.fixture
def poison(tmp_path):
    poison = tmp_path / "poison"
    poison.touch()
    return poison


@pytest.fixture
def commands(server, tmp_path, poison):
    commands = Commands(
        tmp_path / "here",
        {"LATTICE_REDIS_URL": server.url, "LATTICE_APP": "tests.apps.poison:team", "LATTICE_TEST_POISON": str(poison)},
        warm=True,
    )
    yield commands
    commands.close()


def lattice(commands, *words, code=0):
    return json.loads(commands.run("lattice", *words, "--json", code=code))


def test_poison_kills_two_workers_and_is_given_up(commands, poison):
    coordinator = commands.start("lattice-coordinator", "--lease", "1s", "--max-attempts", "2")
    submitted = commands.start("lattice-submit", "carry this", "--wait", "--json")
    for _ in range(2):
        commands.run("lattice-worker", "--member", "fragile", "--lease", "1s", "--max-attempts", "2", code=9)
    outcome = json.loads(submitted.ends())
    assert outcome["status"] == "succeeded"
    assert "lost 2 times" in outcome["result"]

    (letter,) = lattice(commands, "dead", "list")
    assert (letter["member"], letter["run_id"], letter["attempts"]) == ("fragile", outcome["run_id"], 2)
    assert letter["content"] == "handle with care"
    assert "lost 2 times" in letter["reason"]
    assert lattice(commands, "dead", "show", letter["message_id"]) == letter
    assert "handle with care" in commands.run("lattice", "dead", "show", letter["message_id"])
    assert letter["message_id"] in commands.run("lattice", "dead", "list")
    (item,) = lattice(commands, "show", outcome["run_id"])["work_items"]
    assert (item["status"], item["attempts"]) == ("failed", 2)

    poison.unlink()
    requeued = lattice(commands, "dead", "requeue", letter["message_id"])
    assert requeued["message_id"] != letter["message_id"]
    assert lattice(commands, "dead", "list") == []
    commands.run("lattice-worker", "--member", "fragile", "--burst")
    reports = until(
        lambda: [m for m in lattice(commands, "inbox", "manager") if m.get("workItemId") == requeued["message_id"]],
        "the report is in the lead's mailbox",
    )
    assert [report["content"] for report in reports] == ["handled with care"]
    assert "no dead letter" in refused(commands, "drop", letter["message_id"])
    coordinator.process.terminate()
    coordinator.ends()


def letter_of_a_team_inside(commands):
    """Two processes die of a task of the inner team; the run ends, and the task is a dead letter."""
    commands.env["LATTICE_APP"] = "tests.apps.poisoned_inside:team"
    commands.start("lattice-coordinator", "--lease", "1s")
    submitted = commands.start("lattice-submit", "carry this", "--wait", "--json")
    worker = ("lattice-worker", "--member", "inner", "--lease", "1s")
    for _ in range(2):
        commands.run(*worker, code=9)
    asyncio.run(give_up_inside(commands.env["LATTICE_REDIS_URL"]))
    commands.start(*worker)
    assert "lost 2 times" in json.loads(submitted.ends())["result"]
    (letter,) = lattice(commands, "dead", "list")
    return letter


async def give_up_inside(url):
    """The outer item was lost as often; if it were given up first, its run inside would be cancelled."""
    store = OwnRedisRunStore(open_redis(url), "around.inner", StoreOptions(max_attempts=2))
    async with asyncio.timeout(BOUND):
        while "dead" not in [found.word for found in await store.reclaim_expired("a reaper", 1_000, runs=False)]:
            await asyncio.sleep(0.02)
    await store.close()


def test_the_dead_letters_of_a_team_inside_are_listed_and_requeued(commands, poison):
    letter = letter_of_a_team_inside(commands)
    assert (letter["team"], letter["member"], letter["content"]) == (
        "around.inner",
        "fragile",
        "handle with care inside",
    )
    assert lattice(commands, "dead", "show", letter["message_id"]) == letter
    listed = commands.run("lattice", "dead", "list")
    assert letter["message_id"] in listed
    assert "around.inner" in listed
    poison.unlink()
    told = commands.run("lattice", "dead", "requeue", letter["message_id"])
    assert "`lattice inbox manager --team around.inner`" in told
    assert lattice(commands, "dead", "list") == []
    (report,) = until(
        lambda: [m for m in inbox_inside(commands, "manager") if m.get("workItemId") == told.split()[0]],
        "a worker of the outer member works it",
    )
    assert report["content"] == "handled with care"
    (worked,) = [m for m in inbox_inside(commands, "fragile") if m["id"] == told.split()[0]]
    assert worked["status"] == "done"
    assert lattice(commands, "inbox", "manager", "--status", "pending") == []


def inbox_inside(commands, member):
    return lattice(commands, "inbox", member, "--team", "around.inner")


def test_a_team_or_member_that_is_not_inside_is_refused(commands):
    commands.env["LATTICE_APP"] = "tests.apps.poisoned_inside:team"
    for words, said in (
        (("manager", "--team", "elsewhere"), "no team 'elsewhere'; --team takes one of around, around.inner"),
        (("inner", "--team", "around.inner"), "no member 'inner'"),
    ):
        command = commands.start("lattice", "inbox", *words)
        command.ends(2)
        assert said in command.err


def test_a_dead_letter_of_a_team_inside_is_dropped(commands):
    letter = letter_of_a_team_inside(commands)
    assert lattice(commands, "dead", "drop", letter["message_id"]) == {"dropped": letter["message_id"]}
    assert lattice(commands, "dead", "list") == []


def refused(commands, *words):
    command = commands.start("lattice", "dead", *words)
    command.ends(2)
    return command.err


def test_a_letter_is_dropped_and_what_is_none_is_refused(commands):
    commands.start("lattice-coordinator", "--lease", "1s", "--max-attempts", "1")
    submitted = commands.start("lattice-submit", "carry this", "--wait")
    commands.run("lattice-worker", "--member", "fragile", "--lease", "1s", "--max-attempts", "1", code=9)
    submitted.ends()
    (letter,) = lattice(commands, "dead", "list")
    assert lattice(commands, "dead", "drop", letter["message_id"]) == {"dropped": letter["message_id"]}
    assert lattice(commands, "dead", "list") == []
    assert "no dead letters" in commands.run("lattice", "dead", "list")
    for words in (("show", "nope"), ("requeue", "nope"), ("drop", "nope")):
        assert "no dead letter 'nope'" in refused(commands, *words)
