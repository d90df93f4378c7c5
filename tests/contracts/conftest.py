"""The back ends that each contract's suite runs over."""

import fakeredis
import pytest

from lattice.redis.connection import open_redis
from tests.cluster import Cluster
from tests.contracts.backends import FakeRedisBackend, MemoryBackend, RedisBackend


@pytest.fixture(params=["memory", "fakeredis", pytest.param("redis", marks=pytest.mark.redis)])
async def backend(request):
    if request.param == "memory":
        yield MemoryBackend()
        return
    if request.param == "redis":
        client = open_redis(request.getfixturevalue("redis_url"))
        backend = RedisBackend(client)
    else:
        client = fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(), protocol=2)
        backend = FakeRedisBackend(client)
    yield backend
    await backend.close()
    await client.aclose()


@pytest.fixture
def store(backend):
    return backend.store()


@pytest.fixture
async def start(backend):
    """Start a cluster for a team; everything is stopped afterwards."""
    clusters = []

    def begin(team, **limits):
        clusters.append(Cluster(backend, team, **limits))
        return clusters[-1]

    yield begin
    for cluster in clusters:
        await cluster.close()
