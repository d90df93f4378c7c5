"""Deadlines of questions: how long an agent waits for the one that it asked."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lattice.abort import AbortController, AbortSignal
from lattice.errors import AskTimeoutError, OptionError

__all__ = ["GRACE", "late", "read_ask_timeout", "within"]

T = TypeVar("T")

GRACE = 2.0
"""Seconds that an agent has to end after its signal has fired, before it is cut off."""


def read_ask_timeout(value: object, whose: str) -> int | None:
    """Return the milliseconds that an option allows for an answer; None is for ever.

    Raises:
        OptionError: it is no positive integer.
    """
    if value is None:
        return None
    if type(value) is not int or value <= 0:
        raise OptionError(f"{whose}: ask_timeout_ms must be a positive integer, not {value!r}")
    return value


def late(name: str, timeout_ms: int) -> AskTimeoutError:
    """Return the error of a question that ``name`` has not answered in time."""
    seconds = timeout_ms / 1000
    return AskTimeoutError(f"{name} has not answered within {seconds:g} s; the question was cancelled")


async def within(
    timeout_ms: int | None,
    name: str,
    signal: AbortSignal | None,
    ask: Callable[[AbortSignal | None], Awaitable[T]],
) -> T:
    """Ask with a signal that fires when the caller's does or the time is up; return the answer.

    Raises:
        AskTimeoutError: the time was up.
    """
    if timeout_ms is None:
        return await ask(signal)
    stop = AbortController()
    either = AbortSignal.any([signal, stop.signal])
    timer = asyncio.get_running_loop().call_later(timeout_ms / 1000, stop.abort, late(name, timeout_ms))
    try:
        async with asyncio.timeout(timeout_ms / 1000 + GRACE):
            answer = await ask(either)
    except TimeoutError:
        if stop.signal.aborted:
            raise late(name, timeout_ms) from None
        raise
    finally:
        timer.cancel()
        either.release()
    if stop.signal.aborted and getattr(answer, "is_error", False):
        raise late(name, timeout_ms)
    return answer
