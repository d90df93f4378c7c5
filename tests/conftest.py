"""Fixtures for everybody: a real Redis, and what a test can do with it."""

import os

import pytest
import redis as blocking

from lattice.redis.connection import open_redis
from tests.redis_server import NoServerError, any_server, find_cli

pytest.register_assert_rewrite("tests.scenarios")  # where expectations stand beside what they are about


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory):
    """A real server, one for each xdist worker."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "master")
    context = any_server(tmp_path_factory.mktemp("redis"), worker)
    try:
        server = context.__enter__()
    except NoServerError as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))
    yield server
    context.__exit__(None, None, None)


@pytest.fixture
def redis_url(redis_server):
    """The address of an empty database."""
    with blocking.Redis.from_url(redis_server.url) as client:
        client.flushdb()
        client.script_flush()
    return redis_server.url


@pytest.fixture
async def redis_client(redis_url):
    """An asyncio client of an empty database, as the library opens it."""
    client = open_redis(redis_url)
    yield client
    await client.aclose()


@pytest.fixture(scope="session")
def redis_cli():
    """The path of a redis-cli binary."""
    path = find_cli()
    if path is None:
        if os.environ.get("CI"):
            pytest.fail("no redis-cli on PATH and none beside redis-server")
        pytest.skip("no redis-cli")
    return path
