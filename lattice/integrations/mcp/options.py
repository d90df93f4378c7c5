"""What both kinds of MCP connections have in common."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from lattice.errors import OptionError

__all__ = ["CONNECT_TIMEOUT_MS", "make_client", "tool_options"]

CONNECT_TIMEOUT_MS = 30_000
"""How long a server may take to answer for the first time, in milliseconds."""


def tool_options(name_prefix: str | None, timeout_ms: int | None, max_name_length: int) -> dict[str, Any]:
    """Return the options of ``create_mcp_tools``, checked.

    Raises:
        OptionError: the timeout is no number of milliseconds.
    """
    if timeout_ms is not None and timeout_ms <= 0:
        raise OptionError(f"timeout_ms must be a positive integer number of milliseconds, not {timeout_ms!r}")
    return {"name_prefix": name_prefix, "timeout_ms": timeout_ms, "max_name_length": max_name_length}


def make_client(transport: Any, name: str, version: str) -> AbstractAsyncContextManager[Any]:
    """Make a client of the official SDK over a transport."""
    from mcp import Client  # noqa: PLC0415 - only who uses MCP pays for the import
    from mcp.types import Implementation  # noqa: PLC0415 - as above

    return Client(transport, client_info=Implementation(name=name, version=version))
