"""Runs one handler: in the loop or in a thread, stopped by an abort, a deadline or a cancelled task."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from lattice.abort import AbortSignal
from lattice.errors import AbortError, TimeoutError  # noqa: A004 - the documented name
from lattice.tools.threads import handler_threads
from lattice.tools.tool import ToolContext, ToolDefinition

__all__ = ["GRACE_SECONDS", "NotBegunError", "call_handler"]

GRACE_SECONDS = 1.0
"""How long a handler that was told to stop may take to return before it is cancelled."""

_log = logging.getLogger("lattice.tools")


class NotBegunError(Exception):
    """The handler was not called, because of its ``__cause__``."""


Begin = Callable[[], Awaitable[None]]
"""Makes sure at the last moment that a handler may be called: nothing else runs between the two."""


async def call_handler(
    definition: ToolDefinition,
    value: Any,
    context: ToolContext,
    signal: AbortSignal | None,
    begin: Begin | None = None,
) -> Any:
    """Return what the handler returns, or raise what it raises.

    Raises:
        AbortError: ``signal`` fired and the handler did not return within its second of grace.
        TimeoutError: the tool's own deadline passed.
        NotBegunError: ``begin`` raised.
    """
    arguments = (value, context) if definition.takes_context else (value,)
    if definition.is_async and signal is None and definition.timeout_ms is None:
        await _begin(begin)
        return await definition.handler(*arguments)
    if not definition.is_async:
        _ = context.signal  # made here, so that the thread and the loop see the same one
    work = asyncio.ensure_future(_contained(definition, arguments, begin))
    seconds = None if definition.timeout_ms is None else definition.timeout_ms / 1000
    why = await _first(work, signal, seconds)
    if why == "done":
        return _outcome(work)
    return await _stop(definition, work, context, why)


async def _begin(begin: Begin | None) -> None:
    if begin is None:
        return
    try:
        await begin()
    except Exception as error:
        raise NotBegunError from error


async def _contained(
    definition: ToolDefinition, arguments: tuple[Any, ...], begin: Begin | None
) -> tuple[Any, BaseException | None]:
    # A task must not end with SystemExit or KeyboardInterrupt: asyncio would stop the loop under everybody's feet.
    try:
        await _begin(begin)
        if definition.is_async:
            return await definition.handler(*arguments), None
        returned = await handler_threads.run(definition.handler, *arguments)
        return (await returned if inspect.isawaitable(returned) else returned), None
    except BaseException as error:  # noqa: BLE001 - handed on by _outcome
        return None, error


async def _first(work: "asyncio.Task[Any]", signal: AbortSignal | None, seconds: float | None) -> str:
    """Wait for the first of: work is done, the signal fires, the time is up, this task is cancelled."""
    loop = asyncio.get_running_loop()
    wake: asyncio.Future[str] = loop.create_future()

    def settle(why: str) -> None:
        if not wake.done():
            wake.set_result(why)

    def done(_work: Any) -> None:
        settle("done")

    work.add_done_callback(done)
    forget = None if signal is None else signal.add_listener(lambda: loop.call_soon_threadsafe(settle, "aborted"))
    timer = None if seconds is None else loop.call_later(seconds, settle, "timeout")
    try:
        return await wake
    except asyncio.CancelledError:
        return "done" if work.done() else "cancelled"
    finally:
        work.remove_done_callback(done)
        if forget is not None:
            forget()
        if timer is not None:
            timer.cancel()


async def _stop(definition: ToolDefinition, work: "asyncio.Task[Any]", context: ToolContext, why: str) -> Any:
    reason = _reason(definition, why)
    context.stop(reason)
    graceful = why == "aborted" or (why == "cancelled" and not definition.is_async)
    if graceful and await _first(work, None, GRACE_SECONDS) == "done":
        return _outcome(work)
    work.cancel()
    if await _first(work, None, GRACE_SECONDS) != "done":
        _log.warning("tool %s ignores that it was cancelled and still runs", definition.name)
    elif why == "cancelled":
        return _outcome(work)
    raise reason


def _reason(definition: ToolDefinition, why: str) -> BaseException:
    if why == "timeout":
        return TimeoutError(f"timed out after {definition.timeout_ms} ms")
    if why == "aborted":
        return AbortError(
            f"Tool {definition.name} was cancelled because the operation was aborted. It had started: check what it"
            " did before you repeat it."
        )
    return asyncio.CancelledError()


def _outcome(work: "asyncio.Task[tuple[Any, BaseException | None]]") -> Any:
    if work.cancelled():
        raise asyncio.CancelledError
    returned, error = work.result()
    if error is not None:
        raise error
    return returned
