"""What ``lattice doctor`` says of a server, in each state that a server may be in."""

from urllib.parse import quote

import pytest

from lattice.redis.checkup import _memory, examine_server
from lattice.redis.connection import open_redis
from tests.deploy.servers import redis_server

pytestmark = pytest.mark.redis


async def examine(url):
    redis = open_redis(url)
    try:
        return {finding.check: finding for finding in await examine_server(redis, url, "crew")}
    finally:
        await redis.aclose(close_connection_pool=True)


async def examine_with(*options):
    with redis_server(*options) as socket:
        return await examine(f"unix://{quote(str(socket))}")


async def test_a_healthy_server(redis_client, redis_url):
    found = await examine(redis_url)
    assert {finding.status for finding in found.values()} <= {"ok", "warning"}
    assert found["rights"].status == found["latency"].status == found["clock"].status == "ok"
    assert await redis_client.keys("*doctor*") == []


@pytest.mark.parametrize(
    ("options", "status", "says"),
    [
        (("--appendonly", "yes", "--appendfsync", "everysec"), "ok", "about the last second"),
        (("--appendonly", "yes", "--appendfsync", "always"), "ok", "nothing that was accepted is lost"),
        (("--save", ""), "warning", "all runs and messages are lost"),
        (("--save", "60 1"), "warning", "since the last one"),
    ],
)
async def test_what_a_crash_may_lose_is_said_in_plain_words(options, status, says):
    persistence = (await examine_with(*options))["persistence"]
    assert (persistence.status, says in persistence.says) == (status, True)


async def test_a_server_that_evicts_or_is_away_is_wrong():
    found = await examine_with("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    assert (found["redis"].status, "noeviction" in found["redis"].says) == ("wrong", True)
    found = await examine("redis://user:hunter2@127.0.0.1:9/0")
    assert found["redis"].status == "wrong"
    assert "hunter2" not in found["redis"].says


def test_a_nearly_full_memory_is_a_warning():
    nearly, half = ({"maxmemory": 100_000_000, "used_memory": used} for used in (95_000_000, 50_000_000))
    assert (_memory(nearly).status, "refused" in _memory(nearly).says) == ("warning", True)
    assert _memory(half).status == _memory({"used_memory": 5}).status == "ok"


async def test_missing_rights_are_named(tmp_path):
    acl = tmp_path / "redis.acl"
    acl.write_text("user default on nopass ~* &* +@all -xadd -zadd\n")
    with redis_server("--aclfile", acl) as socket:
        rights = (await examine(f"unix://{quote(str(socket))}"))["rights"]
    assert rights.status == "warning"
    assert "xadd, zadd" in rights.says
    assert "hset" not in rights.says


async def test_a_clock_that_is_off_is_a_warning(redis_url, monkeypatch):
    import time

    real = time.time
    monkeypatch.setattr("lattice.redis.checkup.time.time", lambda: real() - 90)
    clock = (await examine(redis_url))["clock"]
    assert (clock.status, "90.0 s" in clock.says) == ("warning", True)
