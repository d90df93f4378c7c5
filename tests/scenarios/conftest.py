"""The worlds: one process with a memory or SQLite mailbox, hosts on Redis in one process, and processes."""

from itertools import count

import pytest

from lattice.redis.connection import open_redis
from tests.contracts.backends import RedisBackend
from tests.processes.commands import Commands
from tests.scenarios.worlds import LocalWorld, ProcessWorld, RedisWorld, sqlite_mailbox

EVERYWHERE = [
    pytest.param("memory"),
    pytest.param("sqlite"),
    pytest.param("redis", marks=pytest.mark.redis),
    pytest.param("processes", marks=[pytest.mark.redis, pytest.mark.processes]),
]


@pytest.fixture(params=EVERYWHERE)
async def world(request, tmp_path, name):
    """A world for the scenario of that name."""
    if request.param == "memory":
        yield LocalWorld(tmp_path, lambda: None)
        return
    if request.param == "sqlite":
        numbers = count()
        yield LocalWorld(tmp_path, lambda: sqlite_mailbox(tmp_path / f"mail-{next(numbers)}.db"))
        return
    make = _hosts if request.param == "redis" else _processes
    async for world in make(request.getfixturevalue("redis_url"), tmp_path, name):
        yield world


async def _hosts(redis_url, folder, _name):
    client = open_redis(redis_url)
    backend = RedisBackend(client)
    world = RedisWorld(folder, backend)
    yield world
    await world.close()
    await backend.close()
    await client.aclose()


async def _processes(redis_url, folder, name):
    commands = Commands(folder / "commands", {"LATTICE_REDIS_URL": redis_url}, warm=True)
    world = ProcessWorld(folder, name, commands, redis_url)
    yield world
    await world.close()
    commands.close()
