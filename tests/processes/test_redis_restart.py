"""Redis goes away and comes back, with its data: everybody goes on where they were."""

import contextlib

import pytest
import redis as blocking

from tests.processes.commands import MEMBERS, TRIO, Commands, eventually
from tests.redis_server import free_port, own_server

pytestmark = [pytest.mark.redis, pytest.mark.processes]

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
RESULT = "alpha count / alpha; beta count / beta; gamma count / gamma\n"


@contextlib.contextmanager
def durable_server(folder, port):
    with own_server(folder, *DURABLE, port=port) as server:
        yield server


@pytest.fixture
def commands_of(tmp_path):
    made = []

    def make(url):
        made.append(Commands(tmp_path / "here", {"LATTICE_REDIS_URL": url, "LATTICE_APP": TRIO}, warm=True))
        return made[-1]

    yield make
    for commands in made:
        commands.close()


async def test_waiting_submitters_and_coordinators_survive_a_restart(tmp_path, commands_of):
    port = free_port()
    with durable_server(tmp_path, port) as server:
        commands = commands_of(server.url)
        coordinator = commands.start("lattice-coordinator")
        waiting = commands.start("lattice-submit", "count", "--wait")
        following = commands.start("lattice-submit", "count", "--follow")
        with blocking.Redis.from_url(server.url, decode_responses=True) as redis:
            await eventually(lambda: redis.zcard("rq:wip:lattice-trio") == 2)
            await eventually(lambda: redis.xlen("lattice:{trio}:mailbox:gamma") == 2)
        server.process.kill()
        server.process.wait()
    with durable_server(tmp_path, port) as server:
        for member in MEMBERS:
            commands.start("lattice-worker", "--member", member)
        assert await waiting.ended(60) == 0
        assert await following.ended(60) == 0
        assert waiting.out == following.out == RESULT
        with blocking.Redis.from_url(server.url, decode_responses=True) as redis:
            await eventually(lambda: redis.zcard("rq:finished:lattice-trio") == 2)
            assert redis.zcard("rq:wip:lattice-trio") == redis.zcard("rq:failed:lattice-trio") == 0
            await eventually(lambda: redis.scard("rq:workers:lattice-trio") == 1)
        assert coordinator.returncode is None


async def test_an_idle_coordinator_takes_runs_after_a_restart(tmp_path, commands_of):
    port = free_port()
    with durable_server(tmp_path, port) as server:
        commands = commands_of(server.url)
        commands.team(*MEMBERS)
        with blocking.Redis.from_url(server.url) as redis:
            await eventually(lambda: redis.zcard("lattice:{trio}:processes") == 4)
        server.process.kill()
        server.process.wait()
    with durable_server(tmp_path, port):
        done = await commands.done("lattice-submit", "count", "--wait", bound=60)
        assert (done.returncode, done.out) == (0, RESULT)
