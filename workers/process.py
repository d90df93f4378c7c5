"""The shell around every process: one event loop, signals, exit codes."""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any

import click

from lattice.errors import AppError, LatticeError, OptionError, SizeLimitError, StoreError

__all__ = [
    "EXIT_FAILED",
    "EXIT_OK",
    "EXIT_USAGE",
    "SUPERVISED",
    "StopRequest",
    "invoke",
    "main_of",
    "new_process_id",
    "run",
    "run_once",
]

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2
BEFORE_START = (OptionError, AppError, SizeLimitError, StoreError)
"""What a command refuses before anything has started; a process at work outlives a store that is away."""

SUPERVISED = "LATTICE_SUPERVISED"
"""Set for a child whose stdin its supervisor holds open: when that closes, the supervisor is dead."""

GRACE = 1.0
"""Seconds that cleaning up may take after the second signal, or after the end of the main coroutine."""


class StopRequest:
    """What the operating system asked for: ``draining`` is set by the first signal."""

    def __init__(self) -> None:
        self.draining = asyncio.Event()
        self.signal: signal.Signals | None = None

    @property
    def requested(self) -> bool:
        """Whether a signal has come."""
        return self.draining.is_set()

    async def wait(self) -> None:
        """Return when the process is to finish what it does and exit."""
        await self.draining.wait()


def run(main: Callable[[StopRequest], Coroutine[Any, Any, int]]) -> int:
    """Run a main coroutine to its exit code.

    The first SIGTERM or SIGINT sets ``draining``; the second one cancels the coroutine, and the process exits with 128
    plus the signal number after one second at most, whatever still runs in threads.
    """
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        code = runner.run(_guarded(main))
        guard = _exit_soon(code)  # closing the loop waits for threads
    guard.cancel()
    return code


def run_once(main: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run a coroutine that only asks and answers; Ctrl-C ends it at once, with exit code 130."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(main())


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # noqa: PLC0415 - not every platform has it
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _guarded(main: Callable[[StopRequest], Coroutine[Any, Any, int]]) -> int:
    stop = StopRequest()
    loop = asyncio.get_running_loop()
    task = loop.create_task(main(stop))
    # Handlers of the interpreter, not of the loop: they also run while a tool blocks the loop.
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if stop.signal is None:
            stop.signal = signal.Signals(number)
            loop.call_soon_threadsafe(stop.draining.set)
            return
        _exit_soon(128 + number)
        loop.call_soon_threadsafe(task.cancel)

    for number in before:
        signal.signal(number, on_signal)
    if os.environ.pop(SUPERVISED, None):
        threading.Thread(target=_outlive_nobody, daemon=True).start()
    try:
        return await task
    except asyncio.CancelledError:
        if stop.signal is None:
            raise
        return 128 + stop.signal
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _outlive_nobody() -> None:
    """Drain when the supervisor is gone, however it went."""
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    os.kill(os.getpid(), signal.SIGTERM)


def _exit_soon(code: int) -> threading.Timer:
    """Leave even if a thread never ends; a process that ends before then takes the timer with it."""

    def leave() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    timer = threading.Timer(GRACE, leave)
    timer.daemon = True
    timer.start()
    return timer


def main_of(command: click.Command) -> Callable[[], None]:
    """Make the console script of a click command: known errors become one message on stderr and an exit code."""

    def main() -> None:
        code = invoke(command)
        _exit_soon(code)  # the interpreter waits for threads, too
        sys.exit(code)

    return main


def invoke(command: click.Command) -> int:
    """Run a command with the arguments of this process; return its exit code."""
    try:
        code = command.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except LatticeError as error:
        click.echo(f"{command.name}: {error.message}", err=True)
        return EXIT_USAGE if isinstance(error, BEFORE_START) else EXIT_FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    return code if isinstance(code, int) else EXIT_OK


def new_process_id(role: str) -> str:
    """Name this process so that no other one has the same name: role, host, pid, and some randomness."""
    return f"{role}-{_host()}-{os.getpid()}-{os.urandom(3).hex()}"


def _host() -> str:
    return "".join(c if c.isalnum() or c in "-." else "-" for c in os.uname().nodename)[:40] or "host"
