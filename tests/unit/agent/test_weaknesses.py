"""What the original is weak at (agent-behaviour.md section 32) and this agent is not; one test or more per weakness."""

import asyncio

import pytest
from pydantic import BaseModel

from lattice import AbortController, APIError, OptionError, create_bare_agent, define_context_tracer, query, tool
from lattice.testing import ScriptedModel, text, tool_use, turn
from tests.unit.agent.support import (
    ANY,
    ListStore,
    RecordingTracer,
    agent_of,
    echo_tool,
    events_of,
    other_tasks,
    problems_of,
    until,
)


async def test_w01_the_one_shot_query_works():
    """agent:W-01"""
    events = query(prompt="go", model="m", workspace=False, model_client=ScriptedModel(["hi"]), stream=False)
    assert [event.type async for event in events] == ["system", "assistant", "result"]


async def test_w02_none_keeps_the_turn_limit():
    """agent:W-02"""
    agent, model = agent_of(lambda request: turn(tool_use("echo")), tools=[echo_tool()], max_turns=None)
    assert (await agent.prompt("go")).subtype == "error_max_turns"
    assert model.calls == 50
    with pytest.raises(OptionError):
        create_bare_agent(model="m", max_turns=-1)


@pytest.mark.parametrize("where", ["hook", "tracer", "break"])
async def test_w03_every_call_is_answered_after_any_failure(where):
    """agent:W-03"""

    def fail(*_):
        raise RuntimeError("host")

    options = {
        "hook": {"hooks": {"on_tool_result": fail}},
        "tracer": {
            "tracer": define_context_tracer(
                on_event=lambda event: fail() if event.type == "tool_use" else None, fail_on_error=True
            )
        },
        "break": {},
    }[where]
    store = ListStore()
    agent, model = agent_of(
        [turn(tool_use("echo"), tool_use("echo")), "fine"], tools=[echo_tool()], history_store=store, **options
    )
    if where == "break":
        stream = agent.query("go", stream=False)
        async for event in stream:
            if event.type == "assistant":
                break
        await stream.aclose()
    else:
        with pytest.raises(RuntimeError, match="host"):
            await agent.prompt("go")
    history = await agent.get_history()
    assert problems_of(history) == []
    assert len(history) == 3
    assert store.messages == history


async def test_w04_giving_up_stops_model_and_tools():
    """agent:W-04"""
    stopped, running = [], asyncio.Event()

    async def slow(_value):
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("tool")

    agent, _ = agent_of([turn(tool_use("slow"))], tools=[tool("slow", "Slow.", ANY, slow)])
    work = asyncio.ensure_future(events_of(agent.query("go")))
    await running.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert stopped == ["tool"]
    assert other_tasks() == []
    assert problems_of(await agent.get_history()) == []


async def test_w05_a_timeout_fires_the_signal_and_stops_the_call():
    """agent:W-05 agent:TIME-03"""
    seen = []

    class Model:
        async def create_message(self, request):
            try:
                await asyncio.Event().wait()
            finally:
                seen.append(request.signal.aborted)

    agent, _ = agent_of(Model(), request_timeout_ms=10)
    assert (await agent.prompt("go")).subtype == "error_timeout"
    assert seen == [True]
    assert other_tasks() == []


async def test_w05_a_client_that_refuses_to_stop_is_left_behind(monkeypatch, caplog):
    """agent:W-05"""
    monkeypatch.setattr("lattice.agent.model_call.STUBBORN_SECONDS", 0.01)
    release = asyncio.Event()

    class Stubborn:
        async def create_message(self, request):
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue

    agent, _ = agent_of(Stubborn(), request_timeout_ms=10)
    assert (await agent.prompt("go")).subtype == "error_timeout"
    assert "left behind" in caplog.text
    release.set()
    await until(lambda: other_tasks() == [])


async def test_w06_chats_of_one_turn_compact_and_cached_tokens_count():
    """agent:W-06 agent:COMP-03 agent:COMP-04"""
    cached = {"input_tokens": 3, "output_tokens": 1, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 50}

    def reply(request):
        return "SUMMARY" if request.system_prompt else turn("yes", usage=cached)

    agent, model = agent_of(reply, auto_compact={"threshold_tokens": 900, "keep_recent_messages": 1})
    for _ in range(3):
        assert (await agent.prompt("again")).result == "yes"
    summaries = [request for request in model.requests if request.system_prompt]
    assert len(summaries) == 2


async def test_w06_a_loaded_conversation_compacts_in_its_first_turn():
    """agent:W-06 agent:COMP-04 agent:COMP-05"""
    big = {"input_tokens": 5000, "output_tokens": 1}
    stored = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [text("b")], "usage": big},
    ]
    agent, model = agent_of(
        ["SUMMARY", "c"],
        history_store=ListStore(stored),
        auto_compact={"threshold_tokens": 100, "keep_recent_messages": 1},
    )
    assert (await agent.prompt("go")).result == "c"
    assert model.calls == 2


async def test_w07_a_failing_summary_does_not_kill_a_healthy_run():
    """agent:W-07 agent:COMP-16"""
    big = {"input_tokens": 5000, "output_tokens": 1}
    agent, _ = agent_of(
        [turn(tool_use("echo"), usage=big), RuntimeError("no summary"), "done"],
        tools=[echo_tool()],
        auto_compact={"threshold_tokens": 100, "keep_recent_messages": 2},
    )
    assert (await agent.prompt("go")).result == "done"


async def test_w08_summary_requests_are_traced_and_go_through_the_hook():
    """agent:W-08 agent:HOOK-12 agent:COMP-09"""
    tracer, purposes = RecordingTracer(), []
    big = {"input_tokens": 5000, "output_tokens": 1}

    def redact(context):
        purposes.append(context.purpose)
        return {"messages": [{"role": "user", "content": str(context.messages).replace("secret", "***")}]}

    agent, model = agent_of(
        [turn(tool_use("echo"), usage=big), "SUMMARY", "done"],
        tools=[echo_tool()],
        auto_compact={"threshold_tokens": 100, "keep_recent_messages": 2},
        hooks={"on_model_request": redact},
        tracer=tracer,
    )
    await agent.prompt("my secret")
    assert purposes == ["turn", "compaction", "turn"]
    assert "secret" not in str([request.messages for request in model.requests])
    assert [data.get("purpose") for data in tracer.data("model_request")] == [None, "compaction", None]
    assert [data.get("purpose") for data in tracer.data("assistant_message")] == [None, "compaction", None]


async def test_w09_summary_requests_have_no_tool_blocks_and_alternate():
    """agent:W-09 agent:COMP-09 agent:COMP-12"""
    big = {"input_tokens": 5000, "output_tokens": 1}
    agent, model = agent_of(
        [turn(tool_use("echo")), turn(tool_use("echo"), usage=big), "SUMMARY", "done"],
        tools=[echo_tool()],
        auto_compact={"threshold_tokens": 100, "keep_recent_messages": 2},
    )
    await agent.prompt("go")
    roles = [message["role"] for message in model.requests[2].messages]
    assert all(a != b for a, b in zip(roles, roles[1:], strict=False))
    assert "tool_use" not in str(model.requests[2].messages)


async def test_w10_an_overflowed_response_is_neither_run_nor_stored():
    """agent:W-10 agent:COMP-23"""
    ran = []
    spy = tool("spy", "Spies.", ANY, lambda value: ran.append(1) or "x")
    agent, _ = agent_of([turn(tool_use("spy"), stop_reason="model_context_window_exceeded")], tools=[spy])
    result = await agent.prompt("go")
    assert (result.subtype, ran) == ("error", [])
    assert len(await agent.get_history()) == 1


async def test_w11_a_rate_limit_that_speaks_of_tokens_is_no_overflow():
    """agent:W-11"""
    limit = APIError("too many tokens per minute", status=429)
    agent, model = agent_of(
        [turn(tool_use("echo")), turn(tool_use("echo")), limit],
        tools=[echo_tool()],
        auto_compact={"keep_recent_messages": 1},
    )
    assert (await agent.prompt("go")).error.status == 429
    assert model.calls == 3


async def test_w12_a_late_interrupt_does_not_promise_what_never_comes():
    """agent:W-12 agent:INT-07"""
    agent, _ = agent_of(["final"])
    async for event in agent.query("go", stream=False):
        if event.type == "assistant":
            assert agent.interrupt() is False
    assert event.subtype == "success"


@pytest.mark.parametrize("how", ["abort", "interrupt"])
async def test_w13_abort_and_interrupt_reach_a_running_command(how, tmp_path):
    """agent:W-13"""
    from lattice import create_agent

    model = ScriptedModel([turn(tool_use("Bash", {"command": "touch started; sleep 600", "timeout_ms": 600_000}))])
    agent = create_agent(model="m", model_client=model, workspace=str(tmp_path))
    controller = AbortController()
    pending = asyncio.ensure_future(agent.prompt("go", signal=controller.signal))
    async with asyncio.timeout(20):
        while not (tmp_path / "started").exists():
            await asyncio.sleep(0.01)
    if how == "abort":
        controller.abort()
    else:
        agent.interrupt()
    async with asyncio.timeout(5):
        result = await pending
    assert result.subtype == {"abort": "error_abort", "interrupt": "interrupted"}[how]
    history = await agent.get_history()
    assert "stopped because the operation was aborted" in history[-1]["content"][0]["content"]
    assert problems_of(history) == []


async def test_w13_an_interrupt_is_offered_to_tools_but_ends_no_batch():
    """agent:W-13 agent:INT-05"""
    started = asyncio.Event()

    async def patient(_value, context):
        started.set()
        await context.interrupt.wait()
        return "ended early"

    agent, _ = agent_of(
        [turn(tool_use("patient"), tool_use("echo"))], tools=[tool("patient", "Waits.", ANY, patient), echo_tool()]
    )
    pending = asyncio.ensure_future(agent.prompt("go"))
    await started.wait()
    assert agent.interrupt() is True
    assert (await pending).subtype == "interrupted"
    history = await agent.get_history()
    assert [block["content"] for block in history[-1]["content"]] == ["ended early", "echo"]


async def test_w24_permission_does_not_lock_the_exit():
    """agent:W-24"""
    agent, _ = agent_of(
        [turn(tool_use("submit_output", {"n": 1}))],
        output_schema={"type": "object"},
        permission=lambda request: {"behavior": "deny", "message": "only Read"},
    )
    assert (await agent.prompt("go")).structured_result == {"n": 1}


async def test_w25_a_hook_that_heals_a_result_heals_the_event_and_the_pairing():
    """agent:W-25"""

    def heal(context):
        return {"type": "tool_result", "tool_use_id": "other", "content": "healed"}

    async def boom(_value):
        raise RuntimeError("boom")

    tracer = RecordingTracer()
    agent, _ = agent_of(
        [turn(tool_use("boom", id="b")), "done"],
        tools=[tool("boom", "Breaks.", ANY, boom)],
        hooks={"on_tool_result": heal},
        tracer=tracer,
    )
    events = await events_of(agent.query("go", stream=False))
    assert events[2].error is None
    assert "error" not in tracer.data("tool_result")[0]
    assert problems_of(await agent.get_history()) == []


async def test_w26_nobody_who_is_handed_a_message_can_change_the_conversation():
    """agent:W-26 agent:HOOK-08 agent:TRACE-25"""

    class Vandal(ScriptedModel):
        async def create_message(self, request):
            for message in request.messages:
                message["content"] = "vandal"
            request.messages.append({"role": "user", "content": "vandal"})
            request.tools[0]["name"] = "vandal"
            return await super().create_message(request)

    def hook(context):
        context.messages[0]["content"] = "vandal"
        context.messages.clear()

    tracer = RecordingTracer()
    agent, _ = agent_of(
        Vandal([turn(tool_use("echo", {"say": "x"}, id="t")), "done"]),
        tools=[echo_tool()],
        hooks={"on_model_request": hook, "on_tool_result": lambda context: context.result.update(content="vandal")},
        tracer=tracer,
    )
    async for event in agent.query("go", stream=False):
        if event.type in {"assistant", "user"}:
            event.message["content"].clear()
    history = await agent.get_history()
    assert "vandal" not in str(history)
    assert len(history) == 4
    assert agent.toolset.models[0]["name"] == "echo"
    assert tracer.data("model_request")[1]["messages"][0] == {"role": "user", "content": "go"}


async def test_w27_class_based_stores_and_tracers_keep_their_methods():
    """agent:W-27"""
    from lattice import define_history_store

    store, tracer = ListStore(), RecordingTracer()
    agent, _ = agent_of(["hi"], history_store=define_history_store(store), tracer=define_context_tracer(tracer))
    await agent.prompt("go")
    assert len(store.messages) == 2
    assert tracer.types()[-1] == "result"


async def test_w33_the_trace_tells_of_truncation_structure_and_timeout():
    """agent:W-33"""
    tracer = RecordingTracer()
    agent, _ = agent_of(
        [turn(tool_use("submit_output", {"n": 1}), stop_reason="tool_use")],
        output_schema={"type": "object"},
        tracer=tracer,
        request_timeout_ms=1000,
    )
    await agent.prompt("go")
    result = tracer.data("result")[0]
    assert (result["stop_reason"], result["structuredResult"]) == ("tool_use", {"n": 1})
    assert tracer.data("model_request")[0]["timeoutMs"] == 1000


async def test_w38_a_paused_turn_goes_on_and_a_refusal_is_no_answer():
    """agent:W-38"""
    server = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    agent, model = agent_of([turn(text("searching"), server, stop_reason="pause_turn"), "found"])
    result = await agent.prompt("go")
    assert (result.subtype, result.result, result.num_turns) == ("success", "found", 2)
    assert model.requests[1].messages[-1]["content"][1] == server
    agent, _ = agent_of(
        [turn("I cannot help with that.", tool_use("echo"), stop_reason="refusal")], tools=[echo_tool()]
    )
    result = await agent.prompt("go")
    assert (result.subtype, result.is_error, result.stop_reason) == ("error", True, "refusal")
    assert (result.error.code, "I cannot help" in str(result.error)) == ("refusal", True)
    assert problems_of(await agent.get_history()) == []


async def test_w42_an_unanswered_prompt_can_be_dropped():
    """agent:W-42"""
    agent, _ = agent_of([RuntimeError("no"), RuntimeError("no")])
    await agent.prompt("a")
    await agent.prompt("a")
    assert agent.drop_unanswered_prompt()
    assert await agent.get_history() == []


async def test_w43_what_is_swallowed_is_logged(caplog):
    """agent:W-43"""

    class Broken(ListStore):
        def append(self, message):
            raise OSError("store away")

    agent, _ = agent_of(["hi"], history_store=Broken(), tracer={"on_event": lambda event: 1 / 0})
    await agent.prompt("go")
    assert "store away" in caplog.text
    assert "division by zero" in caplog.text


async def test_w44_a_hung_tool_does_not_survive_its_timeout_or_an_abort():
    """agent:W-44"""
    hang = tool("hang", "Hangs.", ANY, lambda value: asyncio.Event().wait(), timeout_ms=20)
    agent, _ = agent_of([turn(tool_use("hang")), "on we go"], tools=[hang])
    assert (await agent.prompt("go")).result == "on we go"

    started = asyncio.Event()

    async def forever(_value):
        started.set()
        await asyncio.Event().wait()

    controller = AbortController()
    agent, _ = agent_of([turn(tool_use("forever"))], tools=[tool("forever", "Hangs.", ANY, forever)])
    pending = asyncio.ensure_future(agent.prompt("go", signal=controller.signal))
    await started.wait()
    controller.abort()
    async with asyncio.timeout(3):
        assert (await pending).subtype == "error_abort"
    assert other_tasks() == []


async def test_w45_a_failing_hook_stops_the_rest_of_the_batch():
    """agent:W-45"""
    ran, hooked = [], []

    async def work(value):
        ran.append(value["n"])
        return "ok"

    def hook(context):
        hooked.append(context.tool_use_id)
        raise RuntimeError("host")

    calls = [tool_use("work", {"n": n}) for n in range(6)]
    agent, _ = agent_of(
        [turn(*calls)],
        tools=[tool("work", "Works.", ANY, work, is_concurrency_safe=True)],
        tool_concurrency={"mode": "safe", "max_concurrency": 2},
        hooks={"on_tool_result": hook},
    )
    with pytest.raises(RuntimeError, match="host"):
        await agent.prompt("go")
    assert len(ran) <= 3
    assert other_tasks() == []
    assert problems_of(await agent.get_history()) == []


class Odd(BaseException):
    """Nothing that a handler should raise."""


@pytest.mark.parametrize(
    "raised",
    [RuntimeError("x"), asyncio.CancelledError(), SystemExit(1), BaseExceptionGroup("g", [Odd()])],
    ids=["error", "cancelled", "exit", "group"],
)
async def test_one_bad_call_of_two_never_poisons_the_conversation(raised):
    async def bad(_value):
        raise raised

    agent, model = agent_of(
        [turn(tool_use("bad"), tool_use("echo")), "fine", "still fine"],
        tools=[tool("bad", "Bad.", ANY, bad, is_concurrency_safe=True), echo_tool(is_concurrency_safe=True)],
    )
    assert (await agent.prompt("go")).result == "fine"
    assert (await agent.prompt("more")).result == "still fine"
    assert problems_of(await agent.get_history()) == []


async def test_two_calls_with_one_id_are_told_apart():
    agent, _ = agent_of(
        [turn(tool_use("echo", {"say": "a"}, id="t"), tool_use("echo", {"say": "b"}, id="t")), "done"],
        tools=[echo_tool()],
    )
    await agent.prompt("go")
    history = await agent.get_history()
    assert problems_of(history) == []
    assert [block["content"] for block in history[2]["content"]] == ["echo a", "echo b"]


async def test_pydantic_inputs_reach_handlers_as_instances():
    class Sum(BaseModel):
        a: int
        b: int = 1

    agent, _ = agent_of(
        [turn(tool_use("add", {"a": "2"})), "done"],
        tools=[tool("add", "Adds.", Sum, lambda value: str(value.a + value.b))],
    )
    events = await events_of(agent.query("go", stream=False))
    assert events[2].tool_use_result == "3"
