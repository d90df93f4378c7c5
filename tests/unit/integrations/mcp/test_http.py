import asyncio
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

from lattice.errors import LatticeError, OptionError, ToolExecutionError
from lattice.integrations.mcp import MCPConnectionError, connect_mcp_streamable_http_server
from lattice.tools.tool import ToolContext
from tests.redis_server import free_port

pytestmark = pytest.mark.processes


async def test_tools_calls_and_headers(http_server, call):
    """agent:MCP-09 agent:MCP-10"""
    options = {
        "client_name": "mine",
        "client_version": "7",
        "name_prefix": "remote",
        "request_init": {"headers": {"X-Workspace": "demo"}},
    }
    async with await connect_mcp_streamable_http_server(http_server.url, **options) as mcp:
        assert len(mcp.tools) == 13
        assert await call(mcp.tools, "remote_echo", {"text": "x"}) == "echo: x"
        assert await call(mcp.tools, "remote_client") == "mine 7"
    noted = [line.split()[1] for line in http_server.log.lines() if line.startswith(("POST", "GET", "DELETE"))]
    assert set(noted) == {"demo"}


async def test_a_server_that_dies_during_a_call_is_an_error_and_the_next_call_connects_again(own_server, call):
    async with await connect_mcp_streamable_http_server(own_server.url) as mcp:
        async with asyncio.timeout(30):
            with pytest.raises(LatticeError):
                await call(mcp.tools, "die")
        own_server.stop()
        with pytest.raises(LatticeError):
            await call(mcp.tools, "echo")
        with pytest.raises(MCPConnectionError):
            await call(mcp.tools, "echo")
        own_server.start()
        assert await call(mcp.tools, "echo", {"text": "back"}) == "echo: back"


async def test_a_server_that_was_restarted_costs_at_most_one_call(own_server, call):
    async with await connect_mcp_streamable_http_server(own_server.url) as mcp:
        await call(mcp.tools, "echo", {"text": "x"})
        own_server.stop()
        own_server.start()
        try:
            await call(mcp.tools, "echo", {"text": "x"})
        except ToolExecutionError as error:
            assert "went away" in str(error)
        assert await call(mcp.tools, "echo", {"text": "y"}) == "echo: y"


async def test_cancelling_a_call_ends_it_at_the_server(http_server, call):
    """agent:W-41"""
    async with await connect_mcp_streamable_http_server(http_server.url) as mcp:
        task = asyncio.create_task(call(mcp.tools, "slow", context=ToolContext()))
        await http_server.log.shows("call slow")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await http_server.log.shows("slow ended")


@pytest.mark.parametrize("http_server", ["sessions"], indirect=True)
async def test_a_session_has_an_id_and_ends_with_the_connection(http_server, call):
    """agent:MCP-09"""
    mcp = await connect_mcp_streamable_http_server(http_server.url)
    first = mcp.session_id
    assert first
    await mcp.terminate_session()
    assert mcp.session_id is None
    assert await call(mcp.tools, "echo", {"text": "x"}) == "echo: x"
    assert mcp.session_id not in {None, first}
    await mcp.close()
    assert [line for line in http_server.log.lines() if line.startswith("DELETE")] == ["DELETE None True"] * 2


@pytest.mark.parametrize("http_server", ["sessions"], indirect=True)
async def test_a_session_that_the_server_has_forgotten_is_begun_again_without_a_word(http_server, call):
    async with await connect_mcp_streamable_http_server(http_server.url) as mcp:
        async with httpx2.AsyncClient() as other:
            await other.delete(http_server.url, headers={"mcp-session-id": mcp.session_id})
        assert await call(mcp.tools, "echo", {"text": "x"}) == "echo: x"


class Storage:
    def __init__(self):
        self.tokens = self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


def oauth(server, storage=None, **handlers):
    metadata = OAuthClientMetadata(client_name="test", redirect_uris=["http://127.0.0.1:1/callback"])
    return OAuthClientProvider(server.url, metadata, storage or Storage(), **handlers)


async def user_agrees(url):
    """Go where the user is sent; returns the parameters of the way back."""
    async with httpx2.AsyncClient() as browser:
        answer = await browser.get(url)
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


@pytest.mark.parametrize("http_server", ["oauth"], indirect=True)
async def test_authorization_can_be_finished_on_the_first_connect(http_server, call):
    """agent:MCP-12 agent:W-41 agent:MCP-09"""
    provider = oauth(http_server)
    async with await connect_mcp_streamable_http_server(http_server.url, auth_provider=provider) as mcp:
        assert mcp.tools == []
        back = await user_agrees(mcp.authorization_url)
        await mcp.finish_auth(back["code"])
        assert mcp.authorization_url is None
        assert await call(mcp.tools, "echo", {"text": "x"}) == "echo: x"


@pytest.mark.parametrize("http_server", ["oauth"], indirect=True)
async def test_a_user_may_take_longer_than_a_connect(http_server, call):
    provider = oauth(http_server)
    mcp = await connect_mcp_streamable_http_server(http_server.url, auth_provider=provider, connect_timeout_ms=1000)
    async with mcp:
        await asyncio.sleep(1.2)
        back = await user_agrees(mcp.authorization_url)
        await mcp.finish_auth(back["code"], state=back["state"])
        assert len(mcp.tools) == 13


@pytest.mark.parametrize("http_server", ["oauth"], indirect=True)
async def test_a_provider_with_handlers_of_its_own_needs_no_help_and_tokens_are_used_again(http_server):
    urls = []

    async def redirect(url):
        urls.append(url)

    async def callback():
        back = await user_agrees(urls[-1])
        return AuthorizationCodeResult(code=back["code"], state=back["state"])

    storage = Storage()
    provider = oauth(http_server, storage, redirect_handler=redirect, callback_handler=callback)
    for again in (provider, oauth(http_server, storage)):
        async with await connect_mcp_streamable_http_server(http_server.url, auth_provider=again) as mcp:
            assert len(mcp.tools) == 13
    assert http_server.log.lines().count("token issued") == 1


@pytest.mark.parametrize("http_server", ["oauth"], indirect=True)
async def test_a_code_that_is_wrong_is_an_error_and_leaves_nothing_open(http_server):
    provider = oauth(http_server)
    async with await connect_mcp_streamable_http_server(http_server.url, auth_provider=provider) as mcp:
        with pytest.raises(MCPConnectionError, match="cannot be used"):
            await mcp.finish_auth("wrong")


@pytest.mark.parametrize("http_server", ["oauth"], indirect=True)
async def test_a_connection_may_be_closed_while_the_user_is_away(http_server):
    mcp = await connect_mcp_streamable_http_server(http_server.url, auth_provider=oauth(http_server))
    await mcp.close()
    with pytest.raises(OptionError, match="no authorization is under way"):
        await mcp.finish_auth("late")


async def test_finish_auth_without_an_auth_provider_is_refused(http_server):
    async with await connect_mcp_streamable_http_server(http_server.url) as mcp:
        assert mcp.authorization_url is None
        with pytest.raises(OptionError, match="auth_provider"):
            await mcp.finish_auth("x")


async def test_nobody_at_the_address_is_named():
    url = f"http://127.0.0.1:{free_port()}/mcp"
    with pytest.raises(MCPConnectionError, match=url):
        await connect_mcp_streamable_http_server(url)


async def test_an_address_that_is_no_mcp_server_is_named(http_server):
    with pytest.raises(LatticeError, match="cannot be used|no MCP|Not Found|nonsense"):
        await connect_mcp_streamable_http_server(http_server.url + "/other", connect_timeout_ms=5000)


@pytest.mark.parametrize(
    "options", [{"url": "example.com/mcp"}, {"url": "http://x", "request_init": {"method": "GET"}}]
)
async def test_options_that_cannot_be_used_are_refused(options):
    with pytest.raises(OptionError):
        await connect_mcp_streamable_http_server(**options)
