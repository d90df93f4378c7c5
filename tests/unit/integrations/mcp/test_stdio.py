import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from lattice.abort import AbortController
from lattice.errors import AbortError, OptionError, ToolExecutionError
from lattice.integrations.mcp import MCPConnectionError, connect_mcp_stdio_server, create_mcp_tools
from lattice.tools.tool import ToolContext

pytestmark = pytest.mark.processes


def children():
    """The pids of all children of this process, dead ones that nobody has waited for included."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, _, rest = status.read_text().partition(" (")
            if int(rest.rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(pid))
    return found


@pytest.fixture(autouse=True)
def no_child_is_left():
    before = children()
    yield
    assert children() - before == set()


async def test_tools_of_all_pages_with_clean_names_and_calls_by_the_original_ones(stdio_server, call):
    """agent:MCP-01 agent:MCP-03 agent:MCP-09"""
    async with await connect_mcp_stdio_server(stdio_server(), name_prefix="docs") as mcp:
        names = [definition.name for definition in mcp.tools]
        assert len(names) == len(set(names)) == 13
        assert names[0] == "docs_echo"
        assert max(map(len, names)) == 64
        assert await call(mcp.tools, "docs_echo", {"text": "é 😀"}) == "echo: é 😀"
        for definition in mcp.tools[1:4]:
            assert (await call(mcp.tools, definition.name, {"text": "x"})).endswith(": x")
        assert (await mcp.client.call_tool("a.b/c d", {"text": "y"})).content[0].text == "a.b/c d: y"


async def test_images_structured_content_failures_and_calls_side_by_side(stdio_server, call, monkeypatch):
    """agent:MCP-08 agent:MCP-10 - one server for all of it, which sees only what it is given."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret")
    async with await connect_mcp_stdio_server(stdio_server()) as mcp:
        picture = await call(mcp.tools, "picture")
        assert [block["type"] for block in picture] == ["text", "image"]
        assert await call(mcp.tools, "structured") == 'done\n{"total":3}'
        with pytest.raises(ToolExecutionError, match="no such page"):
            await call(mcp.tools, "fail")
        answers = await asyncio.gather(*(call(mcp.tools, "echo", {"text": n}) for n in range(20)))
        assert answers == [f"echo: {n}" for n in range(20)]
        names = await call(mcp.tools, "env")
        assert await call(mcp.tools, "client") == "agent-lattice 0.1.0"
    assert "SERVER_LOG" in names
    assert "ANTHROPIC_API_KEY" not in names


async def test_a_server_that_dies_during_a_call_is_an_error_and_the_next_call_starts_it_again(stdio_server, call):
    async with await connect_mcp_stdio_server(stdio_server()) as mcp:
        first = await call(mcp.tools, "pid")
        async with asyncio.timeout(20):
            with pytest.raises(ToolExecutionError, match="went away during the call"):
                await call(mcp.tools, "die")
        second = await call(mcp.tools, "pid")
        assert first != second
        assert int(first) not in children()


async def test_a_server_that_dies_between_two_calls_is_not_even_noticed(stdio_server, call):
    async with await connect_mcp_stdio_server(stdio_server()) as mcp:
        pid = int(await call(mcp.tools, "pid"))
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            while mcp.connected:
                await asyncio.sleep(0.005)
        assert await call(mcp.tools, "echo", {"text": "again"}) == "echo: again"


async def test_all_calls_under_way_end_when_the_server_dies(stdio_server, call):
    async with await connect_mcp_stdio_server(stdio_server()) as mcp:
        waiting = [asyncio.create_task(call(mcp.tools, "slow")) for _ in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(ToolExecutionError):
            await call(mcp.tools, "die")
        async with asyncio.timeout(20):
            results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [ToolExecutionError] * 3


async def test_an_abort_ends_the_call_here_and_at_the_server(stdio_server, server_log, call):
    async with await connect_mcp_stdio_server(stdio_server()) as mcp:
        controller = AbortController()
        task = asyncio.create_task(call(mcp.tools, "slow", context=ToolContext(controller.signal)))
        await server_log.shows("call slow")
        controller.abort()
        with pytest.raises(AbortError):
            await task
        await server_log.shows("slow ended")
        assert await call(mcp.tools, "echo", {"text": "still there"}) == "echo: still there"


async def test_a_connection_closes_from_any_task_and_twice(stdio_server, call):
    mcp = await asyncio.create_task(connect_mcp_stdio_server(stdio_server()))
    await asyncio.gather(mcp.close(), mcp.close())
    with pytest.raises(MCPConnectionError, match="is closed"):
        await call(mcp.tools, "echo")


async def test_closing_ends_calls_under_way(stdio_server, server_log, call):
    mcp = await connect_mcp_stdio_server(stdio_server())
    task = asyncio.create_task(call(mcp.tools, "slow"))
    await server_log.shows("call slow")
    await mcp.close()
    with pytest.raises(ToolExecutionError, match="went away"):
        await task


def test_a_loop_that_ends_takes_the_server_with_it(stdio_server):
    async def main():
        await connect_mcp_stdio_server(stdio_server())

    asyncio.run(main())


async def test_an_existing_client_of_the_official_sdk(stdio_server, call):
    parameters = StdioServerParameters(**stdio_server())
    async with Client(parameters) as client:
        tools = await create_mcp_tools(client)
        assert len(tools) == 13
        assert await call(tools, "echo", {"text": "x"}) == "echo: x"
        assert len(await create_mcp_tools(client.session)) == 13


async def test_a_command_that_does_not_exist_is_named():
    for command in ("no-such-command-anywhere", "/no/such/command"):
        with pytest.raises(MCPConnectionError, match=command):
            await connect_mcp_stdio_server({"command": command})


@pytest.mark.parametrize("kind", ["deaf", "nonsense"])
async def test_a_program_that_is_no_mcp_server_is_named_and_ended(stdio_server, kind):
    """agent:W-41"""
    with pytest.raises(MCPConnectionError, match="is it an MCP server"):
        await connect_mcp_stdio_server(stdio_server(kind), connect_timeout_ms=600)


async def test_a_program_that_ends_at_once_is_named():
    with pytest.raises(MCPConnectionError, match="cannot be used"):
        await connect_mcp_stdio_server({"command": sys.executable, "args": ["-c", "pass"]})


async def test_cancelling_the_connect_leaves_nothing(stdio_server):
    task = asyncio.create_task(connect_mcp_stdio_server(stdio_server("deaf")))
    before = children()
    async with asyncio.timeout(20):
        while not children() - before:
            await asyncio.sleep(0.005)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("server", [{}, {"command": ""}, {"command": "x", "argv": []}])
async def test_a_server_description_that_cannot_be_used_is_refused(server):
    with pytest.raises(OptionError, match="MCP server"):
        await connect_mcp_stdio_server(server)


def test_the_sdk_is_not_imported_before_it_is_used():
    code = "import sys, lattice.integrations.mcp; assert 'mcp' not in sys.modules and 'httpx2' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
