import logging
from types import SimpleNamespace

import pytest

from lattice.errors import OptionError
from lattice.integrations.mcp.tools import create_mcp_tools

SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}


class Client:
    """A minimal client of the host's own."""

    def __init__(self, *pages, result=None):
        self.pages = pages
        self.result = {"content": [{"type": "text", "text": "found"}]} if result is None else result
        self.calls = []
        self.cursors = []

    async def list_tools(self, cursor=None):
        self.cursors.append(cursor)
        index = int(cursor or 0)
        more = {"nextCursor": str(index + 1)} if index + 1 < len(self.pages) else {}
        return {"tools": self.pages[index], **more}

    async def call_tool(self, name, arguments):
        self.calls.append((name, arguments))
        return self.result


async def test_listed_tools_become_tools_of_an_agent_and_calls_use_the_original_name(call):
    """agent:MCP-01 agent:MCP-05 agent:MCP-06"""
    client = Client([{"name": "web.search", "description": "Searches.", "inputSchema": SCHEMA}])
    (definition,) = await create_mcp_tools(client, name_prefix="docs")
    assert (definition.name, definition.description) == ("docs_web_search", "Searches.")
    assert definition.json_schema is definition.input_schema is SCHEMA
    assert definition.to_dict() == {"name": "docs_web_search", "description": "Searches.", "inputSchema": SCHEMA}
    assert await call([definition], "docs_web_search", {"q": "x"}) == "found"
    assert client.calls == [("web.search", {"q": "x"})]


async def test_what_a_tool_does_not_say_is_filled_in():
    """agent:MCP-05"""
    (definition,) = await create_mcp_tools(Client([{"name": "bare"}]))
    assert definition.description == "MCP tool bare"
    assert definition.json_schema == {"type": "object", "additionalProperties": True}


@pytest.mark.parametrize(("value", "parsed"), [({"a": 1}, {"a": 1}), ([1], [1]), ("text", {}), (None, {}), (3, {})])
async def test_input_is_passed_on_unchecked(value, parsed):
    """agent:MCP-06"""
    (definition,) = await create_mcp_tools(Client([{"name": "bare"}]))
    assert definition.parse(value) == parsed


async def test_all_pages_are_listed():
    """agent:W-41 agent:MCP-02"""
    client = Client([{"name": "a"}, {"name": "b"}], [{"name": "c"}], [])
    assert [definition.name for definition in await create_mcp_tools(client)] == ["a", "b", "c"]
    assert client.cursors == [None, "1", "2"]


async def test_a_server_that_gives_the_same_page_for_ever_is_left():
    class Stuck(Client):
        async def list_tools(self, cursor=None):
            return {"tools": [{"name": "a"}], "nextCursor": "again"}

    assert len(await create_mcp_tools(Stuck())) == 1


async def test_tools_without_a_name_or_with_one_twice_are_left_out(caplog):
    with caplog.at_level(logging.WARNING):
        tools = await create_mcp_tools(Client([{"name": "a", "description": "first"}, {"name": "a"}, {"title": "x"}]))
    assert [definition.description for definition in tools] == ["first"]
    assert len(caplog.records) == 2


async def test_a_call_may_take_a_minute_or_what_is_said():
    assert (await create_mcp_tools(Client([{"name": "a"}])))[0].timeout_ms == 60_000
    assert (await create_mcp_tools(Client([{"name": "a"}]), timeout_ms=None))[0].timeout_ms is None


@pytest.mark.parametrize("options", [{"name_prefix": 3}, {"max_name_length": 4}, {"max_name_length": 129}])
async def test_options_that_cannot_be_used_are_refused(options):
    with pytest.raises(OptionError, match=next(iter(options))):
        await create_mcp_tools(Client([]), **options)


async def test_what_is_no_client_is_refused():
    with pytest.raises(OptionError, match="call_tool"):
        await create_mcp_tools(SimpleNamespace(list_tools=print))
