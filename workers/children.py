"""Child processes of a command: started, restarted with back-off, their output prefixed, stopped together.

Honcho's printer writes the lines. Its manager is not used: it ends everything when one process ends, cannot restart
one, kills what drains for more than five seconds, and keeps a Python process for each child.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from honcho.colour import get_colours
from honcho.printer import Message, Printer

from workers.process import EXIT_USAGE, SUPERVISED

__all__ = ["Child", "Children", "LinePrinter", "command_line"]

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds before a child that died is started again; doubled each time, and reset after it lived for the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """What to start; ``lasting`` children are started again when they end.

    When this process is killed its children are to end too: our own commands notice it on their stdin, for
    ``foreign`` programs the kernel is asked to tell them (Linux only).
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    lasting: bool = True
    foreign: bool = False


def command_line(script: str, module: str) -> tuple[str, ...]:
    """Return how to start one of our commands: its script beside this interpreter, else its module."""
    path = Path(sys.executable).parent / script
    if path.is_file():
        return (str(path),)
    return (sys.executable, "-P", "-c", f"from {module} import main; main()")


class LinePrinter:
    """Writes lines with the time and the name of the child that wrote them."""

    def __init__(self, names: Sequence[str], output: TextIO) -> None:
        self._printer = Printer(output, width=max(map(len, names), default=0))
        colours = get_colours()
        self._colours = {name: next(colours) for name in names}

    def __call__(self, name: str, line: str | bytes) -> None:
        """Write one line."""
        colour = self._colours.get(name)
        now = datetime.now(UTC).astimezone()
        with contextlib.suppress(OSError):  # whoever read it has gone; the work goes on
            self._printer.write(Message(type="line", data=line or " ", time=now, name=name, colour=colour))


class Children:
    """A group of child processes.

    ``say(name, line)`` takes their output. ``failed`` is set, with the exit code in ``exit_code``, when a child cannot
    start because it was told wrong things (exit code 2): starting it again would not help.
    """

    def __init__(self, say: Callable[[str, str | bytes], None]) -> None:
        self._say = say
        self._running: dict[str, asyncio.subprocess.Process] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping = False
        self.failed = asyncio.Event()
        self.exit_code: int | None = None

    def start(self, child: Child) -> None:
        """Start a child and keep it alive."""
        self._tasks[child.name] = asyncio.create_task(self._keep(child), name=f"child {child.name}")

    def pid(self, name: str) -> int | None:
        """Return the process id of a child, None while it is not running."""
        process = self._running.get(name)
        return process.pid if process is not None else None

    @property
    def pids(self) -> set[int | None]:
        """The process ids of all children, with None for those that are not running."""
        return {self.pid(name) for name in self._tasks}

    async def stop(self, within: float) -> bool:
        """Ask all to end, and kill what has not ended after ``within`` seconds; whether all ended by themselves."""
        self._stopping = True
        self._signal_all(signal.SIGTERM)
        for name, task in self._tasks.items():
            if name not in self._running:
                task.cancel()
        _done, late = await asyncio.wait(self._tasks.values(), timeout=within) if self._tasks else (set(), set())
        if late:
            self.kill()
            await asyncio.wait(late)
        return not late

    def kill(self) -> None:
        """Kill all, with the processes that they started."""
        self._stopping = True
        self._signal_all(signal.SIGKILL)

    def _signal_all(self, number: signal.Signals) -> None:
        for process in list(self._running.values()):
            _signal_group(process, number)

    async def _keep(self, child: Child) -> None:
        pause, first = FIRST_PAUSE, True
        loop = asyncio.get_running_loop()
        while not self._stopping:
            began = loop.time()
            code = await self._run(child)
            if not self._lasts(child):
                return
            if code == EXIT_USAGE and first:
                self.exit_code = code
                self.failed.set()
                return
            if loop.time() - began > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            self._say(child.name, f"ended with code {code}; starting it again in {pause:g} s")
            await asyncio.sleep(pause)
            pause, first = min(pause * 2, LONGEST_PAUSE), False

    def _lasts(self, child: Child) -> bool:
        return child.lasting and not self._stopping

    async def _run(self, child: Child) -> int:
        process = await asyncio.create_subprocess_exec(
            *child.argv,
            cwd=child.cwd,
            env={**os.environ, SUPERVISED: "1", **child.env},
            stdin=asyncio.subprocess.PIPE,  # closes when this process dies, however it dies
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is ours to pass on
            preexec_fn=_end_with_parent if child.foreign else None,
        )
        self._running[child.name] = process
        if self._stopping:
            process.terminate()
        try:
            assert process.stdout is not None, "stdout is a pipe"
            async for line in _lines(process.stdout):
                self._say(child.name, line)
            return await process.wait()
        finally:
            if process.returncode is None:
                _signal_group(process, signal.SIGKILL)
                await process.wait()
            self._running.pop(child.name, None)


def _signal_group(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Ask a child to end, which sees to its own children; kill it together with them."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if number is signal.SIGKILL:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


# Looked up before the fork: a forked child of a process with threads must not load anything.
_prctl = getattr(ctypes.CDLL(None), "prctl", None)
_PARENT_DEATH_SIGNAL = 1


def _end_with_parent() -> None:
    if _prctl is not None:
        _prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM)


async def _lines(stream: asyncio.StreamReader, longest: int = 65536) -> AsyncIterator[bytes]:
    """Yield lines; one that is longer than ``longest`` bytes comes in pieces."""
    rest = b""
    while chunk := await stream.read(longest):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
        if len(rest) >= longest:
            yield rest
            rest = b""
    if rest:
        yield rest
