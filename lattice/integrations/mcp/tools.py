"""Tools of an MCP server as tools of an agent."""

import inspect
import logging
from typing import Any, Protocol

from lattice.abort import AbortSignal
from lattice.errors import OptionError, ToolExecutionError
from lattice.integrations.mcp.names import model_names
from lattice.integrations.mcp.results import as_plain, read_result
from lattice.tools.tool import ToolContext, ToolDefinition

__all__ = ["CALL_TIMEOUT_MS", "MCPClient", "create_mcp_tools"]

CALL_TIMEOUT_MS = 60_000
"""How long one call may take if nothing else is said, in milliseconds."""

_PAGE_LIMIT = 1000
_MAX_NAME = 128
_MIN_NAME = 16
_OPEN_SCHEMA = {"type": "object", "additionalProperties": True}

_log = logging.getLogger("lattice.mcp")


class MCPClient(Protocol):
    """What is needed of a client: the official ``Client`` and ``ClientSession`` have it, and so may an object of yours.

    Results may be models of the official SDK or plain dicts in wire spelling.
    """

    async def list_tools(self) -> Any:
        """Return ``{"tools": [{"name", "description", "inputSchema"}], "nextCursor"?}``."""
        ...

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Return ``{"content": [...], "structuredContent"?, "isError"?}``."""
        ...


async def create_mcp_tools(
    client: Any,
    *,
    name_prefix: str | None = None,
    timeout_ms: int | None = CALL_TIMEOUT_MS,
    max_name_length: int = 64,
) -> list[ToolDefinition]:
    """List the tools of a client and return them as tools of an agent.

    Args:
        client: see ``MCPClient``.
        name_prefix: put before every name with an underscore; needed when several servers share names.
        timeout_ms: how long one call may take, in milliseconds; None is for ever.
        max_name_length: the provider's limit; longer names are shortened and end in a digest.

    Raises:
        OptionError: an option cannot be used, or ``client`` is no MCP client.
        Exception: whatever listing raises.
    """
    _check_options(client, name_prefix, max_name_length)
    listed = await _list_all(client)
    names = model_names((entry["name"] for entry in listed), prefix=name_prefix, limit=max_name_length)
    return [_definition(client, entry, names[entry["name"]], timeout_ms) for entry in listed]


def _check_options(client: Any, name_prefix: Any, max_name_length: Any) -> None:
    for method in ("list_tools", "call_tool"):
        if not callable(getattr(client, method, None)):
            raise OptionError(f"create_mcp_tools: the client must have {method}(), {client!r} has not")
    if name_prefix is not None and not isinstance(name_prefix, str):
        raise OptionError(f"name_prefix must be a text, not {name_prefix!r}")
    if not isinstance(max_name_length, int) or not _MIN_NAME <= max_name_length <= _MAX_NAME:
        raise OptionError(
            f"max_name_length must be an integer from {_MIN_NAME} to {_MAX_NAME}, not {max_name_length!r}"
        )


async def _list_all(client: Any) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    cursor: str | None = None
    for _ in range(_PAGE_LIMIT):
        page = as_plain(await _list_page(client, cursor))
        tools = page.get("tools") if isinstance(page, dict) else page
        for entry in map(as_plain, tools or ()):
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                _log.warning("an MCP server lists a tool without a name; it is left out: %.200r", entry)
            elif found.setdefault(entry["name"], entry) is not entry:
                _log.warning("an MCP server lists the tool %r twice; the first one counts", entry["name"])
        next_cursor = page.get("nextCursor", page.get("next_cursor")) if isinstance(page, dict) else None
        if not next_cursor or next_cursor == cursor:
            return list(found.values())
        cursor = next_cursor
    raise ToolExecutionError(f"the MCP server lists its tools on more than {_PAGE_LIMIT} pages")


async def _list_page(client: Any, cursor: str | None) -> Any:
    if cursor is None:
        return await client.list_tools()
    parameters = inspect.signature(client.list_tools).parameters
    if "params" in parameters and "cursor" not in parameters:
        from mcp.types import PaginatedRequestParams  # noqa: PLC0415 - only who uses MCP pays for the import

        return await client.list_tools(params=PaginatedRequestParams(cursor=cursor))
    return await client.list_tools(cursor=cursor)


def _definition(client: Any, entry: dict[str, Any], name: str, timeout_ms: int | None) -> ToolDefinition:
    original: str = entry["name"]
    given = entry.get("inputSchema", entry.get("input_schema"))
    schema = given if isinstance(given, dict) else _OPEN_SCHEMA

    async def handler(arguments: dict[str, Any], context: ToolContext) -> Any:
        stop = AbortSignal.any((context.signal, context.interrupt))
        try:
            return read_result(await stop.race(client.call_tool(original, arguments)))
        finally:
            stop.release()

    return ToolDefinition(
        name=name,
        description=entry.get("description") or f"MCP tool {original}",
        input_schema=schema,
        json_schema=schema,
        parse=_as_object,
        handler=handler,
        timeout_ms=timeout_ms,
    )


def _as_object(value: Any) -> Any:
    return value if isinstance(value, (dict, list)) else {}
