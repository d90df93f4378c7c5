"""A whole agent over the real SDK and a real socket."""

import pytest

from lattice import create_bare_agent, tool
from lattice.integrations.anthropic import AnthropicClient
from lattice.testing.model import tool_use
from lattice.testing.replies import http_error, reply
from lattice.testing.server import MessagesApiServer

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}}
SCHEMA["required"] = ["path", "text"]


def agent(server, *tools, **options):
    return create_bare_agent(
        model="test-model", model_client=AnthropicClient("key", server.base_url), tools=list(tools), **options
    )


async def test_a_tool_loop_with_thinking_ends_in_the_answer():
    @tool("add", "Adds.", {"type": "object"})
    def add(numbers):
        return str(numbers["a"] + numbers["b"])

    thought = {"type": "thinking", "thinking": "I should add.", "signature": "c2ln"}
    script = [reply(thought, "I add.", tool_use("add", {"a": 1, "b": 2})), "It is 3."]
    async with MessagesApiServer(script) as server:
        result = await agent(server, add).prompt("1 + 2?")
    assert result.result == "It is 3."
    assert [message["role"] for message in server.requests[1].body["messages"]] == ["user", "assistant", "user"]
    assert server.requests[1].body["messages"][1]["content"][0] == thought
    assert server.requests[1].body["messages"][2]["content"][0]["content"] == "3"


@pytest.mark.parametrize(
    ("broken", "told"),
    [('{"path": "a", "text": "say "hi""}', "not valid JSON"), ("[1]", "must be a JSON object")],
)
async def test_broken_arguments_are_never_run_and_the_model_is_told(broken, told):
    """agent:LATER-04"""
    ran = []

    @tool("write", "Writes.", SCHEMA)
    def write(value):
        ran.append(value)
        return "written"

    call = {"type": "tool_use", "id": "toolu_1", "name": "write", "input": broken}
    good = tool_use("write", {"path": "a", "text": "b"})
    async with MessagesApiServer([reply(call), reply(good), "done"]) as server:
        result = await agent(server, write).prompt("write it")
    assert result.result == "done"
    assert ran == [{"path": "a", "text": "b"}]
    answer = server.requests[1].body["messages"][2]["content"][0]
    assert answer["is_error"] is True
    assert told in answer["content"]
    assert broken not in answer["content"]
    if told == "not valid JSON":
        assert "path, text" in answer["content"]
        assert "double quotes" in answer["content"]
    assert server.requests[1].body["messages"][1]["content"][0]["input"] == {}


async def test_retries_are_rows_of_the_trace():
    rows = []

    class Tracer:
        def on_event(self, event):
            rows.append(event)

    busy = http_error(529, "overloaded_error", "busy", headers={"retry-after-ms": "1"})
    async with MessagesApiServer([busy, "done"]) as server:
        result = await agent(server, tracer=Tracer()).prompt("hi")
    assert result.result == "done"
    (retry,) = [row.data for row in rows if row.type == "retry"]
    assert retry["attempt"] == 1
    assert retry["delay"] > 0
    assert "529" in retry["reason"]


async def test_what_the_provider_refuses_ends_the_query_with_all_that_is_known():
    error = http_error(400, "invalid_request_error", "no such parameter", headers={"request-id": "req_9"})
    async with MessagesApiServer([error]) as server:
        result = await agent(server).prompt("hi")
    assert result.is_error
    assert (result.error.status, result.error.code, result.error.request_id) == (400, "invalid_request_error", "req_9")
    assert not result.error.retryable


async def test_empty_answers_and_results_do_not_brick_the_conversation():
    @tool("quiet", "Says nothing.", {"type": "object"})
    def quiet(_input):
        return ""

    async with MessagesApiServer([reply("", tool_use("quiet")), reply(""), "still here"]) as server:
        asked = agent(server, quiet)
        await asked.prompt("hi")
        assert (await asked.prompt("there?")).result == "still here"
