"""Commands of the team of three on a real Redis: forked ones, and the console scripts themselves."""

import pytest

from tests.processes.commands import TRIO, Commands
from tests.processes.servers import RedisServer


@pytest.fixture
def server(tmp_path):
    """A Redis of the test's own, which it may stop, freeze and restart."""
    server = RedisServer(tmp_path / "redis")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def commands(redis_url, tmp_path):
    """Commands that start at once."""
    yield from _commands(redis_url, tmp_path / "here", warm=True)


@pytest.fixture
def scripts(redis_url, tmp_path):
    """Commands as a shell starts them: for what depends on the start, the variables or the size of a process."""
    yield from _commands(redis_url, tmp_path / "there", warm=False)


def _commands(redis_url, folder, *, warm):
    commands = Commands(folder, {"LATTICE_REDIS_URL": redis_url, "LATTICE_APP": TRIO}, warm=warm)
    yield commands
    commands.close()
