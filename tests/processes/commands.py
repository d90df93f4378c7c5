"""Commands as a user starts them, and waiting for what they do: plainly, or without holding up an event loop."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.zygote import zygote

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sys.executable).parent
TRIO = "tests.apps.three_members:team"
MEMBERS = ("alpha", "beta", "gamma")
"""Those of the team of three."""

BOUND = 30.0


def until(condition, what="it", bound=BOUND):
    """Wait until ``condition()`` is true and return its value."""
    deadline = time.monotonic() + bound
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen within {bound:g} s")


async def eventually(condition, bound=BOUND, what="it"):
    """Wait until a condition, plain or async, is true and return its value."""
    deadline = time.monotonic() + bound
    while time.monotonic() < deadline:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        await asyncio.sleep(0.01)
    raise AssertionError(f"{what} did not happen within {bound:g} s")


def get(port, path):
    """What a process of this machine answers on a port, which must be 200."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        assert answer.status == 200
        return answer.read().decode()


def answer(port, path):
    """The status and the text of such an answer, whatever the status."""
    try:
        return 200, get(port, path)
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class Command:
    """A running command; its output goes to files, so that no pipe fills."""

    def __init__(self, name, process, out_path, err_path):
        self.name, self.process = name, process
        self.out_path, self.err_path = out_path, err_path

    @property
    def pid(self):
        return self.process.pid

    @property
    def returncode(self):
        """The exit code, negative for a signal; None while it runs."""
        return self.process.poll()

    @property
    def out(self):
        return self.out_path.read_text("utf-8", "replace")

    @property
    def err(self):
        return self.err_path.read_text("utf-8", "replace")

    def says(self, text):
        """Wait until the command has written a text to either output."""

        def said():
            assert self.returncode is None or text in self.out + self.err, self.story()
            return text in self.out + self.err

        try:
            until(said, f"{self.name} says {text!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story()}") from None

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)

    def ends(self, code=0, bound=BOUND):
        """Wait for the end of the command, check its exit code, and return what it printed."""
        try:
            self.process.wait(bound)
        except subprocess.TimeoutExpired:
            raise AssertionError(self._still_runs(bound)) from None
        assert self.returncode == code, self.story()
        return self.out

    async def ended(self, bound=BOUND):
        """Wait for the end of the command; its exit code."""
        deadline = time.monotonic() + bound
        while self.returncode is None:
            assert time.monotonic() < deadline, self._still_runs(bound)
            await asyncio.sleep(0.005)
        return self.returncode

    def _still_runs(self, bound):
        return f"{self.name} has not ended within {bound:g} s\n{self.story()}"

    def story(self):
        return f"{self.name}: exit code {self.returncode}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Commands:
    """Starts commands in a folder, and ends those that are left.

    ``warm`` ones are forked from a process that has imported everything, for tests that are not about the start itself;
    the others are the console scripts.
    """

    def __init__(self, folder, env=None, *, warm=False):
        self.folder = Path(folder)
        self.env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(folder), **(env or {})}
        self.started = []
        self._warm = warm

    def start(self, name, *arguments, stdin=b"", cwd=None, warm=None, **env):
        """Start a command; ``env`` is added to its variables."""
        self.folder.mkdir(parents=True, exist_ok=True)
        stem = self.folder / f"{name}.{len(self.started)}"
        streams = [Path(f"{stem}.{end}") for end in ("in", "out", "err")]
        streams[0].write_bytes(stdin)
        words = [str(word) for word in arguments]
        launch = _fork if (self._warm if warm is None else warm) else _execute
        process = launch(name, words, cwd or self.folder, {**self.env, **env}, streams)
        self.started.append(Command(name, process, *streams[1:]))
        return self.started[-1]

    def team(self, *members, lease="30s"):
        """A coordinator, and a worker for each member."""
        coordinator = self.start("lattice-coordinator", "--lease", lease)
        return coordinator, [self.start("lattice-worker", "--member", m, "--lease", lease) for m in members]

    def run(self, name, *arguments, code=0, bound=BOUND, **options):
        """Start a command, wait for its end, and return what it printed."""
        return self.start(name, *arguments, **options).ends(code, bound)

    async def done(self, name, *arguments, bound=BOUND, **options):
        """Start a command and return it when it has ended, however it did."""
        command = self.start(name, *arguments, **options)
        await command.ended(bound)
        return command

    def close(self):
        """Kill what still runs; what all of them said is shown with a test that failed."""
        for command in self.started:
            print(f"--- {command.name} (pid {command.pid}, code {command.returncode})\n{command.err[-2000:]}")
        for command in self.started:
            command.kill()
        for command in self.started:
            command.process.wait()


def _execute(name, words, folder, env, streams):
    with streams[0].open("rb") as stdin, streams[1].open("wb") as out, streams[2].open("wb") as err:
        script = str(SCRIPTS / name)
        return subprocess.Popen([script, *words], cwd=folder, env=env, stdin=stdin, stdout=out, stderr=err)


def _fork(name, words, folder, env, streams):
    for stream in streams[1:]:
        stream.touch()
    return zygote().start(name, words, folder=folder, env=env, streams=streams)


def processes_with(text):
    """Return the ids of live processes whose environment, command line or folder holds a text."""
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _holds(entry, text)]


def _holds(entry, text):
    try:
        if (entry / "stat").read_bytes().rsplit(b")", 1)[1].split()[0] == b"Z" or int(entry.name) == os.getpid():
            return False
        told = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes() + bytes((entry / "cwd").readlink())
    except OSError:
        return False
    return os.fsencode(text) in told


def command_line_of(pid):
    """Return the words of a process, each closed by a NUL; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return ""
