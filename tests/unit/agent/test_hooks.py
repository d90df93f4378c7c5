"""Hooks: what they see, what they may change, and what happens when they fail."""

import pytest

from lattice import ModelRequestHookResult, create_composite_agent_hooks, tool
from lattice.testing import text, tool_use, turn
from tests.unit.agent.support import ANY, RecordingTracer, agent_of, echo_tool, events_of, other_tasks, problems_of


async def test_on_model_request_sees_what_would_be_sent():
    """agent:HOOK-07"""
    seen = []

    def hook(context):
        seen.append((len(context.messages), context.turn, context.system_prompt, context.context, context.source))

    agent, _ = agent_of(
        [turn(tool_use("echo")), "done"], tools=[echo_tool()], hooks={"on_model_request": hook}, system_prompt="be nice"
    )
    await agent.prompt("go", context={"user": 7})
    source = {"kind": "agent", "name": "agent"}
    assert seen == [(1, 1, "be nice", {"user": 7}, source), (3, 2, "be nice", {"user": 7}, source)]


async def test_on_model_request_shapes_one_request_only():
    """agent:HOOK-07, agent:HOOK-09, agent:HOOK-11"""
    tracer = RecordingTracer()

    async def hook(context):
        return {"messages": [*context.messages, {"role": "user", "content": "and be quick"}], "system_prompt": ""}

    agent, model = agent_of(["done"], hooks={"on_model_request": hook}, system_prompt="long", tracer=tracer)
    await agent.prompt("go")
    assert [message["content"] for message in model.requests[0].messages] == ["go", "and be quick"]
    assert model.requests[0].system_prompt is None
    assert len(await agent.get_history()) == 2
    data = tracer.data("model_request")[0]
    assert [message["content"] for message in data["messages"]] == ["go", "and be quick"]
    assert "systemPrompt" not in data


async def test_an_empty_list_of_messages_is_sent():
    """agent:HOOK-09"""
    agent, model = agent_of(["done"], hooks={"on_model_request": lambda context: {"messages": []}})
    await agent.prompt("go")
    assert model.requests[0].messages == []


async def test_on_tool_result_replaces_the_block_everywhere():
    """agent:HOOK-01, agent:EXEC-12"""
    tracer = RecordingTracer()

    async def finish(_value):
        return {"content": "secret", "end_turn": True}

    agent, _ = agent_of(
        [turn(tool_use("finish"))],
        tools=[tool("finish", "Ends.", ANY, finish)],
        hooks={"onToolResult": lambda context: {**context.result, "content": f"no {context.tool_name}"}},
        tracer=tracer,
    )
    events = await events_of(agent.query("go", stream=False))
    assert events[-1].result == "no finish"
    assert events[2].tool_use_result == "no finish"
    assert tracer.data("tool_result")[0]["content"] == "no finish"


@pytest.mark.parametrize("name", ["on_model_request", "on_tool_result"])
async def test_a_failing_hook_leaves_the_query(name):
    """agent:ERR-06 agent:HOOK-10, agent:ERR-05"""

    def hook(_context):
        raise LookupError("redaction failed")

    calls = [turn(tool_use("echo"), tool_use("echo"))] * 2
    agent, _ = agent_of(calls, tools=[echo_tool()], hooks={name: hook})
    with pytest.raises(LookupError, match="redaction failed"):
        await agent.prompt("go")
    assert problems_of(await agent.get_history()) == []
    assert other_tasks() == []
    with pytest.raises(LookupError, match="redaction failed"):
        await agent.prompt("the agent is free, and fails in the same way")


async def test_a_hook_that_returns_nonsense_is_a_failing_hook():
    agent, model = agent_of(["x"], hooks={"on_model_request": lambda context: "shorter please"})
    with pytest.raises(TypeError, match="on_model_request must return"):
        await agent.prompt("go")
    assert model.calls == 0


async def test_composite_hooks_are_a_chain():
    """agent:HOOK-13, agent:HOOK-14"""

    class First:
        async def on_tool_result(self, context):
            return {**context.result, "content": context.result["content"] + " first"}

        def on_model_request(self, context):
            return ModelRequestHookResult(messages=[*context.messages, {"role": "user", "content": "first"}])

    second = {
        "on_tool_result": lambda context: {**context.result, "content": context.result["content"] + " second"},
        "on_model_request": lambda context: {"system_prompt": f"{len(context.messages)} messages"},
    }
    quiet = {"on_tool_result": lambda context: None, "on_model_request": lambda context: None}
    hooks = create_composite_agent_hooks([None, First(), quiet, second])
    agent, model = agent_of([turn(tool_use("echo")), "done"], tools=[echo_tool()], hooks=hooks)
    await agent.prompt("go")
    assert model.requests[0].system_prompt == "2 messages"
    assert [message["content"] for message in model.requests[0].messages] == ["go", "first"]
    history = await agent.get_history()
    assert history[2]["content"][0]["content"] == "echo first second"
    assert len(history) == 4


async def test_hooks_of_one_agent_are_not_those_of_another():
    """agent:HOOK-12"""
    agent, _ = agent_of([turn(text("hi"))], hooks={"on_model_request": lambda context: {"system_prompt": "x"}})
    other, model = agent_of(["hi"])
    await other.prompt("go")
    assert model.requests[0].system_prompt is None
    assert agent.definition.hooks.on_model_request is not None
