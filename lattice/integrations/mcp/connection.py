"""A connection to an MCP server that outlives the server: it is opened again by the next call after it broke.

The SDK wants a connection to be opened and closed by one and the same task. So each connection has a keeper, a task of
its own; whoever calls or closes may be any task of the loop.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Self

from lattice.errors import LatticeError, ToolExecutionError
from lattice.integrations.mcp.tools import create_mcp_tools
from lattice.tools.tool import ToolDefinition

__all__ = ["MCPConnection", "MCPConnectionError"]

_LAST_WORDS_SECONDS = 1.0

_log = logging.getLogger("lattice.mcp")

Opener = Callable[[Callable[[Any], Any]], AbstractAsyncContextManager[Any]]
"""Makes a client of the official SDK, not entered yet; hands its transport to the function first."""


class MCPConnectionError(LatticeError):
    """An MCP server cannot be reached, or does not speak MCP."""


class MCPConnection:
    """A connected MCP server: ``tools`` for an agent, ``client`` to call it directly, ``close()`` when done.

    Also works as ``async with``. Made by ``connect_mcp_stdio_server()`` and ``connect_mcp_streamable_http_server()``.
    """

    def __init__(self, label: str, opener: Opener, *, connect_timeout_ms: int, tool_options: dict[str, Any]) -> None:
        self.label = label
        self.tools: list[ToolDefinition] = []
        self._opener = opener
        self._connect_seconds = connect_timeout_ms / 1000
        self._tool_options = tool_options
        self._lock = asyncio.Lock()
        self._keeper: _Keeper | None = None
        self._closed = False

    @property
    def client(self) -> Self:
        """The MCP client: ``list_tools()`` and ``call_tool(name, arguments)``."""
        return self

    @property
    def connected(self) -> bool:
        """Whether the server is there, as far as is known; a call connects if it is not."""
        return self._keeper is not None and not self._keeper.broken

    async def open(self) -> None:
        """Connect and list the tools; nothing is left open if that fails.

        Raises:
            MCPConnectionError: the server cannot be reached, or does not answer as an MCP server does.
        """
        try:
            await self.refresh_tools()
        except BaseException:
            await self.close()
            raise

    async def refresh_tools(self) -> list[ToolDefinition]:
        """List the tools of the server again; ``tools`` is renewed in place."""
        self.tools[:] = await create_mcp_tools(self, **self._tool_options)
        return self.tools

    async def list_tools(self, cursor: str | None = None) -> Any:
        """Return one page of the server's tools."""
        return await self._request(lambda client: client.list_tools(cursor=cursor, cache_mode="refresh"))

    async def call_tool(self, name: str, arguments: dict[str, Any] | None = None) -> Any:
        """Call a tool by the server's name for it.

        Raises:
            ToolExecutionError: the server refused the call, or went away during it.
            MCPConnectionError: the server cannot be reached.
        """
        return await self._request(lambda client: client.call_tool(name, arguments or {}))

    async def close(self) -> None:
        """Close the connection; a server that was started for it is ended. May be called twice, and from any task."""
        self._closed = True
        if self._keeper is not None:
            await self._keeper.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _request(self, send: Callable[[Any], Any]) -> Any:
        from mcp import MCPError  # noqa: PLC0415 - only who uses MCP pays for the import

        for last in (False, True):
            keeper = await self._connected()
            try:
                return await send(keeper.client)
            except MCPError as error:
                if not last and self._session_was_forgotten():
                    await keeper.close()  # the server did not take the request: ask again in a new session
                    continue
                raise await self._explained(keeper, error) from error
            except (ValueError, RuntimeError) as error:
                raise ToolExecutionError(f"the MCP server {self.label} answered nonsense: {error}") from error
        raise AssertionError("unreachable")

    async def _explained(self, keeper: "_Keeper", error: Exception) -> Exception:
        if not keeper.broken:
            return ToolExecutionError(str(error))
        cause = await keeper.last_words()
        if type(cause).__name__ == "ConnectError":
            return MCPConnectionError(f"the MCP server {self.label} cannot be reached: {cause}", cause=cause)
        reason = "" if cause is None else f" ({describe(cause)})"
        return ToolExecutionError(
            f"the MCP server {self.label} went away during the call{reason}. Whether it was carried out is unknown;"
            " the next call connects again."
        )

    def _session_was_forgotten(self) -> bool:
        """Whether the server has just refused a request because it does not know the session."""
        return False

    def _waits_for_user(self) -> bool:
        """Whether connecting takes as long as a person takes."""
        return False

    async def _connected(self) -> "_Keeper":
        async with self._lock:
            if self._closed:
                raise MCPConnectionError(f"the connection to the MCP server {self.label} is closed")
            if self._keeper is None or self._keeper.broken:
                if self._keeper is not None:
                    await self._keeper.close()
                self._keeper = _Keeper(self.label, self._opener)
                await self._keeper.open(self._connect_seconds, self._waits_for_user)
            return self._keeper


class _Keeper:
    """Holds one SDK client open in a task of its own, until it is told to close or the server ends."""

    def __init__(self, label: str, opener: Opener) -> None:
        self.client: Any = None
        self._label = label
        self._opener = opener
        self._ready = asyncio.Event()
        self._ended = asyncio.Event()
        self._failure: BaseException | None = None
        self._task = asyncio.create_task(self._keep(), name=f"mcp {label}")

    @property
    def broken(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._ended.is_set() or self._task.done()

    async def open(self, seconds: float, patient: Callable[[], bool]) -> None:
        """Return when the client can be used; while ``patient()`` says so, time does not count."""
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait({ready, self._task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            while not (ready.done() or self._task.done()) and patient():
                await asyncio.wait({ready, self._task}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            self._check_usable(seconds)
        except BaseException:
            await self.close()
            raise
        finally:
            ready.cancel()

    async def close(self) -> None:
        """End the client; returns when nothing of it is left."""
        if not self._ready.is_set():
            self._task.cancel()
        self._ended.set()
        await asyncio.wait({self._task})

    async def last_words(self) -> BaseException | None:
        """Return what broke the connection, if that can be known soon."""
        await asyncio.wait({self._task}, timeout=_LAST_WORDS_SECONDS)
        return self._failure

    async def _keep(self) -> None:
        try:
            async with self._opener(self._watched) as client:
                self.client = client
                self._ready.set()
                await self._ended.wait()
        except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001 - kept for whoever asks: nobody awaits this task
            self._failure = _innermost(error)
            if self._ready.is_set():
                _log.info("the connection to the MCP server %s broke: %s", self._label, self._failure)

    def _check_usable(self, seconds: float) -> None:
        if self._ready.is_set():
            return
        if not self._task.done():
            text = f"the MCP server {self._label} did not answer within {seconds:g} s; is it an MCP server?"
        elif self._failure is None:
            text = f"the connection to the MCP server {self._label} was closed before it was open"
        else:
            text = f"the MCP server {self._label} cannot be used: {describe(self._failure)}"
        raise MCPConnectionError(text, cause=self._failure)

    def _watched(self, transport: Any) -> "_WatchedTransport":
        return _WatchedTransport(transport, self._ended)


class _WatchedTransport:
    """A transport that sets an event when nothing more will be read from it."""

    def __init__(self, transport: Any, ended: asyncio.Event) -> None:
        self._transport = transport
        self._ended = ended

    async def __aenter__(self) -> Any:
        read, write = await self._transport.__aenter__()
        return _WatchedStream(read, self._ended), write

    async def __aexit__(self, *arguments: object) -> Any:
        return await self._transport.__aexit__(*arguments)


class _WatchedStream:
    def __init__(self, stream: Any, ended: asyncio.Event) -> None:
        self._stream = stream
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except BaseException:
            self._ended.set()
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *arguments: object) -> Any:
        return await self._stream.__aexit__(*arguments)


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return error


def describe(error: BaseException) -> str:
    """Return the text of an error, or its kind if it has none."""
    return str(error) or type(error).__name__
