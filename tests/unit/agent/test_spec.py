"""Templates, and the sessions that are spawned from them."""

import pytest

from lattice import AgentSpec, OptionError, define_agent, is_agent_spec
from lattice.testing import ScriptedModel
from tests.unit.agent.support import ListStore, agent_of, echo_tool


def spec_of(script, **options):
    return define_agent(model="m", workspace=False, model_client=ScriptedModel(script), **options)


def test_what_a_spec_is():
    """agent:SPEC-01, agent:SPEC-02, agent:SPEC-03 team:SPEC-03 team:SPEC-07"""
    options = {"model": "m", "name": "ada", "workspace": False, "tools": [echo_tool()]}
    spec = define_agent(**options)
    options["model"] = "other"
    assert isinstance(spec, AgentSpec)
    assert (spec.name, spec.options["model"], spec.options.name) == ("ada", "m", "ada")
    with pytest.raises(TypeError):
        spec.options["model"] = "x"
    assert is_agent_spec(spec)
    assert not is_agent_spec(spec.spawn())
    assert is_agent_spec(type("Host", (), {"spawn": lambda self: None})())


def test_overrides_win_and_are_checked():
    """agent:SPEC-04"""
    spec = spec_of(["x"], max_turns=3)
    assert spec.spawn(model="n").model == "n"
    assert spec.spawn(max_turns=None).definition.max_turns == 3
    with pytest.raises(OptionError, match='unknown option "bogus"'):
        spec.spawn(bogus=1)
    with pytest.raises(OptionError, match="max_turns"):
        spec.spawn(max_turns=0)


async def test_sessions_share_no_history():
    """agent:SPEC-05 team:SPEC-05 team:SPEC-06"""
    spec = spec_of(lambda request: f"{len(request.messages)}")
    first, second = spec.spawn(), spec.spawn()
    assert first.session_id != second.session_id
    assert [(await first.prompt("a")).result, (await first.prompt("b")).result] == ["1", "3"]
    assert (await second.prompt("a")).result == "1"


def test_what_sessions_share():
    """agent:SPEC-06"""
    model, tracer, store, tool = ScriptedModel(["x"]), lambda event: None, ListStore(), echo_tool()
    spec = define_agent(
        model="m", workspace=False, model_client=model, tracer={"on_event": tracer}, history_store=store, tools=[tool]
    )
    sessions = [spec.spawn(), spec.spawn()]
    for session in sessions:
        assert session.model_client is model
        assert session.tracer == {"on_event": tracer}
        assert session.toolset.by_name["echo"] is tool
    plain = define_agent(model="m", workspace=False)
    assert plain.spawn().model_client is plain.spawn().model_client


def test_each_session_has_its_own_workspace(tmp_path, monkeypatch):
    """agent:SPEC-07 agent:W-22 team:SPEC-15 team:WSP-04"""
    monkeypatch.setenv("HOME", str(tmp_path))
    spec = define_agent(model="m", name="ada")
    folders = {spec.spawn().workspace.cwd for _ in range(2)}
    assert len(folders) == 2
    assert all(folder.is_dir() and folder.name.startswith("ada") for folder in folders)


def test_bare_sessions():
    """agent:SPEC-08, agent:WS-07"""
    session = spec_of(["x"]).spawn()
    assert session.workspace is None
    assert session.toolset.names == []
    assert session.system_prompt_for(session.toolset, None) is None


async def test_fork_is_the_same_agent_with_a_history_of_its_own():
    agent, model = agent_of(["one", "two", "three"], tools=[echo_tool()], history_store=ListStore())
    agent.add_tools([echo_tool("late")])
    await agent.prompt("a")
    store = ListStore([{"role": "user", "content": "before"}])
    fork = agent.fork(history_store=store)
    assert fork.session_id != agent.session_id
    assert fork.toolset.names == ["echo", "late"]
    assert fork.model_client is model
    await fork.prompt("b")
    assert [message["content"] for message in model.requests[-1].messages] == ["before", "b"]
    assert len(await agent.get_history()) == 2
    with pytest.raises(OptionError, match='Agent.fork: unknown option "model"'):
        agent.fork(model="n")
    with pytest.raises(OptionError, match="history_store must have"):
        agent.fork(history_store=3)
