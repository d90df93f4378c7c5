"""Starts workers and coordinators as real processes, forked from one that has imported everything: a start takes 50 ms."""

import asyncio
import ctypes
import faulthandler
import multiprocessing
import os
import signal
import sys
from multiprocessing import forkserver
from pathlib import Path

PRELOAD = ("workers.coordinator", "workers.member", "lattice.testing", "tests.chaos.apps")
_PR_SET_PDEATHSIG = 1


def _run(role, arguments, environment, log):
    """The life of a started process: what its console script would do. It ends with whoever started it."""
    _die_with_parent()
    os.setsid()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [f"lattice-{role}", *arguments]
    signal.signal(signal.SIGUSR1, _tell_where)
    if role == "worker":
        from workers.member import main
    else:
        from workers.coordinator import main
    main()


def _die_with_parent():
    """Be killed when the fork server is gone; let it go when the process of the test is gone, however that went."""
    alive = (
        forkserver._forkserver._forkserver_alive_fd
    )  # every process is given this end: to it, the test would live on
    if alive is not None:
        os.close(alive)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _tell_where(_number, _frame):
    """Write to the log where every thread and every task is: for a process that does not end."""
    faulthandler.dump_traceback(2)
    for task in asyncio.all_tasks(asyncio.get_event_loop()):
        task.print_stack(file=sys.stderr)


class Process:
    """A started worker or coordinator."""

    def __init__(self, role, member, log, started):
        self.role = role
        self.member = member
        self.log_path = log
        self._process = started
        self.stopped = False

    def __str__(self):
        return self.log_path.stem

    @property
    def pid(self):
        return self._process.pid

    @property
    def alive(self):
        return self._process.is_alive()

    @property
    def frozen(self):
        """Whether the kernel says that it is stopped."""
        return Path(f"/proc/{self.pid}/stat").read_bytes().rsplit(b")", 1)[1].split()[0] == b"T"

    @property
    def code(self):
        """The exit code, negative for a signal; None while it lives."""
        return self._process.exitcode

    @property
    def log(self):
        return self.log_path.read_text("utf-8", "replace") if self.log_path.exists() else ""

    def send(self, number):
        if self.alive:
            os.kill(self.pid, number)
        self.stopped = number == signal.SIGSTOP or (self.stopped and number != signal.SIGCONT)

    def kill(self):
        self.send(signal.SIGKILL)

    def freeze(self):
        self.send(signal.SIGSTOP)

    def thaw(self):
        self.send(signal.SIGCONT)

    def drain(self):
        self.send(signal.SIGTERM)

    async def ended(self, within=30.0):
        """Wait for its end; the exit code."""
        deadline = asyncio.get_running_loop().time() + within
        while self.alive:
            if asyncio.get_running_loop().time() > deadline:
                self.send(signal.SIGUSR1)
                await asyncio.sleep(1)
                raise AssertionError(f"{self.role} still runs after {within:g} s\n{self.log}")
            await asyncio.sleep(0.01)
        return self.code

    def reap(self):
        if self.alive:
            self.kill()
        self._process.join()
        self._process.close()


class Processes:
    """Starts processes for one Redis and one team; ends those that are left."""

    def __init__(self, redis_url, folder, *, app, team, lease, environment=None):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.started = []
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(list(PRELOAD))
        self._environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.folder),
            "LATTICE_REDIS_URL": redis_url,
            "LATTICE_APP": app,
            "LATTICE_LEASE": lease,
            "CHAOS_FOLDER": str(self.folder),
            "CHAOS_TEAM": team,
            **(environment or {}),
        }

    def start(self, role, member=None, *arguments, **environment):
        """Start a worker of a member, or a coordinator; ``environment`` is added to its variables."""
        log = self.folder / f"{role}-{member or 'lead'}-{len(self.started)}.log"
        words = [*(("--member", member) if member else ()), *arguments]
        wanted = {**self._environment, **environment}
        started = self._context.Process(target=_run, args=(role, words, wanted, str(log)), daemon=False)
        started.start()
        process = Process(role, member, log, started)
        self.started.append(process)
        return process

    def coordinator(self, *arguments, **environment):
        return self.start("coordinator", None, *arguments, **environment)

    def worker(self, member, *arguments, **environment):
        return self.start("worker", member, *arguments, **environment)

    def close(self):
        for process in self.started:
            process.reap()
        self.started.clear()
