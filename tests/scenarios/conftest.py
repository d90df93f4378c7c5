"""The worlds that every scenario runs in: one process with a memory or SQLite mailbox, and processes on Redis."""

import pytest

from lattice.redis.connection import open_redis
from tests.contracts.backends import RedisBackend
from tests.scenarios.worlds import LocalWorld, RedisWorld, sqlite_mailbox


@pytest.fixture(params=["memory", "sqlite", pytest.param("redis", marks=pytest.mark.redis)])
async def world(request, tmp_path):
    if request.param == "memory":
        yield LocalWorld(lambda: None)
        return
    if request.param == "sqlite":
        yield LocalWorld(lambda: sqlite_mailbox(tmp_path / "mail.db"))
        return
    client = open_redis(request.getfixturevalue("redis_url"))
    backend = RedisBackend(client)
    world = RedisWorld(backend)
    yield world
    await world.close()
    await backend.close()
    await client.aclose()
