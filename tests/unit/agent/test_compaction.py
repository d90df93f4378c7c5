"""Compaction: when, where the cut is, what is asked and kept, and recovery from an overflow."""

import asyncio

import pytest

from lattice import DEFAULT_COMPACTION_PROMPT, AbortController, APIError
from lattice.agent.compaction import cut_index
from lattice.agent.compaction_settings import CompactionSettings
from lattice.agent.overflow import is_overflow
from lattice.testing import ScriptedModel, text, tool_use, turn
from tests.unit.agent.support import ListStore, RecordingTracer, agent_of, echo_tool, events_of, problems_of, until

BIG = {"input_tokens": 500, "output_tokens": 1}
SMALL = {"input_tokens": 5, "output_tokens": 1}
OVERFLOW = "model_context_window_exceeded"


def step(number, usage=SMALL):
    return turn(tool_use("echo", {"say": str(number)}, id=f"t{number}"), usage=usage)


def is_summary(request):
    return request.system_prompt == DEFAULT_COMPACTION_PROMPT


def compacting(replies, summary="SUMMARY", **settings):
    """An agent whose model answers summaries apart from its script."""
    script = iter(replies)

    def reply(request):
        if is_summary(request):
            return summary(request) if callable(summary) else summary
        return next(script)

    options = {"threshold_tokens": 100, "keep_recent_messages": 2, **settings}
    return agent_of(reply, tools=[echo_tool()], auto_compact=options)


def test_defaults():
    """agent:COMP-01, agent:COMP-02, agent:COMP-27"""
    assert CompactionSettings.read(None) is CompactionSettings.read(False) is None
    settings = CompactionSettings.read(True)
    assert (settings.threshold_tokens, settings.keep_recent_messages, settings.max_tokens) == (100_000, 6, 8192)
    assert settings.model is None
    assert "create a detailed summary" in DEFAULT_COMPACTION_PROMPT.split(".")[0]


def user(content):
    return {"role": "user", "content": content}


def result(of):
    return user([{"type": "tool_result", "tool_use_id": of, "content": "x"}])


def call(name):
    return {"role": "assistant", "content": [tool_use("echo", id=name)]}


def test_the_cut_never_parts_a_result_from_its_call():
    """agent:COMP-06, agent:COMP-07"""
    history = [user("a"), call("1"), result("1"), call("2"), result("2")]
    assert cut_index(history, 2) == 3
    assert cut_index(history, 1) == 3
    assert cut_index(history, 3) == 1
    assert cut_index(history, 5) == 0
    assert cut_index(history, 9) == 0


async def test_it_runs_between_turns_and_rewrites_the_history():
    """agent:COMP-03, agent:COMP-10, agent:COMP-11, agent:COMP-13, agent:COMP-14, agent:EVT-02, agent:TRACE-17, agent:HIST-01"""
    tracer, store = RecordingTracer(), ListStore()
    agent, model = compacting([step(1), step(2, BIG), turn("done", usage=SMALL)], " the summary ")
    agent.tracer, agent.conversation._store = tracer, store
    events = await events_of(agent.query("go", stream=False))
    compaction = next(event for event in events if event.type == "system" and event.subtype == "compaction")
    assert compaction.to_dict() == {
        "type": "system",
        "subtype": "compaction",
        "session_id": agent.session_id,
        "compacted_messages": 3,
        "retained_messages": 2,
        "trigger_input_tokens": 500,
        "usage": {"input_tokens": 0, "output_tokens": 0},
    }
    history = await agent.get_history()
    wrapped = history[0]["content"]
    assert wrapped.startswith("Context compaction has just been performed")
    assert wrapped.endswith("<conversation_summary>\nthe summary\n</conversation_summary>")
    assert [block["id"] for block in history[1]["content"]] == ["t2"]
    assert problems_of(history) == []
    assert store.messages == history
    assert store.calls[-2:] == ["replace", "append"]
    assert tracer.data("compaction") == [
        {"compacted_messages": 3, "retained_messages": 2, "trigger_input_tokens": 500, "summary": "the summary"}
    ]
    assert events[-1].num_turns == 3


async def test_the_threshold_must_be_exceeded():
    """agent:COMP-03, agent:COMP-26"""
    exact = {"input_tokens": 100, "output_tokens": 1}
    agent, model = compacting([step(1), step(2, exact), step(3), turn("done")])
    await agent.prompt("go")
    assert not any(is_summary(request) for request in model.requests)
    silent, model = compacting([turn(tool_use("echo")), turn(tool_use("echo")), "done"])
    await silent.prompt("go")
    assert model.calls == 3


async def test_the_summary_request():
    """agent:COMP-09, agent:COMP-02"""
    agent, model = compacting([step(1), step(2, BIG), turn("done")], keep_recent_messages=2, max_tokens=99)
    await agent.prompt("go", thinking_config={"type": "adaptive"}, reasoning_effort="max", output_format="json")
    request = next(request for request in model.requests if is_summary(request))
    assert (request.model, request.max_tokens, request.stream) == ("scripted", 99, False)
    assert request.tools == []
    assert (request.thinking_config, request.reasoning_effort, request.output_format) == (None, None, None)
    assert request.messages[-1]["content"][-1] == text("Summarize the conversation so far.")
    kinds = {block["type"] for message in request.messages[1:] for block in message["content"]}
    assert kinds == {"text"}
    roles = [message["role"] for message in request.messages]
    assert roles == ["user", "assistant", "user"]


async def test_another_model_and_prompt_for_the_summary():
    agent, model = agent_of(
        [step(1), step(2, BIG), "short", "done"],
        tools=[echo_tool()],
        auto_compact={"thresholdTokens": 100, "keepRecentMessages": 2, "prompt": "Sum up.", "model": "small"},
    )
    await agent.prompt("go")
    assert (model.requests[2].system_prompt, model.requests[2].model) == ("Sum up.", "small")


async def test_the_cost_of_a_summary_is_in_the_usage():
    """agent:COMP-13, agent:USE-01, agent:LOOP-14"""
    cost = {"input_tokens": 7, "output_tokens": 3}
    agent, _ = compacting([step(1), step(2, BIG), turn("done")], turn("SUMMARY", usage=cost))
    events = await events_of(agent.query("go", stream=False))
    assert [event.usage for event in events if event.type == "system" and event.subtype == "compaction"] == [cost]
    assert events[-1].usage == {"input_tokens": 512, "output_tokens": 5}
    assert events[-1].num_turns == 3


async def test_an_empty_summary_changes_nothing():
    """agent:COMP-08, agent:USE-07"""
    agent, _ = compacting([step(1), step(2, BIG), turn("done")], turn("", usage=BIG))
    result = await agent.prompt("go")
    assert result.result == "done"
    assert len(await agent.get_history()) == 6
    assert result.usage["input_tokens"] == 505


@pytest.mark.parametrize("failure", [OVERFLOW, APIError("400 prompt is too long", status=400)])
async def test_recovery_summarizes_and_takes_the_turn_again(failure):
    """agent:COMP-17, agent:COMP-19, agent:COMP-22, agent:LOOP-14, agent:USE-06, agent:TRACE-17, agent:TRACE-20"""
    failed = turn(tool_use("echo"), usage=BIG, stop_reason=OVERFLOW) if failure is OVERFLOW else failure
    agent, model = compacting([step(1), step(2), failed, turn("done", usage=SMALL)], threshold_tokens=10_000)
    tracer = RecordingTracer()
    agent.tracer = tracer
    events = await events_of(agent.query("go", stream=False))
    assert [event.type for event in events] == [
        "system",
        "assistant",
        "user",
        "assistant",
        "user",
        "system",
        "assistant",
        "result",
    ]
    assert events[-1].subtype == "success"
    assert events[-1].num_turns == 4
    assert tracer.data("compaction")[0]["recovered_from_overflow"] is True
    assert len([data for data in tracer.data("assistant_message") if "purpose" not in data]) == 3
    assert (events[-1].usage["input_tokens"] > 500) == (failure is OVERFLOW)
    assert problems_of(await agent.get_history()) == []


async def test_recovery_happens_once():
    """agent:COMP-17, agent:COMP-24"""
    too_long = APIError("prompt is too long", status=400)
    agent, _ = compacting([step(1), step(2), too_long, step(3), too_long])
    result = await agent.prompt("go")
    assert (result.subtype, str(result.error)) == ("error", "prompt is too long")


async def test_without_compaction_an_overflow_is_an_error():
    """agent:COMP-23"""
    agent, _ = agent_of([turn(tool_use("echo"), stop_reason=OVERFLOW)], tools=[echo_tool()])
    result = await agent.prompt("go")
    assert (result.subtype, result.error.code, result.stop_reason) == ("error", OVERFLOW, OVERFLOW)
    assert await agent.get_history() == [user("go")]


async def test_when_there_is_nothing_to_cut_the_failure_stays():
    """agent:COMP-24"""
    agent, model = compacting([APIError("413 too large", status=413)])
    result = await agent.prompt("go")
    assert str(result.error) == "413 too large"
    assert model.calls == 1


async def test_a_failed_summary_leaves_the_original_failure():
    """agent:COMP-24"""
    agent, _ = compacting(
        [step(1), step(2), APIError("prompt is too long", status=400)], lambda request: RuntimeError("no summary")
    )
    result = await agent.prompt("go")
    assert str(result.error) == "prompt is too long"


async def test_max_tokens_never_compacts():
    """agent:COMP-25"""
    agent, model = compacting([step(1), step(2), turn("cut", stop_reason="max_tokens")])
    assert (await agent.prompt("go")).result == "cut"
    assert model.calls == 3


async def test_a_summary_that_is_too_long_itself_is_asked_for_less():
    sizes = []

    def summary(request):
        sizes.append(sum(len(str(message["content"])) for message in request.messages))
        return "SUMMARY" if sizes[-1] < 10_000 else APIError("prompt is too long", status=400)

    too_long = APIError("prompt is too long", status=400)
    first = turn(tool_use("echo", {"say": "x" * 50_000}, id="t1"))
    agent, _ = compacting([first, step(2), too_long, turn("done")], summary)
    assert (await agent.prompt("go")).result == "done"
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) > 1


async def test_recovery_shortens_a_huge_result_that_would_be_kept():
    def reply(request):
        size = sum(len(str(message["content"])) for message in request.messages)
        if size > 20_000:
            return APIError("prompt is too long", status=400)
        return "read it" if len(request.messages) > 1 else turn(tool_use("dump", id="t1"))

    dump = echo_tool("dump")
    agent, _ = agent_of(reply, tools=[], auto_compact=True)

    async def handler(_value):
        return "x" * 90_000

    from lattice import tool

    agent.add_tools([tool("dump", dump.description, {"type": "object"}, handler)])
    result = await agent.prompt("go")
    assert (result.subtype, result.result) == ("success", "read it")


async def test_thinking_is_kept_byte_for_byte_or_not_at_all():
    thinking = {"type": "thinking", "thinking": "odd \u0001 text", "signature": "sig=="}

    def thoughtful(number, usage=SMALL):
        return turn(thinking, tool_use("echo", {}, id=f"t{number}"), usage=usage)

    agent, model = compacting([thoughtful(1), thoughtful(2, BIG), turn("done")])
    await agent.prompt("go")
    history = await agent.get_history()
    assert history[1]["content"][0] == thinking
    request = next(request for request in model.requests if is_summary(request))
    assert "thinking" not in str(request.messages)


@pytest.mark.parametrize("how", ["abort", "interrupt"])
async def test_a_summary_can_be_cut_short(how):
    """agent:INT-09 agent:W-08"""
    asked, controller = asyncio.Event(), AbortController()

    async def summary(_request):
        asked.set()
        await asyncio.Event().wait()

    agent, _ = compacting([step(1), step(2, BIG), turn("done")], summary)
    pending = asyncio.ensure_future(agent.prompt("go", signal=controller.signal))
    await asked.wait()
    if how == "abort":
        controller.abort()
    else:
        agent.interrupt()
    result = await pending
    assert result.subtype == {"abort": "error_abort", "interrupt": "interrupted"}[how]
    assert result.num_turns == 2


async def test_a_hanging_summary_is_bounded_by_the_request_deadline():
    """agent:COMP-09 agent:TIME-04 agent:W-08"""

    async def summary(_request):
        await asyncio.Event().wait()

    agent, _ = compacting([step(1), step(2, BIG), turn("done")], summary)
    result = await agent.prompt("go", request_timeout_ms=30)
    assert result.result == "done"


@pytest.mark.parametrize(
    ("error", "overflow"),
    [
        (RuntimeError("prompt is too long: 210000 tokens > 200000 maximum"), True),
        (RuntimeError("input length exceeds the context window"), True),
        (RuntimeError("request_too_large"), True),
        (RuntimeError("too many tokens in request"), True),
        (APIError("nope", status=413), True),
        (APIError("nope", code="request_too_large", status=400), True),
        (APIError("wrapped", cause=APIError("x", status=413)), True),
        (APIError("too many tokens per minute", status=429), False),
        (APIError("the context window of this model exceeds 1M", status=500), False),
        (RuntimeError("please open a context window"), False),
        (APIError("invalid tool", status=400), False),
        (None, False),
    ],
)
def test_what_counts_as_an_overflow(error, overflow):
    """agent:W-11 agent:COMP-18"""
    assert is_overflow(error) is overflow


async def test_interrupt_wins_over_recovery():
    """agent:COMP-20"""
    asked = []

    async def create_message(request):
        asked.append(request)
        if len(asked) < 3:
            return step(len(asked))
        await request.signal.wait()
        raise APIError("prompt is too long", status=400)

    model = ScriptedModel(lambda request: create_message(request))
    agent, _ = agent_of(model, tools=[echo_tool()], auto_compact={"keep_recent_messages": 1})
    pending = asyncio.ensure_future(agent.prompt("go"))
    await until(lambda: len(asked) == 3)
    agent.interrupt()
    assert (await pending).subtype == "interrupted"
    assert len(asked) == 3
