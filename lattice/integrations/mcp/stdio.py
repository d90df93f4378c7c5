"""MCP servers that run as child processes and talk over their pipes."""

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TextIO

from lattice.errors import OptionError
from lattice.integrations.mcp.connection import MCPConnection, MCPConnectionError
from lattice.integrations.mcp.options import CONNECT_TIMEOUT_MS, make_client, tool_options
from lattice.integrations.mcp.tools import CALL_TIMEOUT_MS

__all__ = ["MCPStdioConnection", "connect_mcp_stdio_server"]

_SERVER_KEYS = ("command", "args", "env", "cwd", "encoding")


class MCPStdioConnection(MCPConnection):
    """A connected stdio server; it ends with the connection, or with this process."""


async def connect_mcp_stdio_server(
    server: Mapping[str, Any],
    *,
    name_prefix: str | None = None,
    client_name: str = "agent-lattice",
    client_version: str = "0.1.0",
    timeout_ms: int | None = CALL_TIMEOUT_MS,
    connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
    max_name_length: int = 64,
    stderr: TextIO | None = None,
) -> MCPStdioConnection:
    """Start an MCP server, connect to it and list its tools.

    Args:
        server: ``{"command": "python", "args": ["server.py"], "env": {...}, "cwd": "..."}``. The server inherits only
            a few variables (PATH, HOME, ...); ``env`` adds to them.
        name_prefix: put before the name of every tool with an underscore.
        client_name: how this client introduces itself.
        client_version: as above.
        timeout_ms: how long one call may take, in milliseconds; None is for ever.
        connect_timeout_ms: how long the server may take to answer for the first time.
        max_name_length: the provider's limit for tool names.
        stderr: where the server's own messages go; to this process's by default.

    Raises:
        OptionError: ``server`` has no command, or keys that nobody knows.
        MCPConnectionError: the command cannot be run, or is no MCP server.
    """
    parameters = _server_parameters(server)
    label = " ".join([parameters["command"], *parameters.get("args", ())])

    def opener(watched: Any) -> AbstractAsyncContextManager[Any]:
        from mcp import StdioServerParameters, stdio_client  # noqa: PLC0415 - only who uses MCP pays for the import

        transport = stdio_client(StdioServerParameters(**parameters), errlog=_usable(stderr))
        return make_client(watched(transport), client_name, client_version)

    connection = MCPStdioConnection(
        f'"{label}"',
        opener,
        connect_timeout_ms=connect_timeout_ms,
        tool_options=tool_options(name_prefix, timeout_ms, max_name_length),
    )
    await connection.open()
    return connection


def _server_parameters(server: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(server) - set(_SERVER_KEYS))
    if unknown:
        raise OptionError(f'MCP server: unknown option "{unknown[0]}"; known are {", ".join(_SERVER_KEYS)}')
    command = server.get("command")
    if not isinstance(command, str) or not command:
        raise OptionError(f"MCP server: command must name a program, not {command!r}")
    search_path = (server.get("env") or {}).get("PATH", os.environ.get("PATH"))
    if os.sep not in command and shutil.which(command, path=search_path) is None:
        raise MCPConnectionError(f'the MCP server "{command}" cannot be started: there is no such command on the PATH')
    return {key: value for key, value in server.items() if value is not None}


def _usable(stderr: TextIO | None) -> TextIO:
    for stream in (stderr, sys.stderr, sys.__stderr__):
        try:
            if stream is not None and stream.fileno() >= 0:
                return stream
        except (OSError, ValueError):
            continue
    raise OptionError("MCP server: there is no usable stderr; pass stderr=open(os.devnull, 'w')")
