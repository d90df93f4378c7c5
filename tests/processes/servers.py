"""A Redis server of a test's own, which can be stopped and started again with its data."""

import signal
import socket
import subprocess

import redis

from tests.processes.commands import until
from workers.embedded_redis import find_redis_server


class RedisServer:
    """Keeps its data and its port over a restart."""

    def __init__(self, folder, **options):
        folder.mkdir(parents=True, exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._folder = folder
        self._options = {"appendonly": "yes", "save": "", "port": str(self.port), "dir": str(folder), **options}
        self._process = None

    def start(self):
        options = [part for name, value in self._options.items() for part in (f"--{name}", value)]
        self._process = subprocess.Popen([find_redis_server(), *options], stdout=subprocess.DEVNULL)
        until(self._answers, "Redis answers")

    def _answers(self):
        client = redis.Redis(port=self.port)
        try:
            return client.ping()
        except redis.RedisError:
            return False
        finally:
            client.close()

    def stop(self):
        if self._process is not None:
            self._process.terminate()
            self._process.wait(15)
            self._process = None

    def freeze(self):
        """Answer nobody until ``thaw``."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self._process.send_signal(signal.SIGCONT)
