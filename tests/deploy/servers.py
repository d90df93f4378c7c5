"""A real redis-server with options of our own, on a socket in a private folder."""

import contextlib
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from workers.embedded_redis import find_redis_server


@contextlib.contextmanager
def redis_server(*arguments):
    """Run a server until the block ends; yields the path of its socket.

    Raises:
        AssertionError: it does not start; with what it said.
    """
    folder = Path(tempfile.mkdtemp(prefix="lt-"))  # short: a socket's path may have about a hundred bytes
    socket = folder / "r.sock"
    log = folder / "log"
    options = ["--port", "0", "--unixsocket", str(socket), "--dir", str(folder)]
    with log.open("wb") as out:
        process = subprocess.Popen([find_redis_server(), *map(str, arguments), *options], stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 20
        while not _answers(socket):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.01)
        yield socket
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _answers(socket):
    client = redis.Redis(unix_socket_path=str(socket), retry=Retry(NoBackoff(), 0))
    try:
        client.ping()
    except redis.AuthenticationError:
        return True
    except redis.ConnectionError:
        return False
    finally:
        client.close()
    return True
