"""``lattice doctor`` against a team in processes."""

import json

import pytest

from tests.processes.commands import Commands, until

pytestmark = [pytest.mark.processes, pytest.mark.redis]


@pytest.fixture
def commands(server, tmp_path):
    commands = Commands(
        tmp_path / "here", {"LATTICE_REDIS_URL": server.url, "LATTICE_APP": "tests.apps.three_members:team"}, warm=True
    )
    yield commands
    commands.close()


def doctor(commands, *words, code=0, **env):
    said = json.loads(commands.run("lattice", "doctor", *words, "--json", code=code, **env))
    assert said["ok"] is (code == 0)
    return {finding["check"]: finding for finding in said["findings"]}


def looked_at(commands, run_id):
    """What is found about a run, which may be about to start still."""
    command = commands.start("lattice", "doctor", run_id, "--json")
    command.process.wait(30)
    return json.loads(command.out)["findings"]


def test_members_without_a_worker_are_named_with_the_command_that_helps(commands):
    found = doctor(commands, code=1)
    assert found["redis"]["status"] == found["app"]["status"] == "ok"
    assert "last second" in found["persistence"]["says"]
    assert (found["coordinator"]["status"], found["coordinator"]["do"]) == ("wrong", "lattice-coordinator")
    assert found["member beta"]["do"] == "lattice-worker --member beta"
    assert "FAIL  member beta" in commands.run("lattice", "doctor", code=1)

    run_id = commands.run("lattice-submit", "count").strip()
    assert doctor(commands, run_id, code=1)["run"]["do"] == "lattice-coordinator"
    commands.start("lattice-coordinator")
    waits = until(lambda: looked_at(commands, run_id)[1:], "the run waits for its members")
    assert [finding["do"] for finding in waits] == [f"lattice-worker --member {m}" for m in ("alpha", "beta", "gamma")]
    assert {finding["status"] for finding in waits} == {"wrong"}

    for member in ("alpha", "beta", "gamma"):
        commands.start("lattice-worker", "--member", member)
    commands.run("lattice-submit", "--run", run_id)
    assert "succeeded" in doctor(commands, run_id)["run"]["says"]
    assert doctor(commands)["member gamma"]["status"] == "ok"


def test_what_cannot_be_looked_at_is_said(commands):
    assert doctor(commands, code=1, LATTICE_REDIS_URL="redis://127.0.0.1:9/0")["redis"]["status"] == "wrong"
    assert "team.py" in doctor(commands, code=1, LATTICE_APP="")["app"]["says"]
    command = commands.start("lattice", "doctor", "nope")
    command.ends(2)
    assert "no run 'nope'" in command.err
