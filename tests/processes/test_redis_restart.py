"""Redis goes away and comes back, with its data: everybody goes on where they were."""

import contextlib

import pytest
import redis as blocking

from tests.processes.team_commands import Commands, until
from tests.redis_server import free_port, own_server

pytestmark = [pytest.mark.redis, pytest.mark.processes]

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
RESULT = "alpha count / alpha; beta count / beta; gamma count / gamma\n"


@contextlib.contextmanager
def durable_server(folder, port):
    with own_server(folder, *DURABLE, port=port) as server:
        yield server


@pytest.fixture
async def commands_of():
    made = []

    def make(url):
        made.append(Commands(url))
        return made[-1]

    yield make
    for commands in made:
        await commands.close()


async def test_waiting_submitters_and_coordinators_survive_a_restart(tmp_path, commands_of):
    port = free_port()
    with durable_server(tmp_path, port) as server:
        commands = commands_of(server.url)
        coordinator = await commands.start("lattice-coordinator")
        waiting = await commands.start("lattice-submit", "count", "--wait")
        following = await commands.start("lattice-submit", "count", "--follow")
        with blocking.Redis.from_url(server.url, decode_responses=True) as redis:
            await until(lambda: redis.zcard("rq:wip:lattice-trio") == 2)
            await until(lambda: redis.xlen("lattice:{trio}:mailbox:gamma") == 2)
        server.process.kill()
        server.process.wait()
    with durable_server(tmp_path, port) as server:
        for member in ("alpha", "beta", "gamma"):
            await commands.start("lattice-worker", "--member", member)
        assert await waiting.code(60) == 0
        assert await following.code(60) == 0
        assert waiting.out == following.out == RESULT
        with blocking.Redis.from_url(server.url, decode_responses=True) as redis:
            await until(lambda: redis.zcard("rq:finished:lattice-trio") == 2)
            assert redis.zcard("rq:wip:lattice-trio") == redis.zcard("rq:failed:lattice-trio") == 0
            await until(lambda: redis.scard("rq:workers:lattice-trio") == 1)
        assert coordinator.process.returncode is None


async def test_an_idle_coordinator_takes_runs_after_a_restart(tmp_path, commands_of):
    port = free_port()
    with durable_server(tmp_path, port) as server:
        commands = commands_of(server.url)
        await commands.team()
        with blocking.Redis.from_url(server.url) as redis:
            await until(lambda: redis.zcard("lattice:{trio}:processes") == 4)
        server.process.kill()
        server.process.wait()
    with durable_server(tmp_path, port):
        done = await commands.submit("count", "--wait", timeout=60)
        assert (done.process.returncode, done.out) == (0, RESULT)
