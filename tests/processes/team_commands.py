"""Starts the real commands as processes, reads what they say, and leaves none behind."""

import asyncio
import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
APP = "tests.apps.three_members:team"


class Command:
    """A running command; its output is read while it runs."""

    def __init__(self, name, process):
        self.name = name
        self.process = process
        self.out = ""
        self.err = ""
        self.readers = [asyncio.create_task(self._read("out")), asyncio.create_task(self._read("err"))]

    async def _read(self, name):
        stream = self.process.stdout if name == "out" else self.process.stderr
        while chunk := await stream.read(4096):
            setattr(self, name, getattr(self, name) + chunk.decode("utf-8", "replace"))

    @property
    def pid(self):
        return self.process.pid

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)

    async def code(self, timeout=30.0):
        """Wait for the end; the exit code."""
        try:
            async with asyncio.timeout(timeout):
                code = await self.process.wait()
                await asyncio.gather(*self.readers)
                return code
        except TimeoutError:
            raise AssertionError(
                f"still running after {timeout} s; stdout: {self.out!r}, stderr: {self.err!r}"
            ) from None


class Commands:
    """Starts commands for one Redis."""

    def __init__(self, redis_url, folder=ROOT):
        self.redis_url = redis_url
        self.folder = folder
        self.started = []

    async def start(self, name, *args, app=APP, stdin=None, env=None, cwd=None):
        given = {key: value for key, value in os.environ.items() if not key.startswith(("LATTICE_", "REDIS_"))}
        given |= {"PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
        if self.redis_url is not None:
            given["LATTICE_REDIS_URL"] = self.redis_url
        if app is not None:
            given["LATTICE_APP"] = app
        process = await asyncio.create_subprocess_exec(
            str(BIN / name),
            *args,
            stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=given | (env or {}),
            cwd=cwd or self.folder,
            start_new_session=True,
        )
        command = Command(name, process)
        self.started.append(command)
        if stdin is not None:
            process.stdin.write(stdin)
            process.stdin.close()
        return command

    async def run(self, name, *args, timeout=30.0, **options):
        """Start a command and wait for its end."""
        command = await self.start(name, *args, **options)
        await command.code(timeout)
        return command

    async def submit(self, *args, **options):
        return await self.run("lattice-submit", *args, **options)

    async def team(self, *, lease="30s", workers=True):
        """A coordinator and a worker for each member."""
        coordinator = await self.start("lattice-coordinator", "--lease", lease)
        members = ("alpha", "beta", "gamma") if workers else ()
        workers = [await self.start("lattice-worker", "--member", name, "--lease", lease) for name in members]
        return coordinator, workers

    async def close(self):
        """Kill what still runs; what all of them said is shown with a test that failed."""
        for command in self.started:
            print(f"--- {command.name} (pid {command.pid}, code {command.process.returncode})\n{command.err[-2000:]}")
        for command in self.started:
            if command.process.returncode is None:
                command.kill()
        for command in self.started:
            await command.process.wait()
            await asyncio.gather(*command.readers)


async def until(condition, timeout=30.0):
    """Wait until a condition (plain or async) holds; its value."""
    deadline = asyncio.get_running_loop().time() + timeout
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        assert asyncio.get_running_loop().time() < deadline, f"not within {timeout} s"
        await asyncio.sleep(0.02)
