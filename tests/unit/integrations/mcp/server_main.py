"""An MCP server written with the official SDK, run as a process by the tests: ``server_main.py KIND [port]``."""

import asyncio
import os
import secrets
import signal
import sys
import time
from pathlib import Path

import uvicorn
from mcp import types
from mcp.server.auth.provider import AccessToken, AuthorizationCode, ProviderTokenVerifier, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.auth import OAuthToken

OBJECT = {"type": "object", "properties": {"text": {"type": "string"}}}
PNG = "iVBORw0KGgo="
NAMES = [
    "echo",
    "a.b/c d",
    "a_b/c:d",
    "x" * 200,
    "picture",
    "structured",
    "fail",
    "slow",
    "die",
    "pid",
    "日本",
    "env",
    "client",
]
PAGE = 5


async def list_tools(_context, params):
    start = int((params and params.cursor) or 0)
    names = NAMES[start : start + PAGE]
    tools = [types.Tool(name=name, description=f"The tool {name}.", input_schema=OBJECT) for name in names]
    more = str(start + PAGE) if start + PAGE < len(NAMES) else None
    return types.ListToolsResult(tools=tools, next_cursor=more)


def text(words):
    return types.TextContent(type="text", text=words)


async def call_tool(_context, params):
    name, arguments = params.name, params.arguments or {}
    log(f"call {name}")
    if name == "picture":
        image = types.ImageContent(type="image", data=PNG, mime_type="image/png")
        return types.CallToolResult(content=[text("Look:"), image])
    if name == "structured":
        return types.CallToolResult(content=[text("done")], structured_content={"total": 3})
    if name == "fail":
        return types.CallToolResult(content=[text("no such page")], is_error=True)
    if name == "slow":
        try:
            await asyncio.sleep(3600)
        finally:
            log("slow ended")
    if name == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "client":
        client = _context.session.client_params.client_info
        return types.CallToolResult(content=[text(f"{client.name} {client.version}")])
    if name == "pid":
        return types.CallToolResult(content=[text(str(os.getpid()))])
    if name == "env":
        return types.CallToolResult(content=[text(repr(sorted(os.environ)))])
    return types.CallToolResult(content=[text(f"{name}: {arguments.get('text')}")])


def log(line):
    path = os.environ.get("SERVER_LOG")
    if path:
        with Path(path).open("a") as file:
            file.write(line + "\n")


def make_server():
    return Server("test-server", on_list_tools=list_tools, on_call_tool=call_tool)


async def run_stdio():
    server = make_server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


class Announcing(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)


def serve(app, port):
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", timeout_graceful_shutdown=0)
    Announcing(config).run()


def noting(app):
    """Writes down what every HTTP request carries."""

    async def noted(scope, receive, send):
        if scope["type"] == "http":
            headers = {key.decode(): value.decode() for key, value in scope["headers"]}
            log(f"{scope['method']} {headers.get('x-workspace')} {headers.get('mcp-session-id') is not None}")
        await app(scope, receive, send)

    return noted


def without_discovery(app):
    """As servers were before 2026: they know no server/discover, and keep sessions."""

    async def older(scope, receive, send):
        headers = dict(scope.get("headers", ()))
        if headers.get(b"mcp-method") == b"server/discover":
            await send({"type": "http.response.start", "status": 404, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        await app(scope, receive, send)

    return older


class Consent:
    """An authorization server whose user always agrees."""

    def __init__(self):
        self.clients, self.codes, self.tokens = {}, {}, {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client):
        self.clients[client.client_id] = client

    async def authorize(self, client, params):
        code = secrets.token_urlsafe(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            client_id=client.client_id,
            scopes=params.scopes or [],
            expires_at=time.time() + 600,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, _client, code):
        return self.codes.get(code)

    async def exchange_authorization_code(self, client, code):
        token = secrets.token_urlsafe(16)
        del self.codes[code.code]
        self.tokens[token] = AccessToken(
            token=token, client_id=client.client_id, scopes=code.scopes, resource=code.resource
        )
        log("token issued")
        return OAuthToken(access_token=token, token_type="Bearer", expires_in=3600)

    async def load_access_token(self, token):
        return self.tokens.get(token)

    async def load_refresh_token(self, _client, _token):
        return None


def guarded_app(port):
    url = f"http://127.0.0.1:{port}"
    registration = ClientRegistrationOptions(enabled=True)
    settings = AuthSettings(
        issuer_url=url,
        resource_server_url=f"{url}/mcp",
        client_registration_options=registration,
        validate_token_resource=True,
    )
    consent = Consent()
    verifier = ProviderTokenVerifier(consent)
    return make_server().streamable_http_app(auth=settings, auth_server_provider=consent, token_verifier=verifier)


if __name__ == "__main__":
    kind, port = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if kind == "stdio":
        asyncio.run(run_stdio())
    elif kind == "http":
        serve(noting(make_server().streamable_http_app()), port)
    elif kind == "sessions":
        serve(noting(without_discovery(make_server().streamable_http_app())), port)
    elif kind == "oauth":
        serve(guarded_app(port), port)
