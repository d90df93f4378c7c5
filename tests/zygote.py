"""A process that has imported everything, and forks into the real commands: a start costs milliseconds, not half a second.

What it forks is what a console script would be: a process of its own with its own session, variables, folder, arguments and
connections, that runs the command's ``main()`` at the top of an interpreter and ends as one. ``python -m tests.zygote`` is
its inside; ``Zygote`` is what tests talk to. When the tests die, however they do, their commands die with them.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = {
    "lattice": "workers.umbrella",
    "lattice-worker": "workers.member",
    "lattice-coordinator": "workers.coordinator",
    "lattice-submit": "workers.submit",
}
PRELOAD = (*COMMANDS.values(), "lattice.client", "lattice.testing", "tests.scenarios.app")


class Zygote:
    """Forks commands for the tests of this process."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.zygote"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the tests, which close what they started
        )

    def start(self, name, arguments, *, folder, env, streams):
        """Start a command; ``streams`` are the files of its standard input, output and errors."""
        ending = Path(f"{streams[1]}.code")
        wanted = {"name": name, "arguments": arguments, "folder": str(folder), "env": env, "ending": str(ending)}
        wanted["streams"] = [str(path) for path in streams]
        self._process.stdin.write(json.dumps(wanted).encode() + b"\n")
        self._process.stdin.flush()
        return Forked(int(self._process.stdout.readline()), ending)

    def close(self):
        """End, and take along whatever still runs."""
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


@functools.cache
def zygote():
    """The one of this process."""
    one = Zygote()
    atexit.register(one.close)
    return one


class Forked:
    """A started command, with what ``subprocess.Popen`` has of it."""

    def __init__(self, pid, ending):
        self.pid = pid
        self._ending = ending
        self.returncode = None

    def poll(self):
        if self.returncode is None and self._ending.exists():
            self.returncode = int(self._ending.read_text())
        return self.returncode

    def wait(self, timeout=None):
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.poll() is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.002)
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)


class _Nursery:
    """Forks on request, notes how its children end, and kills those that are left when the tests have gone."""

    def __init__(self):
        self._children = {}
        self._woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self):
        """Return the command that this process has become, or None when the tests have gone."""
        unread = b""
        while True:
            ready, _, _ = select.select([0, self._woken], [], [])
            if self._woken in ready:
                os.read(self._woken, 1024)
                self._reap()
            if 0 not in ready:
                continue
            read = os.read(0, 65536)
            if not read:
                self._kill_all()
                return None
            *requests, unread = (unread + read).split(b"\n")
            for request in requests:
                wanted = json.loads(request)
                if (pid := os.fork()) == 0:
                    return wanted
                self._children[pid] = wanted["ending"]
                os.write(1, b"%d\n" % pid)

    def _reap(self):
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            _note(self._children.pop(pid), os.waitstatus_to_exitcode(status))

    def _kill_all(self):
        for pid in self._children:
            os.killpg(pid, signal.SIGKILL) if os.getpgid(pid) == pid else os.kill(pid, signal.SIGKILL)


def _note(ending, code):
    """Tell how a child ended; its folder may have gone with its test."""
    draft = Path(f"{ending}.draft")
    try:
        draft.write_text(str(code))
        draft.rename(ending)
    except OSError:
        pass


def _become(wanted):
    """What a shell does for a command, and the interpreter before its first line."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    modes = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream, (path, mode) in enumerate(zip(wanted["streams"], modes, strict=True)):
        opened = os.open(path, mode, 0o644)
        os.dup2(opened, stream)
        os.close(opened)
    os.closerange(3, 64)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    sys.argv = [wanted["name"], *wanted["arguments"]]
    sys.modules["__main__"].__package__ = None  # a script is part of none


def main():
    for module in PRELOAD:
        importlib.import_module(module)
    _check_that_nothing_lives()
    gc.collect()
    gc.freeze()
    wanted = _Nursery().serve()
    if wanted is not None:
        _become(wanted)
        sys.modules[COMMANDS[wanted["name"]]].main()


def _check_that_nothing_lives():
    """A thread, an event loop or a connection from before the fork would be shared, or dead, in every child."""
    assert threading.active_count() == 1
    if not Path("/proc/self/task").exists():
        return
    assert len(list(Path("/proc/self/task").iterdir())) == 1
    opened = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink() and int(path.name) > 2]
    kinds = [str(path.readlink()) for path in opened]
    assert [kind for kind in kinds if kind.startswith(("socket:", "anon_inode:"))] == []


if __name__ == "__main__":
    main()
