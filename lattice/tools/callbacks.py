"""Callbacks of the host, which may be ``def`` or ``async def``."""

import inspect
from typing import Any

__all__ = ["settled"]


async def settled(returned: Any) -> Any:
    """Return what a callback came to, given what calling it returned."""
    return await returned if inspect.isawaitable(returned) else returned
