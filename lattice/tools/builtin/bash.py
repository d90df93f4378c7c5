"""Bash: one shell command in its own process group, bounded in time and output."""

import asyncio
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from lattice.abort import AbortSignal
from lattice.errors import LatticeError, ToolPermissionDeniedError
from lattice.tools.builtin.define import builtin_tool, roots_for_writing
from lattice.tools.builtin.output import Capture, render
from lattice.tools.threads import handler_threads
from lattice.tools.tool import ToolContext, ToolDefinition
from lattice.workspace.denial import PermissionDenial, check_inside
from lattice.workspace.shell.writes import find_writes
from lattice.workspace.workspace import Workspace

__all__ = ["make"]

_TERM_SECONDS = 0.5
_DRAIN_SECONDS = 0.5
_HARMLESS = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|COLUMNS|LINES|TMPDIR|HOSTNAME|VIRTUAL_ENV|CONDA_PREFIX"
    "|PYTHONPATH|PYTHONHOME|PYENV_ROOT|NODE_PATH|NVM_DIR|JAVA_HOME|GOPATH|GOROOT|GOCACHE|CARGO_HOME|RUSTUP_HOME"
    "|XDG_[A-Z_]+|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|LD_LIBRARY_PATH|CI"
)


class BashInput(BaseModel):
    """What to run, and for how long."""

    command: str = Field(description="The command, for /bin/sh.")
    timeout_ms: int | None = Field(None, gt=0, description="Most milliseconds that it may take.")


def make(workspace: Workspace) -> ToolDefinition:
    """Return the Bash tool of a workspace."""
    description = (
        "Run a shell command in the workspace. Returns its output, and its exit code if it failed. Standard input is"
        " empty, and what it starts in the background ends with it. Write only inside your write roots, and spell"
        " paths out: a command is refused if it cannot be told where it writes."
    )
    return builtin_tool("Bash", description, BashInput, _bash, workspace)


async def _bash(workspace: Workspace, asked: BashInput, context: ToolContext) -> str:
    env = command_environment(workspace.bash_env)
    await handler_threads.run(_check_writes, asked.command, workspace, context, env)
    milliseconds = asked.timeout_ms or workspace.bash_timeout_ms
    command = _Command(asked.command, workspace.cwd, env)
    stop = AbortSignal.any((context.signal, context.interrupt))
    try:
        ended = await command.run(milliseconds / 1000, stop)
        text = render(command.captures, workspace.output_dir)
    finally:
        stop.release()
        command.close()
    if ended == "timeout":
        raise LatticeError(
            _with_output(f"timeout: the command ran longer than {milliseconds} ms and was stopped", text)
        )
    if ended == "aborted":
        raise LatticeError(_with_output("the command was stopped because the operation was aborted", text))
    if command.exit_code != 0:
        raise LatticeError(_with_output(_describe_exit(command.exit_code), text))
    return text


def command_environment(added: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a command gets: harmless ones of this process, then what the host added.

    Everything else stays here: keys of providers and passwords of stores live in environment variables.
    """
    kept = {name: value for name, value in os.environ.items() if _HARMLESS.fullmatch(name)}
    return {**kept, **added}


def _check_writes(command: str, workspace: Workspace, context: ToolContext, env: Mapping[str, str]) -> None:
    roots = roots_for_writing(workspace, context)
    for write in find_writes(command, workspace.cwd, env):
        if write.path is not None:
            check_inside(write.path, roots, tool="Bash")
            continue
        raise ToolPermissionDeniedError(
            PermissionDenial(
                tool="Bash",
                operation="write",
                requested_path=write.text,
                reason=(
                    f"It cannot be told what {write.by} would write before the command has run, so it may lie outside"
                    " allowed write roots. Spell the path out, and split the command into simple steps."
                ),
                reason_code="unknown_target",
                allowed_roots=tuple(map(str, roots)),
            )
        )


def _with_output(what: str, text: str) -> str:
    return f"{what}\n{text}" if text else what


def _describe_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"exit code {code}: killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"exit code {code}"


class _Command:
    """One run of the shell, and everything that it started in its process group."""

    def __init__(self, command: str, cwd: Path, env: Mapping[str, str]) -> None:
        self._command = command
        self._cwd = cwd
        self._env = env
        self._pid = 0
        self.captures: list[Capture] = []
        self.exit_code = 0

    async def run(self, seconds: float, stop: AbortSignal) -> str:
        """Run to the end; returns ``"done"``, ``"timeout"`` or ``"aborted"``."""
        process = await self._start()
        waiting = asyncio.ensure_future(process.wait())
        try:
            ended = await _first(waiting, stop, seconds)
            if ended != "done":
                await self._terminate(waiting)
        except asyncio.CancelledError:
            await self._terminate(waiting)
            raise
        finally:
            # What was started in the background goes too: nobody would ever end it.
            self._kill(signal.SIGKILL)
            if not waiting.done():
                waiting.cancel()
        self.exit_code = -signal.SIGKILL if waiting.cancelling() else waiting.result()
        await self._drain()
        return ended

    def close(self) -> None:
        """Let go of the pipes and what was kept of them."""
        for capture in self.captures:
            capture.close()

    async def _start(self) -> asyncio.subprocess.Process:
        loop = asyncio.get_running_loop()
        write_ends = []
        try:
            for _ in range(2):
                read_end, write_end = os.pipe()
                write_ends.append(write_end)
                capture = Capture(loop)
                self.captures.append(capture)
                await loop.connect_read_pipe(lambda capture=capture: capture, os.fdopen(read_end, "rb", 0))  # type: ignore[misc]
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                self._command,
                cwd=self._cwd,
                env=self._env,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=write_ends[0],
                stderr=write_ends[1],
                start_new_session=True,
            )
        finally:
            for write_end in write_ends:
                os.close(write_end)
        self._pid = process.pid
        return process

    async def _terminate(self, waiting: "asyncio.Future[int]") -> None:
        self._kill(signal.SIGTERM)
        await asyncio.wait([waiting], timeout=_TERM_SECONDS)
        self._kill(signal.SIGKILL)
        await asyncio.wait([waiting], timeout=_TERM_SECONDS)

    def _kill(self, number: signal.Signals) -> None:
        try:
            os.killpg(self._pid, number)
        except (ProcessLookupError, PermissionError):
            return

    async def _drain(self) -> None:
        # A process that left the group may hold a pipe open for ever.
        await asyncio.wait([capture.ended for capture in self.captures], timeout=_DRAIN_SECONDS)


async def _first(waiting: "asyncio.Future[int]", stop: AbortSignal, seconds: float) -> str:
    loop = asyncio.get_running_loop()
    aborted: asyncio.Future[None] = loop.create_future()
    forget = stop.add_listener(
        lambda: loop.call_soon_threadsafe(lambda: aborted.done() or aborted.set_result(None))  # type: ignore[func-returns-value]
    )
    try:
        both: list[asyncio.Future[Any]] = [waiting, aborted]
        await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        forget()
    if waiting.done():
        return "done"
    return "aborted" if aborted.done() else "timeout"
