"""Commands as a user starts them, and waiting for what they do."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sys.executable).parent
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


class Command:
    """A running command; its output goes to files, so that no pipe fills."""

    def __init__(self, folder, name, *arguments, env=None):
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        number = len(list(folder.glob(f"{name}.*.out")))
        self.out_path, self.err_path = folder / f"{name}.{number}.out", folder / f"{name}.{number}.err"
        with self.out_path.open("wb") as out, self.err_path.open("wb") as err:
            self.process = subprocess.Popen(
                [str(SCRIPTS / name), *map(str, arguments)],
                cwd=folder,
                env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HOME": str(folder), **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    @property
    def out(self):
        return self.out_path.read_text("utf-8", "replace")

    @property
    def err(self):
        return self.err_path.read_text("utf-8", "replace")

    def says(self, text):
        """Wait until the command has written a text to either output."""

        def said():
            assert self.process.poll() is None or text in self.out + self.err, self.story()
            return text in self.out + self.err

        try:
            until(said, f"{self.name} says {text!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story()}") from None

    def send(self, number):
        self.process.send_signal(number)

    def ends(self, code=0, bound=BOUND):
        """Wait for the end of the command, check its exit code, and return what it printed."""
        try:
            self.process.wait(bound)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended within {bound:g} s\n{self.story()}") from None
        assert self.process.returncode == code, self.story()
        return self.out

    def story(self):
        return f"{self.name}: exit code {self.process.returncode}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Commands:
    """Starts commands in a folder, and ends those that are left."""

    def __init__(self, folder, env=None):
        self.folder = folder
        self.env = dict(env or {})
        self.started = []

    def start(self, name, *arguments, **env):
        command = Command(self.folder, name, *arguments, env={**self.env, **env})
        self.started.append(command)
        return command

    def run(self, name, *arguments, code=0, bound=BOUND, **env):
        return self.start(name, *arguments, **env).ends(code, bound)

    def close(self):
        for command in self.started:
            if command.process.poll() is None:
                command.send(signal.SIGKILL)
            command.process.wait()


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
