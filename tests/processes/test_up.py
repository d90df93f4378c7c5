"""``lattice up``: a whole team on this machine, and the commands that look at it."""

import json
import os
import signal

import pytest

from tests.processes.commands import Commands, command_line_of, processes_with, until

pytestmark = [pytest.mark.processes, pytest.mark.redis]


@pytest.fixture
def commands(tmp_path):
    commands = Commands(tmp_path / "a folder ünï", {"LATTICE_APP": "tests.apps.three_members:team"})
    yield commands
    commands.close()


def submit(commands, task):
    return json.loads(commands.run("lattice-submit", "--wait", "--json", task, warm=True))


def looked_at(commands, *arguments):
    return json.loads(commands.run("lattice", *arguments, "--json", warm=True))


def ours(commands, words=""):
    """Return the ids of the live processes of these commands whose command line holds some words."""
    return [pid for pid in processes_with(str(commands.folder)) if words in command_line_of(pid)]


def test_a_team_from_start_to_stop(commands):
    up = commands.start("lattice", "up", "--drain-timeout", "5")
    up.says("ready")
    outcome = submit(commands, "first")
    assert outcome["status"] == "succeeded"
    assert outcome["result"] == "alpha first / alpha; beta first / beta; gamma first / gamma"

    (run,) = looked_at(commands, "runs")
    assert (run["run_id"], run["status"], run["task"]) == (outcome["run_id"], "succeeded", "first")
    shown = looked_at(commands, "show", run["run_id"])
    assert {key: shown[key] for key in outcome} == outcome
    assert [(item["member"], item["status"]) for item in shown["work_items"]] == [
        ("alpha", "done"),
        ("beta", "done"),
        ("gamma", "done"),
    ]
    (message,) = looked_at(commands, "inbox", "beta")
    assert (message["status"], message["content"], message["runId"]) == ("done", "first / beta", run["run_id"])
    assert "had ended before: succeeded" in commands.run("lattice", "cancel", run["run_id"])

    # A worker and the Redis that die are started again, and nothing is lost.
    (worker,) = ours(commands, "lattice-worker\0--member\0alpha")
    os.kill(worker, signal.SIGKILL)
    (redis,) = ours(commands, "redis-server")
    os.kill(redis, signal.SIGKILL)
    up.says("ended with code -9; starting it again")
    up.says("the embedded Redis ended")
    until(lambda: commands.start("lattice", "runs", warm=True).process.wait(30) == 0, "Redis answers again")
    assert submit(commands, "second")["status"] == "succeeded"
    assert len(looked_at(commands, "runs")) == 2

    up.kill(signal.SIGINT)
    up.ends(0)
    assert ours(commands) == []


def test_work_is_there_when_the_team_comes_back(commands):
    """Data stays in .lattice; what was accepted before the stop is done after the next start."""
    commands.env["LATTICE_LEASE"] = "2s"
    up = commands.start("lattice", "up")
    up.says("ready")
    for pid in ours(commands, "lattice-worker\0"):
        os.kill(pid, signal.SIGSTOP)
    run_id = commands.run("lattice-submit", "later").strip()
    until(lambda: looked_at(commands, "show", run_id)["status"] == "waiting", "the lead hands off")
    up.kill(signal.SIGINT)
    up.says("stopping")
    up.kill(signal.SIGINT)
    up.ends(130)
    assert ours(commands) == []

    again = commands.start("lattice", "up")
    again.says("ready")
    commands.run("lattice-submit", "--run", run_id, "--wait")
    again.kill(signal.SIGTERM)
    again.ends(0)


def test_a_team_that_cannot_start_says_why_and_leaves_nothing(commands):
    up = commands.start("lattice", "up", LATTICE_HEALTH_PORT="nowhere")
    up.ends(2)
    assert "LATTICE_HEALTH_PORT" in up.err
    assert not (commands.folder / ".lattice").exists()
