"""A message that kills its workers becomes a dead letter, and the commands that deal with it."""

import json

import pytest
import redis

from tests.processes.commands import Commands, until
from tests.processes.servers import RedisServer

pytestmark = [pytest.mark.processes, pytest.mark.redis]


@pytest.fixture
def server(tmp_path):
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield server
    server.stop()


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
    worker = ("lattice-worker", "--member", "inner", "--lease", "1s", "--max-attempts", "2")
    for _ in range(2):
        commands.run(*worker, code=9)
    commands.start(*worker)
    assert "lost 2 times" in json.loads(submitted.ends())["result"]
    (letter,) = letters_inside(commands)
    return letter


def letters_inside(commands):
    """The outer team's item was lost as often, and is a letter too if a worker gives it up, not the coordinator."""
    return [letter for letter in lattice(commands, "dead", "list") if letter["member"] != "inner"]


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
    assert "the lead of around.inner" in told
    assert letters_inside(commands) == []
    with redis.Redis.from_url(commands.env["LATTICE_REDIS_URL"]) as client:
        key = f"lattice:{{around.inner}}:message:{told.split()[0]}"
        until(lambda: client.hget(key, "status") == b"done", "a worker of the outer member works it")


def test_a_dead_letter_of_a_team_inside_is_dropped(commands):
    letter = letter_of_a_team_inside(commands)
    assert lattice(commands, "dead", "drop", letter["message_id"]) == {"dropped": letter["message_id"]}
    assert letters_inside(commands) == []


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
