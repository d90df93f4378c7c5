"""Notices when the event loop is blocked: by a tool that computes, or by an import."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

__all__ = ["watch_event_loop"]


@asynccontextmanager
async def watch_event_loop(
    on_stall: Callable[[float], None], *, threshold: float = 0.5, interval: float = 0.5
) -> AsyncIterator[None]:
    """Call ``on_stall(seconds)`` each time the running loop was late by more than ``threshold`` seconds.

    Args:
        on_stall: called in the loop, after it has come back.
        threshold: seconds that count as a stall.
        interval: seconds between two looks.
    """
    task = asyncio.create_task(_watch(on_stall, threshold, interval))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _watch(on_stall: Callable[[float], None], threshold: float, interval: float) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + interval
        await asyncio.sleep(interval)
        late = loop.time() - due
        if late > threshold:
            on_stall(late)
