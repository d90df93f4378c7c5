"""The exact order of what a query does, and the corners where two endings meet."""

import asyncio

import pytest

import lattice
from lattice import AbortController, create_bare_agent, tool
from lattice.agent.options import AGENT_OPTIONS
from lattice.errors import ToolBatchRejectedError, ToolPermissionDeniedError
from lattice.messages import NO_CONTENT
from lattice.testing import ScriptedModel, text, tool_use, turn
from tests.unit.agent.support import ANY, ListStore, agent_of, echo_tool, events_of, until


class Diary:
    """Writes down who did what, in one list."""

    def __init__(self):
        self.lines = []

    def store(self):
        diary = self

        class Store(ListStore):
            def load(self):
                diary.lines.append("load")
                return super().load()

            def append(self, message):
                diary.lines.append(f"append {message['role']}")
                super().append(message)

        return Store()

    def tracer(self):
        return {
            "on_event": lambda event: self.lines.append(f"trace {event.type}"),
            "flush": lambda: self.lines.append("flush"),
        }

    def model(self, script):
        diary = self

        class Model(ScriptedModel):
            async def create_message(self, request):
                diary.lines.append("model")
                return await super().create_message(request)

        return Model(script)


async def test_the_whole_order_of_a_query_with_a_tool():
    """agent:LOOP-03, agent:LOOP-09, agent:LOOP-10, agent:LOOP-12, agent:HOOK-11"""
    diary = Diary()
    note = diary.lines.append

    async def handler(_value):
        note("handler")
        return "ok"

    def permission(_request):
        note("permission")
        return {"behavior": "allow"}

    def policy(_context):
        note("policy")
        return {"allowed": True}

    agent, _ = agent_of(
        diary.model([turn(tool_use("work")), "done"]),
        tools=[tool("work", "Works.", ANY, handler)],
        history_store=diary.store(),
        tracer=diary.tracer(),
        permission=permission,
        tool_batch_policy=policy,
        hooks={
            "on_model_request": lambda context: note("hook request"),
            "on_tool_result": lambda context: note("hook result"),
        },
    )
    async for event in agent.query("go", stream=False):
        note(f"event {event.type}")
    assert diary.lines == [
        "trace run_start", "event system", "load", "append user", "trace user_message",
        "hook request", "trace model_request", "model",
        "append assistant", "trace assistant_message", "event assistant",
        "policy", "trace tool_use", "permission", "handler", "hook result", "trace tool_result",
        "append user", "trace user_message", "event user",
        "hook request", "trace model_request", "model",
        "append assistant", "trace assistant_message", "event assistant",
        "trace result", "flush", "event result",
    ]  # fmt: skip


async def test_what_wins_at_the_top_of_a_turn():
    """agent:LOOP-08, agent:ABRT-07, agent:INT-08"""
    for abort, interrupt, expected in [
        (True, True, "error_abort"),
        (False, True, "interrupted"),
        (False, False, "error_max_turns"),
    ]:
        controller = AbortController()

        async def stop(_value, abort=abort, interrupt=interrupt, controller=controller):
            if interrupt:
                agents[-1].interrupt()
            if abort:
                controller.abort()
            return "ok"

        big = {"input_tokens": 9999, "output_tokens": 1}
        agents = [
            agent_of(
                [turn(tool_use("stop"), usage=big)],
                tools=[tool("stop", "Stops.", ANY, stop)],
                max_turns=1,
                auto_compact={"threshold_tokens": 1, "keep_recent_messages": 1},
            )[0]
        ]
        assert (await agents[-1].prompt("go", signal=controller.signal)).subtype == expected


async def test_end_turn_wins_over_abort_and_interrupt():
    """agent:ABRT-06, agent:INT-06"""
    controller = AbortController()

    async def finish(_value):
        agent.interrupt()
        controller.abort()
        return {"content": "finished", "end_turn": True}

    agent, _ = agent_of([turn(tool_use("finish"))], tools=[tool("finish", "Ends.", ANY, finish)])
    result = await agent.prompt("go", signal=controller.signal)
    assert (result.subtype, result.result) == ("success", "finished")


async def test_none_means_the_agents_value():
    """agent:LOOP-24"""
    agent, model = agent_of(["a"], request_timeout_ms=5000, reasoning_effort="low")
    await agent.prompt("go", request_timeout_ms=None, reasoning_effort=None, thinking_config=None, stream=None)
    assert (model.requests[0].timeout_ms, model.requests[0].reasoning_effort) == (5000, "low")
    assert model.requests[0].stream is True


async def test_assistant_events_carry_what_the_client_reported():
    """agent:EVT-04, agent:MSG-03"""
    reply = {**turn("hi", usage={"input_tokens": 1, "output_tokens": 2}), "providerResponseId": "r", "model": "served"}

    class Model:
        async def create_message(self, request):
            return reply

    agent, _ = agent_of(Model())
    events = await events_of(agent.query("go", stream=False))
    assert events[1].message == reply
    assert (await agent.get_history())[1] == reply


async def test_subtypes_and_errors():
    """agent:EVT-10"""
    agent, _ = agent_of(["fine", RuntimeError("no")])
    fine, failed = await agent.prompt("a"), await agent.prompt("b")
    assert (fine.subtype, fine.is_error, failed.subtype, failed.is_error) == ("success", False, "error", True)
    assert (failed.result, "error" in failed.to_dict(), "error" in fine.to_dict()) == ("", True, False)


async def test_the_deadline_covers_the_model_request_only():
    """agent:TIME-04, agent:TIME-05"""
    slow = asyncio.Event()

    async def take_time(_value):
        asyncio.get_running_loop().call_later(0.05, slow.set)
        await slow.wait()
        return "slow but fine"

    agent, _ = agent_of([turn(tool_use("take_time")), "done"], tools=[tool("take_time", "Takes time.", ANY, take_time)])
    assert (await agent.prompt("go", request_timeout_ms=40)).result == "done"


def test_what_submit_output_tells_the_model():
    """agent:OUT-03"""
    agent, _ = agent_of(["x"], output_schema={"type": "object"})
    described = agent.toolset.models[0]["description"]
    for words in ("exactly once", "alone", "ends the run", "failed"):
        assert words in described
    assert agent.system_prompt_for(agent.toolset, None) is None


async def test_output_format_and_output_schema_together():
    """agent:OUT-16"""
    agent, model = agent_of([turn(tool_use("submit_output", {"n": 1}))], output_schema={"type": "object"})
    result = await agent.prompt("go", output_format="json")
    assert (model.requests[0].output_format, result.structured_result) == ("json", {"n": 1})


@pytest.mark.parametrize(
    ("concurrency", "safe", "told"),
    [
        ({"mode": "safe"}, True, True),
        ({"mode": "safe", "max_concurrency": 1}, True, True),
        ({"mode": "safe"}, None, False),
        ({"mode": "all"}, None, True),
        ({"mode": "sequential"}, True, False),
    ],
)
async def test_the_model_is_told_of_concurrency_where_there_is_some(concurrency, safe, told):
    """agent:WS-14, agent:WS-15"""
    agent, model = agent_of(["a"], tools=[echo_tool(is_concurrency_safe=safe)], tool_concurrency=concurrency)
    await agent.prompt("go")
    prompt = model.requests[0].system_prompt
    assert (prompt is not None and "request multiple independent tools" in prompt) is told


def test_an_agent_without_tools_has_no_system_prompt():
    """agent:WS-15, agent:WS-11"""
    agent, _ = agent_of(["a"], tool_concurrency={"mode": "all"}, system_prompt="  \n ")
    assert agent.system_prompt_for(agent.toolset, None) is None


def test_every_documented_option_is_accepted():
    """agent:OPT-04"""
    documented = (
        "api_key base_url name model system_prompt max_tokens max_turns thinking_config reasoning_effort"
        " request_timeout_ms tools tool_batch_policy hooks auto_compact tool_concurrency skills workspace permission"
        " model_client tracer history_store output_schema"
    ).split()
    assert set(AGENT_OPTIONS) - set(documented) == {"journal"}
    assert set(documented) <= set(AGENT_OPTIONS)
    create_bare_agent(**{name: None for name in documented if name != "model"}, model="m")


async def test_permissions_of_the_runtime_replace_those_of_the_query():
    """agent:RT-03, agent:TOOL-09"""
    seen = []

    class Runtime:
        source = {"kind": "agent"}
        permissions = {"workspace_grants": [{"root": "/runtime"}]}

    async def look(_value, context):
        seen.append((context.permissions, context.agent_runtime, context.context, context.tool_use_id))
        return "ok"

    agent, model = agent_of([turn(tool_use("look", id="t1")), "done"], tools=[tool("look", "Looks.", ANY, look)])
    runtime, host = Runtime(), object()
    mine = {"workspace_grants": [{"root": "/mine"}]}
    await agent.prompt("go", permissions=mine, runtime=runtime, context=host)
    assert seen == [(Runtime.permissions, runtime, host, "t1")]
    assert "/runtime" in model.requests[0].system_prompt
    assert "/mine" not in model.requests[0].system_prompt


async def test_recovery_reports_the_last_reading():
    """agent:COMP-15, agent:COMP-21"""
    too_long = lattice.APIError("prompt is too long", status=400)

    def seen(number):
        return turn(tool_use("echo", {"say": str(number)}), usage={"input_tokens": 70 + number, "output_tokens": 1})

    agent, _ = agent_of(
        [seen(1), seen(2), too_long, "SUMMARY", "done"],
        tools=[echo_tool()],
        auto_compact={"threshold_tokens": 1000, "keep_recent_messages": 2},
    )
    events = await events_of(agent.query("go", stream=False))
    compacted = [event for event in events if event.type == "system" and event.subtype == "compaction"]
    assert [event.trigger_input_tokens for event in compacted] == [72]


def test_errors():
    """agent:ERR-01, agent:ERR-02, agent:ERR-03, agent:ERR-04"""
    names = (
        "APIError ToolExecutionError MaxTurnsError AbortError TimeoutError ToolBatchRejectedError ConcurrentQueryError"
        " MissingOutputError ToolPermissionDeniedError"
    ).split()
    for name in names:
        assert issubclass(getattr(lattice, name), lattice.AgentSDKError)
    cause = ValueError("c")
    error = lattice.MaxTurnsError("m", cause=cause)
    assert (error.name, error.message, error.cause, str(error)) == ("MaxTurnsError", "m", cause, "m")
    rejected = ToolBatchRejectedError({"code": "c", "message": "split it"})
    assert (str(rejected), rejected.rejection["code"]) == ("split it", "c")
    denied = ToolPermissionDeniedError({"reason": "outside"})
    assert (str(denied), denied.denial) == ("outside", {"reason": "outside"})


async def test_blocks_and_stop_reasons_of_later_providers_are_kept():
    """agent:MSG-01, agent:MSG-02, agent:MSG-04"""
    blocks = [
        {"type": "thinking", "thinking": "t", "signature": "s"},
        {"type": "redacted_thinking", "data": "d"},
        {"type": "from_the_future", "payload": {"x": [1]}},
        text("hi"),
    ]
    agent, model = agent_of([turn(*blocks, stop_reason="brand_new"), "again"])
    result = await agent.prompt("go")
    assert (result.subtype, result.result, result.stop_reason) == ("success", "hi", "brand_new")
    await agent.prompt("more")
    assert model.requests[1].messages[1]["content"] == blocks
    assert {message["role"] for message in await agent.get_history()} == {"user", "assistant"}


async def test_slow_consumers_lose_no_stream_event():
    """agent:EVT-12 agent:EVT-13"""

    async def create_message(request):
        for number in range(500):
            request.on_stream_event({"n": number})
        return turn("done")

    model = type("Model", (), {"create_message": staticmethod(create_message)})()
    agent, _ = agent_of(model)
    seen = []
    async for event in agent.query("go"):
        await asyncio.sleep(0)
        if event.type == "stream_event":
            seen.append(event.event["n"])
    assert seen == list(range(500))


async def test_stream_events_from_another_thread():
    async def create_message(request):
        await asyncio.to_thread(lambda: [request.on_stream_event({"n": number}) for number in range(20)])
        return turn("done")

    model = type("Model", (), {"create_message": staticmethod(create_message)})()
    agent, _ = agent_of(model)
    events = await events_of(agent.query("go"))
    assert [event.event["n"] for event in events if event.type == "stream_event"] == list(range(20))


async def test_an_abort_from_another_thread():
    controller, asked = AbortController(), []

    async def create_message(request):
        asked.append(request)
        await asyncio.Event().wait()

    model = type("Model", (), {"create_message": staticmethod(create_message)})()
    agent, _ = agent_of(model)
    pending = asyncio.ensure_future(agent.prompt("go", signal=controller.signal))
    await until(lambda: asked)
    await asyncio.to_thread(controller.abort)
    assert (await asyncio.wait_for(pending, 5)).subtype == "error_abort"


async def test_a_caller_signal_keeps_no_listener_of_a_finished_query():
    controller = AbortController()
    agent, _ = agent_of([turn(tool_use("echo")), "done"], tools=[echo_tool()])
    await agent.prompt("go", signal=controller.signal)
    assert controller.signal._listeners == {}


async def test_nothing_said_is_nothing_shown():
    agent, _ = agent_of([turn("")])
    assert (await agent.prompt("go")).result == ""
    assert (await agent.get_history())[1]["content"] == [text(NO_CONTENT)]
