"""Mail that breaks a model call off: what is kept, what is shown, and what is stronger."""

import asyncio

import pytest

from lattice import DEFAULT_COMPACTION_PROMPT, AbortController, APIError, tool
from lattice.testing import text, tool_use, turn
from tests.unit.agent.support import RecordingTracer, agent_of, echo_tool, events_of, problems_of

NOTE = {"type": "text", "text": "stop for this"}


class Runtime:
    """A runtime with urgent mail, once it has ``come``."""

    def __init__(self, agent=None):
        self.agent = agent
        self.urgent = False
        self.source, self.permissions, self.tools = {"kind": "agent", "name": "a"}, None, ()

    def emit(self, event):
        pass

    async def delegate(self, request):
        raise NotImplementedError

    def come(self):
        self.urgent = True
        return self.agent.cut_in()

    def has_urgent_mail(self):
        return self.urgent

    def mail_after_tool_batch(self):
        mail, self.urgent = ([NOTE] if self.urgent else []), False
        return mail


def interrupted_agent(first, **options):
    """An agent whose first call does what ``first(request)`` does; what it is sent next it answers at once."""
    calls = []

    async def reply(request):
        calls.append(request)
        return await first(request) if len(calls) == 1 else "answer"

    agent, model = agent_of(reply, **options)
    return agent, model, Runtime(agent)


async def test_nothing_of_the_response_is_kept_and_the_mail_is_shown():
    async def first(request):
        request.on_stream_event({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "half a tho"}})
        assert runtime.come() is True
        await request.signal.wait()
        return turn("half a thought", tool_use("echo", {"say": "x"}))

    agent, model, runtime = interrupted_agent(first, tools=[echo_tool()])
    events = await events_of(agent.query("go", stream=True, runtime=runtime))
    assert [event.type for event in events][-1] == "result"
    assert (events[-1].result, events[-1].num_turns) == ("answer", 1)
    history = await agent.get_history()
    assert [message["content"] for message in history[:2]] == ["go", [NOTE]]
    assert "half" not in str(history)
    assert problems_of(history) == []
    assert model.requests[1].messages[-1]["content"] == [NOTE]


async def test_a_client_that_does_not_heed_the_signal_is_cancelled():
    ended = asyncio.Event()

    async def first(request):
        runtime.come()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    agent, _, runtime = interrupted_agent(first)
    assert (await agent.prompt("go", runtime=runtime)).result == "answer"
    assert ended.is_set()


@pytest.mark.parametrize("error", [APIError("broken off"), ValueError("odd"), SystemExit("worse")])
async def test_what_the_client_makes_of_it_does_not_matter(error):
    async def first(request):
        runtime.come()
        await request.signal.wait()
        raise error

    agent, _, runtime = interrupted_agent(first)
    assert (await agent.prompt("go", runtime=runtime)).result == "answer"


async def test_it_is_no_turn():
    async def first(request):
        runtime.come()
        await request.signal.wait()

    agent, _, runtime = interrupted_agent(first, max_turns=1)
    result = await agent.prompt("go", runtime=runtime)
    assert (result.subtype, result.num_turns) == ("success", 1)


async def test_mail_that_comes_while_no_call_is_under_way_is_shown_before_the_next():
    async def first(request):
        return "answer"

    agent, model, runtime = interrupted_agent(first)
    assert runtime.come() is False
    await agent.prompt("go", runtime=runtime)
    assert [message["content"] for message in model.requests[0].messages] == ["go", [NOTE]]
    assert model.calls == 1


async def test_mail_during_tools_stands_behind_their_results():
    async def echo(value):
        assert runtime.come() is False
        return "echoed"

    agent, model = agent_of(
        [turn(tool_use("echo", {})), "answer"], tools=[tool("echo", "E.", {"type": "object"}, echo)]
    )
    runtime = Runtime(agent)
    await agent.prompt("go", runtime=runtime)
    assert [block["type"] for block in model.requests[1].messages[-1]["content"]] == ["tool_result", "text"]


async def test_an_abort_is_stronger():
    controller = AbortController()

    async def first(request):
        runtime.come()
        controller.abort()
        await request.signal.wait()

    agent, model, runtime = interrupted_agent(first)
    assert (await agent.prompt("go", runtime=runtime, signal=controller.signal)).subtype == "error_abort"
    assert model.calls == 1


async def test_an_interrupt_is_stronger():
    async def first(request):
        runtime.come()
        assert agent.interrupt()
        await request.signal.wait()

    agent, model, runtime = interrupted_agent(first)
    assert (await agent.prompt("go", runtime=runtime)).subtype == "interrupted"
    assert model.calls == 1


async def test_a_summary_is_not_broken_off():
    async def reply(request):
        if request.system_prompt == DEFAULT_COMPACTION_PROMPT:
            assert runtime.come() is False
            return "SUMMARY"
        if len(model.requests) == 1:
            return turn(tool_use("echo", {}, id="1"), usage={"input_tokens": 500, "output_tokens": 1})
        return text("answer")

    options = {"threshold_tokens": 100, "keep_recent_messages": 2}
    agent, model = agent_of(reply, tools=[echo_tool()], auto_compact=options)
    runtime = Runtime(agent)
    result = await agent.prompt("go", runtime=runtime)
    assert result.result == "answer"
    assert [NOTE] in [message["content"] for message in model.requests[-1].messages]


async def test_an_agent_that_does_nothing_has_nothing_broken_off():
    agent, _ = agent_of(["never"])
    assert agent.cut_in() is False


async def test_the_trace_tells_what_was_shown():
    async def first(request):
        runtime.come()
        await request.signal.wait()

    tracer = RecordingTracer()
    agent, _, runtime = interrupted_agent(first, tracer=tracer)
    await agent.prompt("go", runtime=runtime)
    assert tracer.types() == [
        "run_start",
        "user_message",
        "model_request",
        "user_message",
        "model_request",
        "assistant_message",
        "result",
    ]
