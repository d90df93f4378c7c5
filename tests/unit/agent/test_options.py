"""Options of agents and queries: defaults, and what bad ones get."""

import pytest

from lattice import Agent, APIError, OptionError, create_agent, create_bare_agent, define_agent, skill, tool
from lattice.agent.options import AGENT_OPTIONS, QUERY_OPTIONS, read_agent_options
from lattice.testing import ScriptedModel
from tests.unit.agent.support import ANY, agent_of, echo_tool

MAKERS = [create_agent, create_bare_agent, define_agent]


@pytest.mark.parametrize("make", MAKERS)
def test_unknown_options_are_refused(make):
    """agent:OPT-01, agent:OPT-02, agent:OPT-03"""
    text = (
        r'AgentOptions: unknown option "bogus"\. Check for a typo, or upgrade the SDK if this option was added in a'
        r" newer version\."
    )
    with pytest.raises(OptionError, match=text):
        make(model="m", bogus=None, other=1)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("model", [None, ""])
def test_the_model_is_required(make, model):
    """agent:OPT-10"""
    with pytest.raises(OptionError, match=r"AgentOptions\.model is required"):
        make(model=model)


def test_defaults():
    """agent:OPT-12"""
    definition = read_agent_options({"model": "m"})
    assert (definition.max_tokens, definition.max_turns) == (16384, 50)
    assert (definition.concurrency.mode, definition.concurrency.max_concurrency) == ("safe", 10)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_turns": 0}, r"max_turns must be a positive integer, not 0"),
        ({"max_turns": True}, r"max_turns must be a positive integer, not True"),
        ({"max_tokens": 1.5}, r"max_tokens must be a positive integer, not 1\.5"),
        (
            {"request_timeout_ms": 0},
            r"AgentOptions\.request_timeout_ms must be a positive integer number of milliseconds",
        ),
        ({"tool_concurrency": {"mode": "fast"}}, r'mode must be "safe", "all", or "sequential"'),
        ({"tool_concurrency": {"max_concurrency": 0}}, r"max_concurrency must be a positive integer"),
        ({"tool_concurrency": {"many": 1}}, r'tool_concurrency: unknown option "many"'),
        ({"tool_concurrency": "all"}, r"tool_concurrency must be a dict"),
        ({"auto_compact": {"threshold_tokens": 0}}, r"auto_compact\.threshold_tokens must be a positive integer"),
        ({"auto_compact": {"keep_recent_messages": 1.5}}, r"auto_compact\.keep_recent_messages must be a positive"),
        ({"auto_compact": {"threshold": 1}}, r'auto_compact: unknown option "threshold"'),
        ({"auto_compact": "yes"}, r"auto_compact must be True, False or a dict"),
        ({"thinking_config": {"type": "deep"}}, r'thinking_config\.type must be one of "adaptive", "enabled"'),
        ({"thinking_config": {"type": "enabled"}}, r"budget_tokens must be a positive integer, not None"),
        ({"reasoning_effort": "medium"}, r'reasoning_effort must be one of "low", "high", "max", not \'medium\''),
        ({"hooks": {"on_tool": print}}, r'hooks: unknown option "on_tool"'),
        ({"hooks": {"on_tool_result": 3}}, r"hooks\.on_tool_result must be callable"),
        ({"hooks": object()}, r"hooks must offer on_tool_result or on_model_request"),
        ({"permission": "all"}, r"permission must be callable"),
        ({"tool_batch_policy": {"check": print}}, r"tool_batch_policy must be callable"),
        ({"tools": "Read"}, r"tools must be a list"),
        ({"tools": [print]}, r"is not a tool; make one with tool\(\)"),
        ({"skills": "pdf"}, r"skills must be a list"),
        ({"skills": [3]}, r"3 is not a skill"),
        ({"model_client": object()}, r"model_client must have a method create_message\(\)"),
        ({"history_store": object()}, r"history_store must have a method load\(\)"),
        ({"journal": object()}, r"journal must have a method load\(\)"),
        ({"tracer": object()}, r"tracer must have a method on_event\(event\)"),
        ({"output_schema": 3}, r"output_schema: .*a schema must be"),
        ({"system_prompt": 3}, r"system_prompt must be a text, not 3"),
        ({"name": 3}, r"name must be a text, not 3"),
    ],
)
def test_values_that_cannot_be_used_are_refused_before_anything_starts(options, text):
    """agent:OPT-09 agent:OPT-14 agent:OPT-16 agent:OPT-17 agent:W-02 agent:OPT-15"""
    with pytest.raises(OptionError, match=text):
        create_bare_agent(model="m", **options)


def test_none_is_not_given():
    """agent:OPT-13 agent:W-02"""
    nothing = dict.fromkeys(AGENT_OPTIONS) | {"model": "m"}
    assert read_agent_options(nothing).options == {"model": "m"}
    for name in ("max_turns", "max_tokens", "concurrency", "compaction", "hooks", "skills"):
        assert getattr(read_agent_options(nothing), name) == getattr(read_agent_options({"model": "m"}), name)


def test_bare_agents_take_no_workspace_but_do_not_mind_it():
    """agent:OPT-11"""
    agent = create_bare_agent(model="m", workspace="elsewhere")
    assert agent.workspace is None
    assert agent.toolset.names == []


def test_a_refused_agent_leaves_no_directory(tmp_path):
    """agent:OPT-18 agent:W-23"""
    with pytest.raises(OptionError):
        create_agent(model="m", workspace=str(tmp_path / "made"), tool_concurrency={"mode": "fast"})
    with pytest.raises(OptionError):
        create_agent(model="m", workspace=str(tmp_path / "made"), tools=[echo_tool("Read")])
    assert list(tmp_path.iterdir()) == []


def test_model_client_wins_over_the_key():
    """agent:OPT-19"""
    model = ScriptedModel(["x"])
    assert create_bare_agent(model="m", model_client=model, api_key="k", base_url="u").model_client is model


def test_the_public_face_of_an_agent():
    """agent:OPT-23"""
    agent, _ = agent_of(["x"], name="ada")
    assert (agent.name, agent.model) == ("ada", "scripted")
    for method in ("query", "prompt", "interrupt", "get_history", "replace_history", "add_tools", "resume", "fork"):
        assert callable(getattr(agent, method))
    assert agent.options["model"] == agent.options.model == "scripted"
    assert agent.options.max_turns is None
    with pytest.raises(AttributeError, match="bogus"):
        _ = agent.options.bogus


def test_agents_come_from_the_factories():
    """agent:OPT-22"""
    with pytest.raises(TypeError):
        Agent(model="m")
    made = [create_agent(model="m", workspace=False), create_bare_agent(model="m")]
    made.append(define_agent(model="m", workspace=False).spawn())
    assert all(type(agent) is Agent for agent in made)


async def test_a_missing_key_is_found_by_the_first_request(monkeypatch, tmp_path):
    """agent:OPT-20"""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    agent = create_bare_agent(model="m", base_url="http://127.0.0.1:1")
    result = await agent.prompt("go")
    assert (result.subtype, type(result.error), result.num_turns) == ("error", APIError, 1)
    assert "ANTHROPIC_API_KEY" in str(result.error)


def test_a_key_is_not_shown():
    agent = create_bare_agent(model="m", api_key="secret")
    assert "secret" not in repr(agent.options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"strem": True}, r'QueryOptions: unknown option "strem"'),
        ({"stream": "yes"}, r"QueryOptions\.stream must be True or False"),
        ({"signal": 3}, r"QueryOptions\.signal must be an AbortSignal"),
        ({"request_timeout_ms": 1.5}, r"QueryOptions\.request_timeout_ms must be a positive integer number of"),
        ({"request_timeout_ms": 0}, r"QueryOptions\.request_timeout_ms must be a positive integer number of"),
        ({"reasoning_effort": "some"}, r"QueryOptions\.reasoning_effort must be one of"),
        ({"thinking_config": "deep"}, r"QueryOptions\.thinking_config must be a dict"),
        ({"tracer": 3}, r"QueryOptions\.tracer must have a method on_event"),
        ({"permissions": {"workspace_grants": [3]}}, r"workspace grant must be a dict with a root"),
    ],
)
async def test_bad_query_options(options, text):
    """agent:OPT-09 agent:OPT-17"""
    agent, model = agent_of(["x"])
    with pytest.raises(OptionError, match=text):
        await agent.prompt("go", **options)
    with pytest.raises(OptionError, match=text):
        agent.query("go", **options)
    assert model.calls == 0
    assert (await agent.prompt("go")).result == "x"


@pytest.mark.parametrize("prompt", ["", "  ", None, 3, [], [3], [{"text": "x"}]])
def test_prompts_that_say_nothing_are_refused(prompt):
    agent, _ = agent_of(["x"])
    with pytest.raises(OptionError, match=r"query: .*(prompt|block)"):
        agent.query(prompt)


def test_documented_query_options_exist():
    assert {"stream", "signal", "output_format", "thinking_config", "reasoning_effort", "request_timeout_ms"} < set(
        QUERY_OPTIONS
    )


def test_tools_share_no_name():
    """agent:WS-09 agent:WS-10 agent:W-21"""
    with pytest.raises(OptionError, match='two tools are named "echo"'):
        agent_of(["x"], tools=[echo_tool(), echo_tool()])
    agent, _ = agent_of(["x"], tools=[echo_tool()])
    with pytest.raises(OptionError, match='two tools are named "echo"'):
        agent.add_tools([echo_tool()])
    assert agent.toolset.names == ["echo"]


def test_skills_may_be_dicts():
    agent, _ = agent_of(["x"], skills=[{"name": "a", "description": "b", "instructions": "c"}])
    assert agent.definition.skills == (skill(name="a", description="b", instructions="c"),)


def test_tool_lists_are_not_shared_with_the_host():
    mine = [tool("a", "A.", ANY, lambda value: "a")]
    agent = create_bare_agent(model="m", tools=mine)
    agent.add_tools([echo_tool()])
    assert len(mine) == 1
