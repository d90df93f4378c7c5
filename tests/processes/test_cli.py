"""Bad input: a clear error, exit code 2, nothing started and nothing written."""

import pytest
import redis

from tests.processes.commands import Commands
from tests.processes.servers import RedisServer

pytestmark = [pytest.mark.processes, pytest.mark.redis]

APP = "tests.apps.three_members:team"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def commands(server, tmp_path):
    commands = Commands(tmp_path / "here", {"LATTICE_REDIS_URL": server.url, "LATTICE_APP": APP}, warm=True)
    yield commands
    commands.close()
    client = redis.Redis.from_url(server.url)
    assert client.dbsize() == 0, client.keys()
    client.close()


def refused(commands, *words, **env):
    command = commands.start(*words, **env)
    command.ends(2)
    assert command.out == ""
    assert "Traceback" not in command.err
    return command.err


def test_an_unknown_member_is_answered_with_the_members(commands):
    said = refused(commands, "lattice-worker", "--member", "delta")
    assert "no member 'delta'" in said
    assert "alpha, beta, gamma" in said


def test_a_worker_without_a_member_is_answered_with_the_members(commands):
    assert "alpha, beta, gamma" in refused(commands, "lattice-worker")


@pytest.mark.parametrize("words", [("lattice-worker", "--member", "alpha"), ("lattice", "runs"), ("lattice", "up")])
def test_a_redis_that_is_not_there(commands, words):
    said = refused(commands, *words, "--redis-url", "redis://user:hunter2@127.0.0.1:9/0")
    assert "127.0.0.1:9" in said
    assert "cannot be reached" in said
    assert "hunter2" not in said


def test_no_redis_at_all(commands):
    assert "--redis-url" in refused(commands, "lattice", "runs", LATTICE_REDIS_URL="")


def test_all_settings_that_cannot_be_used_are_named_at_once(commands):
    said = refused(commands, "lattice-worker", "--lease", "soon", LATTICE_LEAES="3s", LATTICE_CONCURRENCY="none")
    for fault in ("--lease: 'soon'", "LATTICE_LEAES", "did you mean LATTICE_LEASE", "LATTICE_CONCURRENCY: 'none'"):
        assert fault in said


def test_a_run_and_a_member_that_do_not_exist(commands):
    assert "no run 'nope'" in refused(commands, "lattice", "show", "nope")
    assert "no run 'nope'" in refused(commands, "lattice", "cancel", "nope")
    assert "no member 'nope'" in refused(commands, "lattice", "inbox", "nope")


def test_an_app_that_is_not_there_or_fails(commands):
    assert "team.py" in refused(commands, "lattice-worker", "--member", "alpha", LATTICE_APP="")
    (commands.folder / "broken.py").write_text("import nothing_like_this\n")
    command = commands.start("lattice-worker", "--member", "alpha", "--app", "broken:team")
    command.ends(2)
    assert "No module named 'nothing_like_this'" in command.err
    assert 'broken.py", line 1' in command.err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}, "noeviction"),
        ({"replicaof": "127.0.0.1 9"}, "read-only"),
    ],
)
def test_a_redis_that_would_lose_work(commands, tmp_path, options, why):
    unfit = RedisServer(tmp_path / "unfit", **options)
    unfit.start()
    try:
        assert why in refused(commands, "lattice-worker", "--member", "alpha", "--redis-url", unfit.url)
    finally:
        unfit.stop()
