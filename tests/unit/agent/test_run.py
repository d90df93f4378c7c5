"""The loop: order of events, endings, usage, streaming, back-pressure."""

import asyncio

import pytest

from lattice import (
    AbortController,
    AbortError,
    AbortSignal,
    APIError,
    MaxTurnsError,
    MissingOutputError,
    OptionError,
    SDKResultMessage,
    TimeoutError,  # noqa: A004 - the documented name
    tool,
)
from lattice.testing import ScriptedModel, text, tool_use, turn
from tests.unit.agent.support import (
    ANY,
    ListStore,
    RecordingTracer,
    agent_of,
    echo_tool,
    events_of,
    kinds,
    other_tasks,
    problems_of,
    until,
)


class Raw:
    """A model client from a plain function."""

    def __init__(self, create_message):
        self.create_message = create_message


async def test_plain_answer_and_one_tool_call_in_order():
    """agent:LOOP-01, agent:LOOP-06, agent:EVT-01, agent:EVT-08, agent:EVT-09"""
    agent, _ = agent_of([turn(tool_use("echo", {"say": "a"}, id="t1")), "done"], tools=[echo_tool()])
    events = await events_of(agent.query("go", stream=False))
    assert kinds(events) == ["system", "assistant", "user", "assistant", "result"]
    assert events[0].to_dict() == {
        "type": "system",
        "subtype": "init",
        "model": "scripted",
        "tools": ["echo"],
        "session_id": agent.session_id,
    }
    assert events[2].to_dict() == {
        "type": "user",
        "message": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "echo a"}],
        },
        "session_id": agent.session_id,
        "tool_use_result": "echo a",
    }
    result = events[-1].to_dict()
    assert set(result) == {
        "type",
        "subtype",
        "is_error",
        "result",
        "session_id",
        "num_turns",
        "usage",
        "stop_reason",
    }
    assert (result["subtype"], result["result"], result["num_turns"]) == ("success", "done", 2)


async def test_init_comes_with_every_query_and_the_session_stays():
    """agent:LOOP-04, agent:OPT-21"""
    agent, _ = agent_of(["one", "two"])
    first, second = await events_of(agent.query("a")), await events_of(agent.query("b"))
    assert first[0].subtype == second[0].subtype == "init"
    assert {event.session_id for event in [*first, *second]} == {agent.session_id}


async def test_query_is_lazy_and_prompt_is_not():
    """agent:LOOP-02, agent:LOOP-15"""
    agent, model = agent_of(["one", "two"])
    stream = agent.query("a")
    assert agent.interrupt() is False
    await stream.aclose()
    pending = agent.prompt("b")
    assert agent.interrupt() is True
    assert (await pending).subtype == "interrupted"
    assert model.calls == 0


async def test_stream_events_arrive_while_the_model_responds():
    """agent:LOOP-07, agent:EVT-03, agent:EVT-14"""
    release = asyncio.Event()

    async def create_message(request):
        request.on_stream_event({"n": 1})
        await release.wait()
        request.on_stream_event({"n": 2})
        request.on_stream_event({"n": 3})
        return turn("done")

    agent, _ = agent_of(Raw(create_message))
    seen = []
    async for event in agent.query("go"):
        seen.append(event)
        if event.type == "stream_event" and event.event == {"n": 1}:
            release.set()
    assert kinds(seen) == ["system", "stream_event", "stream_event", "stream_event", "assistant", "result"]
    assert [event.event["n"] for event in seen[1:4]] == [1, 2, 3]


async def test_without_streaming_no_stream_events():
    """agent:LOOP-21"""
    agent, model = agent_of(["done"])
    events = await events_of(agent.query("go", stream=False))
    assert kinds(events) == ["system", "assistant", "result"]
    assert model.requests[0].stream is False


async def test_the_next_event_is_produced_when_the_current_one_is_taken():
    """agent:EVT-12"""
    ran = []

    async def note(_value):
        ran.append("tool")
        return "ok"

    agent, model = agent_of([turn(tool_use("note")), "done"], tools=[tool("note", "Notes.", ANY, note)])
    stream = agent.query("go", stream=False)
    assert (await anext(stream)).type == "system"
    await asyncio.sleep(0)
    assert model.calls == 0
    assert (await anext(stream)).type == "assistant"
    await asyncio.sleep(0)
    assert ran == []
    assert (await anext(stream)).type == "user"
    await asyncio.sleep(0)
    assert model.calls == 1
    await stream.aclose()


async def test_request_fields():
    """agent:LOOP-21, agent:LOOP-22, agent:LOOP-23, agent:LOOP-25, agent:OPT-12"""
    agent, model = agent_of(["a", "b"], tools=[echo_tool()], system_prompt=" be brief ", reasoning_effort="low")
    answer = await agent.prompt(
        "go",
        output_format="json",
        thinking_config={"type": "enabled", "budget_tokens": 10},
        reasoning_effort="max",
        request_timeout_ms=5000,
    )
    request = model.requests[0]
    assert (request.model, request.system_prompt, request.max_tokens) == ("scripted", "be brief", 16384)
    assert request.tools == [{"name": "echo", "description": "Says it again.", "input_schema": ANY}]
    assert request.output_format == "json"
    assert request.thinking_config == {"type": "enabled", "budget_tokens": 10}
    assert (request.reasoning_effort, request.timeout_ms) == ("max", 5000)
    assert request.messages == [{"role": "user", "content": "go"}]
    assert answer.result == "a"
    await agent.prompt("again", reasoning_effort=None)
    assert model.requests[1].reasoning_effort == "low"
    assert len(model.requests[1].messages) == 3


async def test_block_prompts_reach_the_provider_unchanged():
    """agent:LOOP-27, agent:HIST-17"""
    blocks = [text("what is this?"), {"type": "image", "source": {"type": "base64", "data": "AA=="}}]
    agent, model = agent_of(["a cat"])
    await agent.prompt(blocks)
    assert model.requests[0].messages == [{"role": "user", "content": blocks}]


async def test_max_turns():
    """agent:LOOP-13, agent:OUT-11"""
    agent, model = agent_of(lambda _request: turn(tool_use("echo")), tools=[echo_tool()], max_turns=2)
    result = await agent.prompt("go")
    assert (result.subtype, result.is_error, result.result, result.num_turns) == ("error_max_turns", True, "", 2)
    assert isinstance(result.error, MaxTurnsError)
    assert str(result.error) == "Reached maximum number of turns (2)"
    assert model.calls == 2
    history = await agent.get_history()
    assert history[-1]["content"][0]["type"] == "tool_result"


async def test_a_failing_client_ends_with_an_api_error():
    """agent:LOOP-17, agent:LOOP-18, agent:LOOP-19"""
    broken = RuntimeError("socket closed")
    agent, model = agent_of([broken, "fine"])
    result = await agent.prompt("go")
    assert (result.subtype, result.is_error, result.result, result.num_turns) == ("error", True, "", 1)
    assert isinstance(result.error, APIError)
    assert str(result.error) == "socket closed"
    assert result.error.cause is broken
    await agent.prompt("again")
    assert [message["role"] for message in model.requests[1].messages] == ["user", "user"]


async def test_api_error_details_survive():
    original = APIError("slow down", status=429, code="rate_limit_error", retryable=True, retry_after=2.0)
    agent, _ = agent_of([original])
    error = (await agent.prompt("go")).error
    assert error.cause is original
    assert (error.status, error.code, error.retryable, error.retry_after) == (429, "rate_limit_error", True, 2.0)


@pytest.mark.parametrize(
    ("raised", "subtype"),
    [(AbortError("stopped by me"), "error_abort"), (TimeoutError("too slow"), "error_timeout")],
)
async def test_abort_and_timeout_errors_of_a_client_keep_their_meaning(raised, subtype):
    """agent:LOOP-18"""
    agent, _ = agent_of([raised])
    result = await agent.prompt("go")
    assert result.subtype == subtype
    assert result.error is raised


@pytest.mark.parametrize("reply", [None, "text", {"role": "user", "content": []}, {"content": 3}, {"content": [{}]}])
async def test_malformed_answers_end_with_an_error(reply):
    """agent:LOOP-20"""

    async def create_message(_request):
        return reply

    agent, _ = agent_of(Raw(create_message))
    result = await agent.prompt("go")
    assert (result.subtype, result.error.code) == ("error", "malformed_response")
    assert problems_of(await agent.get_history()) == []


async def test_a_client_that_raises_at_once_or_cancels_itself_ends_with_an_error():
    """agent:LOOP-20"""

    def at_once(_request):
        raise ValueError("not even a coroutine")

    async def cancels(_request):
        raise asyncio.CancelledError

    for create_message in (at_once, cancels):
        agent, _ = agent_of(Raw(create_message))
        assert (await agent.prompt("go")).subtype == "error"


async def test_usage_is_summed_and_the_stop_reason_is_the_last():
    """agent:USE-01, agent:USE-02, agent:USE-04, agent:USE-08"""
    agent, _ = agent_of(
        [
            turn(tool_use("echo"), usage={"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 0}),
            turn("end", usage={"input_tokens": 10, "output_tokens": 20, "cache_creation_input_tokens": 5}),
            "silent",
        ],
        tools=[echo_tool()],
    )
    result = await agent.prompt("go")
    assert result.usage == {"input_tokens": 11, "output_tokens": 22, "cache_creation_input_tokens": 5}
    assert result.stop_reason == "end_turn"
    assert (await agent.prompt("again")).usage == {"input_tokens": 0, "output_tokens": 0}


async def test_no_usage_and_no_stop_reason():
    """agent:USE-03, agent:USE-05"""

    async def create_message(_request):
        return {"role": "assistant", "content": [text("hi")]}

    agent, _ = agent_of(Raw(create_message))
    wire = (await agent.prompt("go")).to_dict()
    assert wire["usage"] == {"input_tokens": 0, "output_tokens": 0}
    assert "stop_reason" not in wire
    assert "error" not in wire


async def test_result_text_joins_text_blocks_without_thinking():
    """agent:EVT-11, agent:LOOP-11"""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    agent, _ = agent_of([turn(thinking, "one ", "two", stop_reason="tool_use")])
    assert (await agent.prompt("go")).result == "one two"


async def test_text_cut_at_max_tokens_is_a_success():
    """agent:TRUNC-04"""
    agent, _ = agent_of([turn("half", stop_reason="max_tokens")])
    result = await agent.prompt("go")
    assert (result.subtype, result.stop_reason) == ("success", "max_tokens")


async def test_truncated_calls_are_not_run():
    """agent:TRUNC-05 agent:TRUNC-01"""
    ran = []
    spy = tool("spy", "Spies.", ANY, lambda value: ran.append(value) or "x")
    agent, _ = agent_of([turn(tool_use("spy"), tool_use("spy"), stop_reason="max_tokens"), "ok"], tools=[spy])
    events = await events_of(agent.query("go", stream=False))
    assert ran == []
    results = events[2].message["content"]
    assert [block["is_error"] for block in results] == [True, True]
    assert events[2].tool_use_result == results
    assert events[-1].subtype == "success"


async def test_several_results_are_shown_as_blocks_and_the_first_error():
    """agent:EVT-05, agent:EVT-06, agent:EVT-07"""

    async def boom(_value):
        raise RuntimeError("boom")

    agent, _ = agent_of(
        [turn(tool_use("echo", id="a"), tool_use("boom", id="b"))] + ["done"],
        tools=[echo_tool(), tool("boom", "Breaks.", ANY, boom)],
    )
    events = await events_of(agent.query("go", stream=False))
    user = events[2]
    assert user.tool_use_result == user.message["content"]
    assert [block["tool_use_id"] for block in user.message["content"]] == ["a", "b"]
    assert str(user.error) == "Tool boom failed: boom"
    assert user.to_dict()["error"] == {"name": "ToolExecutionError", "message": "Tool boom failed: boom"}


async def test_end_turn_ends_with_the_text_of_the_tool():
    """agent:EXEC-10, agent:EXEC-14"""

    async def finish(value):
        return {"content": value["say"], "end_turn": True, "structured_result": None}

    agent, model = agent_of(
        [turn(tool_use("echo"), tool_use("finish", {"say": "that is it"}))],
        tools=[echo_tool(), tool("finish", "Ends.", ANY, finish)],
    )
    result = await agent.prompt("go")
    assert (result.subtype, result.result, model.calls) == ("success", "that is it", 1)
    assert result.to_dict()["structuredResult"] is None
    assert problems_of(await agent.get_history()) == []


async def test_aborted_before_the_start():
    """agent:LOOP-05"""
    controller = AbortController()
    controller.abort()
    store, tracer = ListStore(), RecordingTracer()
    agent, model = agent_of(["no"], history_store=store, tracer=tracer)
    events = await events_of(agent.query("go", signal=controller.signal))
    assert kinds(events) == ["system", "result"]
    assert (events[-1].subtype, events[-1].num_turns) == ("error_abort", 0)
    assert str(events[-1].error) == "Operation aborted"
    assert store.calls == []
    assert tracer.types() == ["run_start", "result"]
    assert model.calls == 0


async def test_abort_cuts_a_model_call_that_ignores_its_signal():
    """agent:ABRT-01, agent:ABRT-02, agent:ABRT-03, agent:TRACE-20"""
    controller, tracer = AbortController(), RecordingTracer()
    told = []

    async def create_message(request):
        told.append(request.signal)
        await asyncio.Event().wait()

    agent, _ = agent_of(Raw(create_message), tracer=tracer)
    pending = asyncio.ensure_future(agent.prompt("go", signal=controller.signal))
    await until(lambda: told)
    controller.abort()
    result = await pending
    assert (result.subtype, result.num_turns) == ("error_abort", 1)
    assert isinstance(result.error, AbortError)
    assert str(result.error) == "Operation was aborted"
    assert told[0].aborted
    assert tracer.types() == ["run_start", "user_message", "model_request", "result"]
    assert other_tasks() == []


async def test_a_signal_with_a_timeout_bounds_the_whole_query():
    """agent:ABRT-01"""

    async def create_message(_request):
        await asyncio.Event().wait()

    agent, _ = agent_of(Raw(create_message))
    result = await agent.prompt("go", signal=AbortSignal.timeout(20))
    assert result.subtype == "error_abort"


async def test_abort_during_a_batch_answers_every_call():
    """agent:ABRT-04, agent:ABRT-05, agent:ABRT-06"""
    controller, started = AbortController(), asyncio.Event()

    async def slow(_value, context):
        started.set()
        await context.signal.wait()
        return "stopped in time"

    agent, model = agent_of([turn(tool_use("slow"), tool_use("slow"))], tools=[tool("slow", "Waits.", ANY, slow)])
    stream = agent.query("go", signal=controller.signal, stream=False)
    work = asyncio.ensure_future(events_of(stream))
    await started.wait()
    controller.abort()
    events = await work
    assert kinds(events) == ["system", "assistant", "user", "result"]
    assert [block["content"] for block in events[2].message["content"]] == [
        "stopped in time",
        "Tool slow was not started because the operation was aborted",
    ]
    assert isinstance(events[2].error, AbortError)
    assert events[-1].subtype == "error_abort"
    assert model.calls == 1
    assert problems_of(await agent.get_history()) == []


async def test_a_policy_that_aborts_ends_the_query():
    """agent:POL-08"""

    def policy(_context):
        raise AbortError("not today")

    agent, model = agent_of([turn(tool_use("echo")), "never"], tools=[echo_tool()], tool_batch_policy=policy)
    events = await events_of(agent.query("go", stream=False))
    assert kinds(events) == ["system", "assistant", "user", "result"]
    assert str(events[2].error) == "not today"
    assert (events[-1].subtype, model.calls) == ("error_abort", 1)
    assert problems_of(await agent.get_history()) == []


async def test_interrupt_during_a_model_call():
    """agent:INT-01, agent:INT-02, agent:INT-10"""
    asked = []

    async def create_message(request):
        asked.append(request)
        if len(asked) == 1:
            await asyncio.Event().wait()
        return turn("now")

    agent, _ = agent_of(Raw(create_message))
    assert agent.interrupt() is False
    pending = asyncio.ensure_future(agent.prompt("go"))
    await until(lambda: asked)
    assert agent.interrupt() is True
    result = await pending
    assert (result.subtype, result.is_error, result.result, result.error) == ("interrupted", False, "", None)
    assert asked[0].signal.aborted
    assert (await agent.prompt("correction")).result == "now"
    assert [message["content"] for message in asked[1].messages] == ["go", "correction"]


async def test_interrupt_right_after_prompt():
    """agent:INT-03"""
    agent, model = agent_of(["never"])
    pending = asyncio.create_task(agent.prompt("go"))
    assert agent.interrupt() is True
    result = await pending
    assert (result.subtype, result.num_turns, model.calls) == ("interrupted", 0, 0)
    assert await agent.get_history() == [{"role": "user", "content": "go"}]


async def test_interrupt_during_a_batch_keeps_the_results():
    """agent:INT-04, agent:INT-08"""
    started, release = asyncio.Event(), asyncio.Event()

    async def slow(_value):
        started.set()
        await release.wait()
        return "kept"

    agent, model = agent_of(
        [turn(tool_use("slow"), tool_use("echo"))],
        tools=[tool("slow", "Waits.", ANY, slow), echo_tool()],
        max_turns=1,
    )
    pending = asyncio.ensure_future(agent.prompt("go"))
    await started.wait()
    assert agent.interrupt() is True
    release.set()
    assert (await pending).subtype == "interrupted"
    history = await agent.get_history()
    assert [block["content"] for block in history[-1]["content"]] == ["kept", "echo"]
    assert model.calls == 1


async def test_abort_wins_over_interrupt():
    """agent:ABRT-07"""
    controller, asked = AbortController(), []

    async def create_message(request):
        asked.append(request)
        await asyncio.Event().wait()

    agent, _ = agent_of(Raw(create_message))
    pending = asyncio.ensure_future(agent.prompt("go", signal=controller.signal))
    await until(lambda: asked)
    agent.interrupt()
    controller.abort()
    assert (await pending).subtype == "error_abort"


async def test_request_timeout():
    """agent:TIME-01, agent:TIME-02"""

    async def create_message(request):
        request.on_stream_event({"n": 1})
        await asyncio.Event().wait()

    agent, _ = agent_of(Raw(create_message), request_timeout_ms=60_000)
    events = await events_of(agent.query("go", request_timeout_ms=20))
    assert kinds(events) == ["system", "stream_event", "result"]
    result = events[-1]
    assert (result.subtype, result.num_turns) == ("error_timeout", 1)
    assert isinstance(result.error, TimeoutError)
    assert str(result.error) == "Model request exceeded request_timeout_ms of 20ms"
    assert other_tasks() == []


async def test_output_schema_ends_the_run_with_the_parsed_value():
    """agent:OUT-01, agent:OUT-02, agent:OUT-04, agent:OUT-05, agent:OUT-14"""
    from pydantic import BaseModel

    class Answer(BaseModel):
        number: int
        unit: str = "m"

    agent, model = agent_of([turn(tool_use("submit_output", {"number": "4"}))], output_schema=Answer)
    result = await agent.prompt("go")
    assert (result.subtype, result.result) == ("success", "Structured output submitted.")
    assert result.structured_result == Answer(number=4)
    assert result.to_dict()["structuredResult"] == {"number": 4, "unit": "m"}
    assert model.requests[0].tools[-1]["name"] == "submit_output"
    assert agent.output_schema is Answer
    assert agent.toolset.names == ["submit_output"]


async def test_an_invalid_submission_goes_back_to_the_model():
    """agent:OUT-06"""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    agent, _ = agent_of(
        [turn(tool_use("submit_output", {"n": "x"})), turn(tool_use("submit_output", {"n": 1}))], output_schema=schema
    )
    events = await events_of(agent.query("go", stream=False))
    assert events[2].message["content"][0]["content"].startswith("Tool submit_output failed")
    assert events[-1].structured_result == {"n": 1}


async def test_ending_without_submitting_is_an_error():
    """agent:OUT-07, agent:OUT-08"""
    agent, _ = agent_of(["it is 4"], output_schema={"type": "object"})
    result = await agent.prompt("go")
    assert (result.subtype, result.is_error, result.result) == ("error_missing_output", True, "it is 4")
    assert isinstance(result.error, MissingOutputError)
    assert str(result.error).startswith("Agent ended its turn without calling submit_output.")
    assert "structuredResult" not in result.to_dict()


async def test_submission_must_be_alone():
    """agent:OUT-09"""
    agent, _ = agent_of(
        [
            turn(tool_use("submit_output", {}), tool_use("echo")),
            turn(tool_use("submit_output", {})),
        ],
        tools=[echo_tool()],
        output_schema={"type": "object"},
    )
    events = await events_of(agent.query("go", stream=False))
    assert "submit_output_exclusive_batch" in events[2].message["content"][0]["content"]
    assert events[-1].subtype == "success"


async def test_another_tool_cannot_end_a_run_with_an_output_schema():
    """agent:OUT-12"""

    async def finish(_value):
        return {"content": "bye", "end_turn": True, "structured_result": 3}

    agent, _ = agent_of(
        [turn(tool_use("finish"))], tools=[tool("finish", "Ends.", ANY, finish)], output_schema={"type": "object"}
    )
    result = await agent.prompt("go")
    assert (result.subtype, result.result, result.has_structured_result) == ("error_missing_output", "bye", False)


async def test_the_name_submit_output_is_reserved_only_with_a_schema():
    """agent:OUT-13"""
    own = echo_tool("submit_output")
    with pytest.raises(OptionError, match='"submit_output" is reserved when AgentOptions.output_schema is set'):
        agent_of(["x"], tools=[own], output_schema={"type": "object"})
    agent, _ = agent_of(["x"], output_schema={"type": "object"})
    with pytest.raises(OptionError, match="reserved"):
        agent.add_tools([own])
    assert agent_of(["x"], tools=[own])[0].toolset.names == ["submit_output"]


async def test_tools_added_while_a_query_runs_are_offered_in_its_next_request():
    """agent:TOOL-12"""
    model = ScriptedModel([turn(tool_use("echo")), turn(tool_use("late")), "done"])
    agent, _ = agent_of(model, tools=[echo_tool()])
    events = []
    async for event in agent.query("go", stream=False):
        events.append(event)
        if event.type == "user" and len(agent.toolset.names) == 1:
            agent.add_tools([echo_tool("late")])
    assert events[0].tools == ["echo"]
    assert [entry["name"] for entry in model.requests[1].tools] == ["echo", "late"]
    assert events[4].tool_use_result == "echo"


class PausingRuntime:
    source = {"kind": "root", "name": "lead"}
    permissions = None
    tools = ()

    def __init__(self):
        self.calls = []

    def should_pause_after_tool_batch(self):
        return True

    def mail_after_tool_batch(self):
        return [text("mail for you")]

    async def before_model_call(self):
        self.calls.append("before")


async def test_a_runtime_pauses_the_query_after_a_batch():
    """agent:EXEC-17, agent:RT-04"""

    async def finish(_value):
        return {"content": "ignored", "end_turn": True}

    runtime = PausingRuntime()
    agent, model = agent_of([turn(tool_use("finish"))], tools=[tool("finish", "Ends.", ANY, finish)])
    result = await agent.prompt("go", runtime=runtime)
    assert result.result == "Delegated work was queued. Waiting for team runtime reports before continuing."
    assert (result.subtype, result.paused, model.calls) == ("success", True, 1)
    assert "paused" not in result.to_dict()
    assert runtime.calls == ["before"]
    assert (await agent.get_history())[-1]["content"][-1] == text("mail for you")


async def test_a_runtime_brings_its_own_tools():
    """agent:RT-01, agent:RT-02, agent:LOOP-26"""
    runtime = PausingRuntime()
    runtime.tools = [echo_tool("more")]
    agent, model = agent_of(["hi", "hi"], tools=[echo_tool()])
    await agent.prompt("go", agent_runtime=runtime)
    assert [entry["name"] for entry in model.requests[0].tools] == ["echo", "more"]
    await agent.prompt("go")
    assert [entry["name"] for entry in model.requests[1].tools] == ["echo"]
    runtime.tools = [echo_tool()]
    with pytest.raises(OptionError, match='two tools are named "echo"'):
        agent.query("go", runtime=runtime)


async def test_a_runtime_can_stop_the_work_before_a_model_call():
    class Stop(PausingRuntime):
        def before_model_call(self):
            raise RuntimeError("lease lost")

    agent, model = agent_of(["never"])
    with pytest.raises(RuntimeError, match="lease lost"):
        await agent.prompt("go", runtime=Stop())
    assert model.calls == 0
    assert (await agent.prompt("go")).subtype == "success"


async def test_results_are_typed():
    agent, _ = agent_of(["hi"])
    assert isinstance(await agent.prompt("go"), SDKResultMessage)
