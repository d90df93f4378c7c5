"""Opening Redis, and whether a server may be trusted."""

import pytest
import redis as blocking

from lattice.errors import OptionError, StoreError
from lattice.redis.connection import (
    StoreUnreachableError,
    check_server,
    open_blocking_redis,
    open_redis,
    redact_url,
)
from tests.redis_server import free_port, own_server, wait_until_up


async def check(url):
    client = open_redis(url)
    try:
        return await check_server(client, url)
    finally:
        await client.aclose()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://:s3cret@localhost:6379/0", "redis://:***@localhost:6379/0"),
        ("rediss://me:s3cret@host/2", "rediss://me:***@host/2"),
        ("redis://me@host", "redis://me@host"),
        ("redis://me:a%40b@[::1]:7000/1?socket_timeout=3", "redis://me:***@[::1]:7000/1?socket_timeout=3"),
        ("redis://host?password=s3cret&db=1", "redis://host?password=***&db=1"),
        ("unix:///tmp/r.sock?db=1&password=s3cret", "unix:///tmp/r.sock?db=1&password=***"),
        ("unix://me:s3cret@/tmp/r.sock", "unix://me:***@/tmp/r.sock"),
        ("redis://host:s3cret", "(not a URL)"),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    assert redact_url(url) == shown
    assert "s3cret" not in redact_url(url)


@pytest.mark.parametrize(
    "url", ["http://:s3cret@x", "localhost:6379", "", "redis://host:port", "redis://h?socket_timeout=x"]
)
def test_what_is_no_redis_url_is_refused(url):
    for opened in (open_redis, open_blocking_redis):
        with pytest.raises(OptionError, match="Redis URL") as caught:
            opened(url)
        assert "s3cret" not in str(caught.value)


async def test_a_good_server_tells_its_facts(redis_url):
    facts = await check(redis_url)
    assert tuple(map(int, facts.version.split(".")[:2])) >= (6, 2)
    assert facts.url == redis_url


async def test_an_unreachable_server_is_named_without_its_password():
    port = free_port()
    with pytest.raises(
        StoreUnreachableError, match=f"redis://me:\\*\\*\\*@127.0.0.1:{port}/0 cannot be reached"
    ) as caught:
        await check(f"redis://me:s3cret@127.0.0.1:{port}/0")
    assert "s3cret" not in str(caught.value)
    assert "lattice up" in str(caught.value)


async def test_a_wrong_password_is_told_apart(tmp_path):
    port = free_port()
    with own_server_with_password(tmp_path, port):
        for url in (f"redis://127.0.0.1:{port}/0", f"redis://:wr0ng@127.0.0.1:{port}/0"):
            with pytest.raises(StoreError, match="refuses the user or password") as caught:
                await check(url)
            assert "wr0ng" not in str(caught.value)
        assert (await check(f"redis://:right@127.0.0.1:{port}/0")).url == f"redis://:***@127.0.0.1:{port}/0"


def own_server_with_password(folder, port):
    import contextlib
    import subprocess

    from tests.redis_server import find_binary

    @contextlib.contextmanager
    def running():
        command = [find_binary(), "--port", str(port), "--dir", str(folder), "--save", "", "--requirepass", "right"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            wait_until_up(f"redis://:right@127.0.0.1:{port}/0", process)
            yield
        finally:
            process.terminate()
            process.wait(20)

    return running()


async def test_a_server_that_throws_keys_away_is_refused(tmp_path):
    with own_server(tmp_path, "--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru") as server:
        with pytest.raises(StoreError, match="allkeys-lru.*CONFIG SET maxmemory-policy noeviction"):
            await check(server.url)
        with blocking.Redis.from_url(server.url) as client:
            client.config_set("maxmemory-policy", "noeviction")
        assert (await check(server.url)).max_memory == 50 * 1024 * 1024


async def test_a_policy_without_a_limit_throws_nothing_away(tmp_path):
    with own_server(tmp_path, "--maxmemory-policy", "allkeys-lru") as server:
        assert (await check(server.url)).policy == "allkeys-lru"


async def test_a_replica_is_refused(tmp_path, redis_url):
    port = redis_url.rpartition(":")[2].partition("/")[0]
    with own_server(tmp_path, "--replicaof", "127.0.0.1", port) as server:
        with pytest.raises(StoreError, match="read-only replica"):
            await check(server.url)


class OldServer:
    """Answers like a server of another time."""

    def __init__(self, **facts):
        self.facts = facts

    async def ping(self):
        return True

    async def info(self):
        return self.facts


@pytest.mark.parametrize("version", ["5.0.14", "6.0.16", "6.1.240", "2.8"])
async def test_an_old_server_is_refused(version):
    with pytest.raises(StoreError, match=f"version {version}; lattice needs 6.2"):
        await check_server(OldServer(redis_version=version), "redis://h")


@pytest.mark.parametrize("version", ["6.2.0", "6.2.14", "7.2.4", "8.0.1", "10.1.0"])
async def test_a_new_server_is_taken(version):
    assert (await check_server(OldServer(redis_version=version), "redis://h")).version == version


async def test_a_short_socket_timeout_in_the_url_does_not_break_blocking(redis_url):
    client = open_redis(f"{redis_url}?socket_timeout=0.05")
    assert client.connection_pool.connection_kwargs["socket_timeout"] >= 15
    assert await client.blpop(["nothing"], timeout=0.2) is None
    await client.aclose()


def test_a_client_repeats_nothing_by_itself(redis_url):
    for opened in (open_redis, open_blocking_redis):
        retry = opened(redis_url).connection_pool.connection_kwargs["retry"]
        assert retry._retries == 0


def test_the_blocking_client_answers_bytes(redis_url):
    with open_blocking_redis(f"{redis_url}?decode_responses=true") as client:
        client.set("k", "v")
        assert client.get("k") == b"v"


async def test_a_unix_socket_works(tmp_path):
    import tempfile

    with tempfile.TemporaryDirectory(dir="/tmp") as short, own_server(tmp_path, "--unixsocket", f"{short}/r.sock"):
        assert (await check(f"unix://{short}/r.sock")).version
