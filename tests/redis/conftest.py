"""A run store on a real server, and its scripts to call by hand."""

import pytest

from lattice.redis.run_store import RedisRunStore
from lattice.redis.scripts import load_scripts

TEAM = "crew"


def pytest_collection_modifyitems(items):
    for item in items:
        if "tests/redis/" in item.path.as_posix():
            item.add_marker(pytest.mark.redis)


@pytest.fixture
async def store(redis_client):
    store = RedisRunStore(redis_client, TEAM)
    yield store
    await store.close()


@pytest.fixture
def keys(store):
    return store.keys


@pytest.fixture
async def others_look(redis_client, keys):
    """As in a team at work: its processes look for expired leases all the time, so there is no grace."""
    await redis_client.set(keys.looking, "1", px=600_000)


@pytest.fixture
def script(redis_client, keys):
    """Run a script as another client would: ``await script("claim", ...)``."""

    async def run(name, *args):
        return await redis_client.eval(load_scripts()[name].source, 1, keys.prefix, *args)

    return run
