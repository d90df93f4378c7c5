"""Histories and their stores."""

import asyncio

import pytest

from lattice import define_history_store, tool
from lattice.testing import text, tool_use, turn
from tests.unit.agent.support import ANY, ListStore, RecordingTracer, agent_of, echo_tool, events_of, problems_of


class Flaky(ListStore):
    """Fails in the methods that it is told to fail in."""

    def __init__(self, *broken, messages=()):
        super().__init__(messages)
        self.broken = set(broken)

    def load(self):
        super().load()
        if "load" in self.broken:
            raise OSError("load broke")
        return self.messages

    def append(self, message):
        if "append" in self.broken:
            raise OSError("append broke")
        super().append(message)

    def replace(self, messages):
        if "replace" in self.broken:
            raise OSError("replace broke")
        super().replace(messages)


def strict(store):
    return define_history_store(store, fail_on_error=True)


async def test_load_once_and_append_each_message_in_order():
    """agent:HIST-01, agent:HIST-02, agent:HIST-17"""
    order = []

    class Store(ListStore):
        async def append(self, message):
            await asyncio.sleep(0)
            order.append(("store", message["role"]))
            super().append(message)

    class Tracer:
        def on_event(self, event):
            if event.type in {"user_message", "assistant_message"}:
                order.append(("trace", event.data["message"]["role"]))

    store = Store([{"role": "user", "content": "earlier"}, {"role": "assistant", "content": [text("yes")]}])
    agent, model = agent_of(
        [turn(tool_use("echo")), "done", "again"], tools=[echo_tool()], history_store=store, tracer=Tracer()
    )
    async for event in agent.query("go", stream=False):
        if event.type in {"assistant", "user"}:
            order.append(("event", event.type))
    await agent.prompt("more")
    assert store.calls == ["load", *["append"] * 6]
    assert order[:11] == [
        ("store", "user"),
        ("trace", "user"),
        ("store", "assistant"),
        ("trace", "assistant"),
        ("event", "assistant"),
        ("store", "user"),
        ("trace", "user"),
        ("event", "user"),
        ("store", "assistant"),
        ("trace", "assistant"),
        ("event", "assistant"),
    ]
    assert model.requests[0].messages[0]["content"] == "earlier"
    assert store.messages == await agent.get_history()


async def test_get_history_loads_and_shares_the_load():
    """agent:HIST-03, agent:HIST-04"""
    stored = [{"role": "user", "content": "earlier"}]
    store = ListStore(stored)
    agent, _ = agent_of(["x"], history_store=store)
    first, second = await asyncio.gather(agent.get_history(), agent.get_history())
    assert first == second == stored
    assert store.calls == ["load"]
    first[0]["content"] = "changed"
    assert stored[0]["content"] == "earlier"


async def test_a_tolerant_store_never_stops_the_conversation(caplog):
    """agent:HIST-08, agent:HIST-11"""
    store = Flaky("append")
    store.fail_on_error = True  # a public field binds nothing
    agent, _ = agent_of(["one", "two"], history_store=store)
    assert (await agent.prompt("a")).result == "one"
    assert "append broke" in caplog.text
    store.broken.clear()
    await agent.prompt("b")
    assert store.messages == await agent.get_history()


async def test_an_unreadable_store_is_not_written_until_it_could_be_read():
    """agent:HIST-09 agent:W-29"""
    store = Flaky("load", messages=[{"role": "user", "content": "earlier"}])
    agent, model = agent_of(["one", "two"], history_store=store)
    await agent.prompt("a")
    assert store.messages == [{"role": "user", "content": "earlier"}]
    store.broken.clear()
    await agent.prompt("b")
    assert [message["content"] for message in model.requests[1].messages if message["role"] == "user"] == [
        "earlier",
        "a",
        "b",
    ]
    assert store.messages == await agent.get_history()


async def test_strict_load_failures_leave_the_query_and_are_tried_again():
    """agent:HIST-09 agent:W-29 agent:HIST-10"""
    store = Flaky("load")
    agent, model = agent_of(["one"], history_store=strict(store))
    seen = []
    with pytest.raises(OSError, match="load broke"):
        async for event in agent.query("a"):
            seen.append(event.type)
    assert seen == ["system"]
    assert model.calls == 0
    store.broken.clear()
    assert (await agent.prompt("b")).result == "one"
    assert store.messages == await agent.get_history()


async def test_strict_append_and_replace_failures_leave_the_query():
    """agent:HIST-07, agent:HIST-10"""
    store = Flaky("append")
    agent, _ = agent_of(["one", "two"], history_store=strict(store))
    with pytest.raises(OSError, match="append broke"):
        await agent.prompt("a")
    assert await agent.get_history() == [{"role": "user", "content": "a"}]
    store.broken = {"replace"}
    with pytest.raises(OSError, match="replace broke"):
        await agent.replace_history([{"role": "user", "content": "new"}])
    assert await agent.get_history() == [{"role": "user", "content": "new"}]
    store.broken = set()
    await agent.prompt("b")
    assert store.messages == await agent.get_history()


async def test_a_stored_conversation_that_was_cut_off_is_made_whole():
    stored = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": [tool_use("echo", id="t1"), tool_use("echo", id="t2")]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t2", "content": "two"}]},
        {"role": "assistant", "content": [tool_use("echo", id="t3")]},
        {"role": "assistant", "content": [text("lost my results")]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "gone", "content": "?"}]},
        {"role": "assistant", "content": [tool_use("echo", id="t4")]},
    ]
    store = ListStore(stored)
    agent, model = agent_of(["fine"], tools=[echo_tool()], history_store=store)
    await agent.prompt("go on")
    sent = model.requests[0].messages
    assert problems_of(list(sent)) == []
    assert sent[2]["content"][1]["content"] == "two"
    assert "outcome is unknown" in sent[-2]["content"][0]["content"]
    assert store.messages == await agent.get_history()


async def test_texts_that_would_poison_a_conversation_are_cleaned():
    async def odd(_value):
        return "tool \ud800 said"

    agent, model = agent_of(
        [turn("lone \udc00 half", tool_use("odd", {"a\ud800": "\u0000"})), "done"],
        tools=[tool("odd", "Odd.", ANY, odd)],
    )
    await agent.prompt("prompt \ud83d alone")
    model.requests[1].messages.copy()
    str(list(model.requests[1].messages)).encode()
    history = await agent.get_history()
    assert history[0]["content"] == "prompt \ufffd alone"
    assert history[1]["content"][0]["text"] == "lone \ufffd half"


async def test_empty_answers_are_stored_as_something():
    """Providers refuse empty messages for ever; the host still sees that nothing was said."""
    agent, _ = agent_of([turn("", tool_use("echo")), "", "  "], tools=[echo_tool()])
    events = await events_of(agent.query("go", stream=False))
    assert events[-1].result == ""
    history = await agent.get_history()
    assert [block["type"] for block in history[1]["content"]] == ["tool_use"]
    assert all(block["text"].strip() for block in history[-1]["content"])
    assert (await agent.prompt("again")).result == ""


async def test_the_trace_and_the_store_get_copies():
    """agent:TRACE-25 agent:HIST-04 agent:W-26"""

    class Vandal(RecordingTracer):
        def on_event(self, event):
            super().on_event(event)
            if "message" in event.data:
                event.data["message"]["content"] = "vandal"
            for message in event.data.get("messages", []):
                message["content"] = "vandal"

    class VandalStore(ListStore):
        def append(self, message):
            message["content"] = "vandal"

    agent, model = agent_of(["one", "two"], tracer=Vandal(), history_store=VandalStore())
    await agent.prompt("a")
    assert model.requests[0].messages == [{"role": "user", "content": "a"}]
    assert "vandal" not in str(await agent.get_history())
