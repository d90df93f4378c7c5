"""The ways to make an agent, and the one-shot helper."""

import asyncio
import subprocess
import sys

import pytest

from lattice import AnthropicClient, OptionError, create_agent, query
from lattice.testing import ScriptedModel


def test_an_agent_gets_a_workspace_its_tools_and_its_prompt(tmp_path, monkeypatch):
    """agent:WS-01, agent:WS-08, agent:WS-11, agent:WS-12, agent:WS-16"""
    monkeypatch.setenv("HOME", str(tmp_path))
    model = ScriptedModel(["hi"])
    agent = create_agent(model="m", name="Backend Agent", system_prompt="  You are Ada. ", model_client=model)
    folder = tmp_path / ".agent" / "workspaces" / "Backend_Agent"
    assert folder.is_dir()
    assert agent.toolset.names == ["Read", "Write", "Edit", "LS", "Glob", "Grep", "Bash"]
    asyncio.run(agent.prompt("go", permissions={"workspace_grants": [{"root": str(tmp_path), "reason": "docs"}]}))
    sections = model.requests[0].system_prompt.split("\n\n")
    assert sections[0] == "You are Ada."
    assert f"Your private workspace is: {folder}" in sections[1]
    assert "Reply in natural language with the important workspace paths" in sections[1]
    assert "request multiple independent tools" in sections[2]
    assert sections[3].startswith("Runtime workspace access for this task:")


async def test_a_client_of_ones_own_knows_what_the_agent_does_not():
    client = AnthropicClient("key", base_url="http://127.0.0.1:9", prompt_caching=True, max_retries=0)
    agent = create_agent(model="m", workspace=False, model_client=client)
    result = await agent.prompt("hi")
    assert result.is_error
    assert "127.0.0.1:9" in str(result.error)


def test_workspace_false_is_bare():
    """agent:WS-07"""
    agent = create_agent(model="m", workspace=False)
    assert agent.workspace is None
    assert agent.toolset.names == []


async def test_one_shot_query():
    """agent:SPEC-09, agent:SPEC-10"""
    model = ScriptedModel(["hi", "there"])
    events = [
        event
        async for event in query(
            prompt="go", model="m", workspace=False, model_client=model, stream=False, reasoning_effort="low", context=3
        )
    ]
    assert [event.type for event in events] == ["system", "assistant", "result"]
    assert model.requests[0].reasoning_effort == "low"
    params = {"prompt": "go", "model": "m", "workspace": False, "model_client": model}
    assert [event async for event in query(params)][-1].result == "there"
    with pytest.raises(OptionError, match="prompt is required"):
        await anext(query(model="m"))
    with pytest.raises(OptionError, match='unknown option "promt"'):
        await anext(query(prompt="x", model="m", promt="y"))


async def test_giving_up_a_one_shot_query_stops_it():
    stopped = asyncio.Event()

    class Model:
        async def create_message(self, request):
            request.on_stream_event({"n": 1})
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()

    stream = query(prompt="go", model="m", workspace=False, model_client=Model())
    assert [(await anext(stream)).type, (await anext(stream)).type] == ["system", "stream_event"]
    await stream.aclose()
    assert stopped.is_set()


def test_the_built_in_client_is_loaded_with_the_first_request_only():
    program = """
import sys
from lattice import create_bare_agent
agent = create_bare_agent(model="m")
assert "anthropic" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
