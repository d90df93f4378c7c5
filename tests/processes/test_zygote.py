"""What forks the commands of other tests: real processes with real ends, none of which outlives the tests."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes.commands import MEMBERS, until
from tests.zygote import ROOT

pytestmark = [pytest.mark.redis, pytest.mark.processes]

TESTS_THAT_DIE = """
import os, signal, sys
from pathlib import Path
from tests.processes.commands import Commands

env = {"LATTICE_REDIS_URL": sys.argv[2], "LATTICE_APP": "tests.apps.three_members:team"}
worker = Commands(Path(sys.argv[1]), env, warm=True).start("lattice-worker", "--member", "alpha")
worker.says("working")
print(worker.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def lives(pid):
    """Whether there is such a process, and not as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[0] != b"Z"
    except OSError:
        return False


def test_what_it_starts_is_a_process_of_its_own(commands):
    worker = commands.start("lattice-worker", "--member", "alpha")
    worker.says("working")
    assert worker.pid != os.getpid()
    assert os.getsid(worker.pid) == worker.pid
    assert Path(f"/proc/{worker.pid}/cwd").readlink() == commands.folder
    worker.kill(signal.SIGTERM)
    worker.ends(0)
    assert not lives(worker.pid)


def test_it_says_and_ends_as_the_console_script_does(commands, scripts):
    for words in (
        ["lattice-worker", "--member", "delta"],
        ["lattice", "--help"],
        ["lattice-submit", "--in", "soon", "x"],
    ):
        forked, real = commands.start(*words), scripts.start(*words)
        assert forked.process.wait(30) == real.process.wait(30)
        assert (forked.out, forked.err) == (real.out, real.err)


def test_a_killed_command_tells_the_signal(commands):
    coordinator, workers = commands.team(*MEMBERS)
    for command in (coordinator, *workers):
        command.kill()
        command.ends(-signal.SIGKILL)


def test_nothing_outlives_tests_that_are_killed(redis_url, tmp_path):
    words = [sys.executable, "-c", TESTS_THAT_DIE, str(tmp_path / "here"), redis_url]
    died = subprocess.run(words, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, timeout=30)
    assert died.returncode == -signal.SIGKILL, died.stderr
    until(lambda: not lives(int(died.stdout)), "the worker has gone too")
