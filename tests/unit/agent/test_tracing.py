"""Trace events: envelope, order, data, failures."""

import asyncio
import re

import pytest

from lattice import APIError, create_composite_context_tracer, define_context_tracer, tool
from lattice.testing import tool_use, turn
from tests.unit.agent.support import ANY, RecordingTracer, agent_of, echo_tool

PLAIN = ["run_start", "user_message", "model_request", "assistant_message", "result"]
WITH_TOOL = [
    "run_start",
    "user_message",
    "model_request",
    "assistant_message",
    "tool_use",
    "tool_result",
    "user_message",
    "model_request",
    "assistant_message",
    "result",
]


async def test_sequences():
    """agent:TRACE-08"""
    tracer = RecordingTracer()
    agent, _ = agent_of(["hi", turn(tool_use("echo")), "done"], tools=[echo_tool()], tracer=tracer)
    await agent.prompt("a")
    assert tracer.types() == PLAIN
    tracer.events.clear()
    await agent.prompt("b")
    assert tracer.types() == WITH_TOOL


async def test_the_envelope():
    """agent:TRACE-01, agent:TRACE-02, agent:TRACE-03, agent:TRACE-05, agent:OPT-21"""
    tracer = RecordingTracer()
    agent, _ = agent_of(["hi", "ho"], tracer=tracer, name="ada")
    await agent.prompt("a")
    await agent.prompt("b")
    assert [event.seq for event in tracer.events] == list(range(1, 11))
    row = tracer.events[0].to_dict()
    assert list(row) == ["version", "timestamp", "seq", "session_id", "run_id", "source", "type", "data"]
    assert row["version"] == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", row["timestamp"])
    assert row["session_id"] == agent.session_id
    assert row["source"] == {"kind": "agent", "name": "ada"}
    assert len({event.run_id for event in tracer.events}) == 2


async def test_a_shared_tracer_shares_its_numbers():
    """agent:TRACE-04, agent:TRACE-24"""
    tracer = RecordingTracer()
    for _ in range(2):
        agent, _ = agent_of(["hi"], tracer=tracer)
        await agent.prompt("a")
    assert [event.seq for event in tracer.events] == list(range(1, 11))
    assert tracer.events[0].source == {"kind": "agent", "name": "agent"}


async def test_inside_a_team_the_session_is_the_teams():
    """agent:TRACE-06, agent:RT-02"""

    class Runtime:
        source = {"kind": "team_member", "name": "backend", "member": "backend"}
        permissions = None

    tracer = RecordingTracer()
    agent, _ = agent_of(["hi"], tracer=tracer)
    parent = {"session_id": "team-session", "parent_run_id": "root-run"}
    result = await agent.prompt("a", runtime=Runtime(), trace_parent=parent)
    assert {(event.session_id, event.parent_run_id) for event in tracer.events} == {("team-session", "root-run")}
    assert tracer.events[0].data["agent_session_id"] == agent.session_id == result.session_id
    assert tracer.events[0].to_dict()["source"] == Runtime.source


async def test_the_querys_tracer_replaces_the_agents():
    """agent:TRACE-07"""
    mine, yours = RecordingTracer(), RecordingTracer()
    agent, _ = agent_of(["hi"], tracer=mine)
    await agent.prompt("a", tracer=yours)
    assert (mine.types(), yours.types()) == ([], PLAIN)


async def test_data():
    """agent:TRACE-09, agent:TRACE-10, agent:TRACE-11, agent:TRACE-12, agent:TRACE-13, agent:TRACE-15, agent:TRACE-16"""
    tracer = RecordingTracer()
    served = {**turn(tool_use("echo", {"say": "x"}, id="t1"), usage={"input_tokens": 1, "output_tokens": 1})}
    served |= {"model": "served-model", "providerResponseId": "r1"}
    agent, _ = agent_of([served, "done"], tools=[echo_tool()], tracer=tracer, system_prompt="s")
    await agent.prompt(
        "a",
        stream=False,
        output_format="json",
        request_timeout_ms=9000,
        reasoning_effort="high",
        thinking_config={"type": "enabled", "budget_tokens": 99},
    )
    assert tracer.data("run_start") == [{"model": "scripted", "tools": ["echo"]}]
    assert tracer.data("user_message")[0] == {"message": {"role": "user", "content": "a"}}
    assert tracer.data("model_request")[0] == {
        "model": "scripted",
        "max_tokens": 16384,
        "systemPrompt": "s",
        "messages": [{"role": "user", "content": "a"}],
        "tools": ["echo"],
        "permissions": {"workspaceGrants": []},
        "stream": False,
        "outputFormat": "json",
        "thinkingConfig": {"type": "enabled", "budgetTokens": 99},
        "reasoningEffort": "high",
        "timeoutMs": 9000,
    }
    message = tracer.data("assistant_message")[0]["message"]
    assert (message["model"], message["providerResponseId"]) == ("served-model", "r1")
    assert (message["usage"], message["stopReason"]) == ({"input_tokens": 1, "output_tokens": 1}, "tool_use")
    assert tracer.data("tool_use") == [
        {"id": "t1", "name": "echo", "input": {"say": "x"}, "description": "Says it again."}
    ]
    assert tracer.data("tool_result")[0]["is_error"] is False


async def test_the_result_row():
    """agent:W-33 agent:TRACE-18"""
    tracer = RecordingTracer()

    async def finish(_value):
        return {"content": "end", "end_turn": True, "structured_result": {"n": 1}}

    agent, _ = agent_of(
        [turn(tool_use("finish"), usage={"input_tokens": 2, "output_tokens": 3}), RuntimeError("no")],
        tools=[tool("finish", "Ends.", ANY, finish)],
        tracer=tracer,
    )
    await agent.prompt("a")
    await agent.prompt("b")
    assert tracer.data("result")[0] == {
        "subtype": "success",
        "is_error": False,
        "result": "end",
        "num_turns": 1,
        "usage": {"input_tokens": 2, "output_tokens": 3},
        "stop_reason": "tool_use",
        "structuredResult": {"n": 1},
    }
    assert tracer.data("result")[1]["error"]["name"] == "APIError"


async def test_the_assistant_row_bears_the_time_of_the_answer():
    """agent:TRACE-14"""
    agent, _ = agent_of(["hi"])
    from lattice.agent.tracing import Trace

    tracer = RecordingTracer()
    trace = Trace(tracer, session_id="s", run_id="r", parent_run_id=None, source={"kind": "agent"})
    await trace.emit("assistant_message", {}, at=1_700_000_000.25)
    assert tracer.events[0].timestamp == "2023-11-14T22:13:20.250Z"


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_tolerant_and_strict_tracers(asynchronous, caplog):
    """agent:TRACE-21, agent:TRACE-26"""

    def broken(event):
        if event.type == "model_request":
            raise OSError("disk full")

    async def broken_later(event):
        await asyncio.sleep(0)
        broken(event)

    on_event = broken_later if asynchronous else broken
    agent, _ = agent_of(["hi", "ho"], tracer={"on_event": on_event})
    assert (await agent.prompt("a")).result == "hi"
    assert "disk full" in caplog.text
    with pytest.raises(OSError, match="disk full"):
        await agent.prompt("b", tracer=define_context_tracer(on_event=on_event, fail_on_error=True))
    assert (await agent.prompt("c")).result == "ho"


async def test_flush_comes_before_the_result():
    """agent:LOOP-12, agent:TRACE-22"""
    order = []

    class Tracer(RecordingTracer):
        async def flush(self):
            order.append(self.types()[-1])
            order.append("flush")

        def close(self):
            order.append("close")

    agent, _ = agent_of(["hi"], tracer=Tracer())
    async for event in agent.query("a"):
        if event.type == "result":
            order.append("event")
    assert order == ["result", "flush", "event"]


async def test_a_hanging_flush_of_a_tolerant_tracer_does_not_hold_the_result(monkeypatch):
    """agent:LOOP-12 agent:TRACE-22 agent:W-31"""
    monkeypatch.setattr("lattice.agent.tracing.FLUSH_SECONDS", 0.01)
    agent, _ = agent_of(["hi"], tracer={"on_event": lambda event: None, "flush": lambda: asyncio.Event().wait()})
    assert (await agent.prompt("a")).result == "hi"


async def test_failures_of_a_lone_agent_are_rows_of_the_usual_types():
    """agent:TRACE-19"""

    async def boom(_value):
        raise RuntimeError("boom")

    tracer = RecordingTracer()
    agent, _ = agent_of(
        [turn(tool_use("boom")), APIError("down", status=500)],
        tools=[tool("boom", "Breaks.", ANY, boom)],
        tracer=tracer,
    )
    assert (await agent.prompt("a")).subtype == "error"
    assert "error" in tracer.data("tool_result")[0]
    assert tracer.data("result")[0]["is_error"] is True
    assert {"error", "team_message"}.isdisjoint(tracer.types())


async def test_slow_tracers_slow_the_agent():
    """agent:TRACE-23"""
    open_rows = []

    class Tracer:
        async def on_event(self, event):
            open_rows.append(event.type)
            await asyncio.sleep(0)
            assert open_rows.pop() == event.type

    agent, _ = agent_of([turn(tool_use("echo")), "hi"], tools=[echo_tool()], tracer=Tracer())
    await agent.prompt("a")
    assert open_rows == []


async def test_composite_tracers():
    """agent:JSONL-11, agent:JSONL-12, agent:TRACE-04"""
    first, last = RecordingTracer(), RecordingTracer()
    told = []

    class Broken:
        def on_event(self, event):
            told.append(event.type)
            raise OSError("broken child")

        def flush(self):
            told.append("flush")

    agent, _ = agent_of(["hi"], tracer=create_composite_context_tracer([first, None, Broken(), last]))
    await agent.prompt("a")
    assert first.types() == last.types() == PLAIN
    assert [event.seq for event in last.events] == [1, 2, 3, 4, 5]
    assert told[-1] == "flush"
    child = define_context_tracer(Broken(), fail_on_error=True)
    strict = create_composite_context_tracer([first, child, last])
    before = len(last.events)
    with pytest.raises(OSError, match="broken child"):
        await agent.prompt("b", tracer=strict)
    assert len(last.events) == before


async def test_retries_of_the_client_are_traced():
    async def create_message(request):
        await request.on_retry({"attempt": 1, "delay_ms": 500})
        return turn("hi")

    tracer = RecordingTracer()
    model = type("Model", (), {"create_message": staticmethod(create_message)})()
    agent, _ = agent_of(model, tracer=tracer)
    await agent.prompt("a")
    assert tracer.data("retry") == [{"attempt": 1, "delay_ms": 500}]
