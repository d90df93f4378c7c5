"""MCP servers behind a URL (Streamable HTTP), with OAuth if they ask for it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from lattice.errors import OptionError
from lattice.integrations.mcp.authorization import Authorization
from lattice.integrations.mcp.connection import MCPConnection
from lattice.integrations.mcp.options import CONNECT_TIMEOUT_MS, make_client, tool_options
from lattice.integrations.mcp.tools import CALL_TIMEOUT_MS

__all__ = ["MCPStreamableHTTPConnection", "connect_mcp_streamable_http_server"]

_SESSION_HEADER = "mcp-session-id"
_VERSION_HEADER = "mcp-protocol-version"
_NOT_FOUND = 404
_GOODBYE_SECONDS = 2.0
_HTTP_SECONDS = 30.0
_SILENCE_SECONDS = 300.0
"""How long a server may keep a response open and say nothing; it may be at work on a call."""


class MCPStreamableHTTPConnection(MCPConnection):
    """A connected server behind a URL.

    If the server asks for authorization and nobody handles it, the connection comes back with ``authorization_url`` set
    and without tools: send the user there, and pass what came back to ``finish_auth()``.
    """

    _link: "_Link"
    _authorization: Authorization | None = None

    @property
    def session_id(self) -> str | None:
        """The id of the session, if the server keeps sessions."""
        return self._link.session_id

    @property
    def authorization_url(self) -> str | None:
        """Where the user must go before the server can be used; None if nowhere."""
        return None if self._authorization is None else self._authorization.pending_url

    async def finish_auth(self, code: str, *, state: str | None = None) -> None:
        """Hand over the authorization code that the user came back with, connect, and list the tools.

        Args:
            code: the ``code`` parameter of the redirect.
            state: its ``state`` parameter; without it the host vouches for having compared it.

        Raises:
            OptionError: no authorization is under way.
            MCPConnectionError: the server does not accept the code.
        """
        if self._authorization is None:
            raise OptionError("finish_auth: this connection has no auth_provider")
        if not await self._authorization.finish(code, state):
            await self.refresh_tools()

    async def terminate_session(self) -> None:
        """Tell the server to forget the session; the next call begins a new one."""
        await self._link.say_goodbye()
        if self._keeper is not None:
            await self._keeper.close()

    async def open(self) -> None:
        """Connect and list the tools, or return when the user has to authorize first."""
        if self._authorization is None:
            await super().open()
        else:
            await self._authorization.open(super().open())

    async def close(self) -> None:
        """Close the connection and tell the server to forget the session."""
        if self._authorization is not None:
            self._authorization.give_up()
        await super().close()

    def _session_was_forgotten(self) -> bool:
        return self._link.forgotten

    def _waits_for_user(self) -> bool:
        return self._authorization is not None and self._authorization.waiting


async def connect_mcp_streamable_http_server(
    url: str,
    *,
    name_prefix: str | None = None,
    client_name: str = "agent-lattice",
    client_version: str = "0.1.0",
    headers: Mapping[str, str] | None = None,
    request_init: Mapping[str, Any] | None = None,
    auth_provider: Any = None,
    timeout_ms: int | None = CALL_TIMEOUT_MS,
    connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
    max_name_length: int = 64,
) -> MCPStreamableHTTPConnection:
    """Connect to an MCP server behind a URL and list its tools.

    Args:
        url: the endpoint, for instance ``https://mcp.example.com/mcp``.
        name_prefix: put before the name of every tool with an underscore.
        client_name: how this client introduces itself.
        client_version: as above.
        headers: sent with every request.
        request_init: ``{"headers": {...}}``, the documented spelling of the same.
        auth_provider: an ``OAuthClientProvider`` of the official SDK, or any authentication of its HTTP library.
        timeout_ms: how long one call may take, in milliseconds; None is for ever.
        connect_timeout_ms: how long the server may take to answer for the first time.
        max_name_length: the provider's limit for tool names.

    Raises:
        OptionError: an option cannot be used.
        MCPConnectionError: the server cannot be reached, or is no MCP server.
    """
    if not str(url).startswith(("http://", "https://")):
        raise OptionError(f"the URL of an MCP server must begin with http:// or https://, not {url!r}")
    authorization = Authorization(auth_provider) if hasattr(auth_provider, "context") else None
    link = _Link(url, _headers(headers, request_init), auth_provider, client_name, client_version)
    connection = MCPStreamableHTTPConnection(
        url,
        link.opener,
        connect_timeout_ms=connect_timeout_ms,
        tool_options=tool_options(name_prefix, timeout_ms, max_name_length),
    )
    connection._link = link  # noqa: SLF001 - the factory completes what it makes
    connection._authorization = authorization  # noqa: SLF001 - as above
    await connection.open()
    return connection


def _headers(headers: Mapping[str, str] | None, request_init: Mapping[str, Any] | None) -> dict[str, str]:
    given = {} if request_init is None else request_init
    unknown = sorted(set(given) - {"headers"})
    if unknown:
        raise OptionError(f'request_init: unknown option "{unknown[0]}"; only headers is known')
    merged: dict[str, str] = dict(given.get("headers", {}))
    merged.update(headers or {})
    return merged


class _Link:
    """Makes HTTP clients for one endpoint, and remembers the session that the server gave."""

    def __init__(self, url: str, headers: dict[str, str], auth: Any, client_name: str, client_version: str) -> None:
        self._url = url
        self._headers = headers
        self._auth = auth
        self._name = client_name
        self._version = client_version
        self._http: Any = None
        self._protocol: str | None = None
        self.session_id: str | None = None
        self.forgotten = False

    @asynccontextmanager
    async def _client(self, watched: Any) -> AsyncIterator[Any]:
        import httpx2  # noqa: PLC0415 - only who uses MCP pays for the import
        from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - as above

        async with AsyncExitStack() as stack:
            timeout = httpx2.Timeout(_HTTP_SECONDS, read=_SILENCE_SECONDS)
            http = httpx2.AsyncClient(headers=self._headers, auth=self._auth, timeout=timeout)
            await stack.enter_async_context(http)
            http.event_hooks = {"request": [self._note_request], "response": [self._note_response]}
            self._http, self.session_id, self.forgotten = http, None, False
            if hasattr(self._auth, "context"):
                await self._authorize(http)
            transport = streamable_http_client(self._url, http_client=http, terminate_on_close=False)
            client = await stack.enter_async_context(make_client(watched(transport), self._name, self._version))
            stack.push_async_callback(self.say_goodbye)
            yield client

    def opener(self, watched: Any) -> AbstractAsyncContextManager[Any]:
        """Make a client of the official SDK for the endpoint."""
        return self._client(watched)

    async def say_goodbye(self) -> None:
        """End the session at the server, if there is one and the server lets us."""
        session_id, self.session_id = self.session_id, None
        if session_id is None or self._http is None or self._http.is_closed:
            return
        headers = {_SESSION_HEADER: session_id}
        if self._protocol is not None:
            headers[_VERSION_HEADER] = self._protocol
        try:
            await self._http.request("DELETE", self._url, headers=headers, timeout=_GOODBYE_SECONDS)
        except Exception:  # noqa: BLE001 - the server will forget the session by itself
            return

    async def _authorize(self, http: Any) -> None:
        # Asks before the handshake does: a user takes longer than a handshake may.
        async with http.stream("GET", self._url, headers={"accept": "text/event-stream"}):
            return

    async def _note_request(self, request: Any) -> None:
        self._protocol = request.headers.get(_VERSION_HEADER, self._protocol)

    async def _note_response(self, response: Any) -> None:
        if response.request.method == "DELETE":
            return
        if response.status_code == _NOT_FOUND and _SESSION_HEADER in response.request.headers:
            self.session_id, self.forgotten = None, True
        else:
            self.session_id = response.headers.get(_SESSION_HEADER, self.session_id)
