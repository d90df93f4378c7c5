"""Going on with a stored conversation after a crash (design P4): nothing that was paid for is done twice."""

import pytest

from lattice import LatticeError, SDKResultMessage, tool
from lattice.encoding import decode, encode
from lattice.journal import JournalEntry, MemoryJournal
from lattice.testing import ScriptedModel, text, tool_use, turn
from tests.unit.agent.support import ANY, ListStore, agent_of, echo_tool, events_of, kinds, problems_of

PROMPT = {"role": "user", "content": "go"}


class Crash(BaseException):
    """The process is gone."""


class Step:
    """Counts the durable steps; from the chosen one on nothing is written any more."""

    def __init__(self, at):
        self.left = at

    def take(self):
        self.left -= 1
        if self.left <= 0:
            raise Crash


class DurableStore(ListStore):
    def __init__(self, step):
        super().__init__()
        self.step = step

    def append(self, message):
        self.step.take()
        super().append(decode(encode(message)))
        self.step.take()

    def replace(self, messages):
        raise AssertionError("a crash rewrites nothing")


class DurableJournal(MemoryJournal):
    """As a journal in Redis would be: it outlives the process, and its content went through JSON."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    async def started(self, tool_use_id):
        await super().started(tool_use_id)
        self.step.take()

    async def finished(self, entry):
        self.step.take()
        result = decode(encode(entry.result))
        await super().finished(JournalEntry(entry.tool_use_id, result, entry.end_turn, entry.structured_result))
        self.step.take()

    async def clear(self):
        self.step.take()
        await super().clear()


def world(at):
    """A conversation of three turns with two calls each in the middle, in a process that dies at a step."""
    step = Step(at)
    ran = []

    def handler_of(name):
        async def handler(value):
            ran.append(f"{name} {value['n']}")
            return f"{name} {value['n']} ok"

        return handler

    tools = [
        tool("read", "Reads.", ANY, handler_of("read"), on_recovery="rerun"),
        tool("pay", "Pays.", ANY, handler_of("pay")),
    ]
    replies = {
        1: turn(tool_use("read", {"n": 1}, id="r1"), tool_use("pay", {"n": 1}, id="p1")),
        3: turn(tool_use("pay", {"n": 2}, id="p2"), tool_use("read", {"n": 2}, id="r2")),
        5: turn("all done"),
    }
    model = ScriptedModel(lambda request: replies[len(request.messages)])
    store, journal = DurableStore(step), DurableJournal(step)

    def process():
        return agent_of(model, tools=tools, history_store=store, journal=journal)[0]

    return step, process, model, store, journal, ran


async def die_and_go_on(at):
    """Run until the crash; return what another process makes of what is left."""
    step, process, model, store, journal, ran = world(at)
    try:
        result = await process().prompt("go", stream=False)
        return result, model, store, ran, False
    except Crash:
        pass
    step.left = 1_000_000
    if not store.messages:
        store.messages.append(PROMPT)
    events = await events_of(process().resume(stream=False))
    return events[-1], model, store, ran, True


@pytest.mark.parametrize("at", range(1, 31))
async def test_dying_at_every_durable_step(at):
    """No finished model turn and no finished tool call is run again; a payment that was under way is not repeated."""
    result, model, store, ran, died = await die_and_go_on(at)
    assert isinstance(result, SDKResultMessage)
    assert (result.subtype, result.result) == ("success", "all done")
    assert problems_of(store.messages) == []
    assert len(store.messages) == 6
    assert ran.count("pay 1") <= 1
    assert ran.count("pay 2") <= 1
    asked = [len(request.messages) for request in model.requests]
    assert sorted(set(asked)) == [1, 3, 5]
    assert len(asked) <= 4  # the one response that may have been lost is asked for again


async def test_the_crash_points_cover_the_whole_conversation():
    died = [(await die_and_go_on(at))[4] for at in range(1, 40)]
    assert died[0] is True
    assert died[-1] is False
    assert sum(died) > 20


async def test_a_finished_call_keeps_its_result_and_an_open_one_is_unknown():
    journal = MemoryJournal()
    kept = {"type": "tool_result", "tool_use_id": "a", "content": "paid result"}
    await journal.finished(JournalEntry("a", kept))
    await journal.started("b")
    await journal.started("c")
    calls = [tool_use("echo", id="a"), tool_use("echo", id="b"), tool_use("again", id="c"), tool_use("echo", id="d")]
    store = ListStore([PROMPT, {"role": "assistant", "content": calls}])
    again = tool("again", "Reads.", ANY, lambda value: "read again", on_recovery="rerun")
    agent, model = agent_of(["fine"], tools=[echo_tool(), again], history_store=store, journal=journal)
    events = await events_of(agent.resume(stream=False))
    assert kinds(events) == ["system", "user", "assistant", "result"]
    contents = [block["content"] for block in events[1].message["content"]]
    assert contents[0] == "paid result"
    assert "outcome is unknown" in contents[1]
    assert contents[2:] == ["read again", "echo"]
    assert model.calls == 1
    assert await journal.load() == {}


async def test_a_conversation_that_has_ended_needs_no_model():
    store = ListStore([PROMPT, {"role": "assistant", "content": [text("the end")], "stopReason": "end_turn"}])
    agent, model = agent_of([], history_store=store)
    events = await events_of(agent.resume())
    assert kinds(events) == ["system", "result"]
    assert (events[-1].subtype, events[-1].result, events[-1].stop_reason) == ("success", "the end", "end_turn")
    assert (model.calls, events[-1].num_turns) == (0, 0)


async def test_a_prompt_without_an_answer_is_answered():
    agent, model = agent_of(["here"], history_store=ListStore([PROMPT]))
    assert (await events_of(agent.resume()))[-1].result == "here"
    assert model.requests[0].messages == [PROMPT]


async def test_an_ending_that_was_decided_stays_decided():
    """The results were stored, but the process died before it said so."""
    calls = [tool_use("finish", id="a")]
    results = [{"type": "tool_result", "tool_use_id": "a", "content": "that is it"}]
    journal = MemoryJournal()
    await journal.finished(JournalEntry("a", results[0], end_turn=True, structured_result={"n": 1}))
    store = ListStore([PROMPT, {"role": "assistant", "content": calls}, {"role": "user", "content": results}])
    agent, model = agent_of([], history_store=store, journal=journal)
    result = (await events_of(agent.resume()))[-1]
    assert (result.subtype, result.result, result.structured_result) == ("success", "that is it", {"n": 1})
    assert model.calls == 0


async def test_a_submitted_output_is_the_parsed_value_again():
    from pydantic import BaseModel

    class Answer(BaseModel):
        n: int

    kept = {"type": "tool_result", "tool_use_id": "s", "content": "Structured output submitted."}
    journal = MemoryJournal()
    await journal.finished(JournalEntry("s", kept, end_turn=True, structured_result={"n": 4}))
    store = ListStore([PROMPT, {"role": "assistant", "content": [tool_use("submit_output", {"n": 4}, id="s")]}])
    agent, _ = agent_of([], history_store=store, journal=journal, output_schema=Answer)
    result = (await events_of(agent.resume()))[-1]
    assert (result.subtype, result.structured_result) == ("success", Answer(n=4))


async def test_an_output_that_was_accepted_stays_accepted():
    """The process died between storing the result of submit_output and telling of it."""
    results = [{"type": "tool_result", "tool_use_id": "s", "content": "Structured output submitted."}]
    store = ListStore(
        [
            PROMPT,
            {"role": "assistant", "content": [tool_use("submit_output", {"n": 4}, id="s")]},
            {"role": "user", "content": results},
        ]
    )
    agent, model = agent_of([], history_store=store, output_schema={"type": "object"})
    result = (await events_of(agent.resume()))[-1]
    assert (result.subtype, result.structured_result, model.calls) == ("success", {"n": 4}, 0)


async def test_a_pause_that_was_due_is_taken():
    class Runtime:
        source = {"kind": "root"}
        permissions = None

        def should_pause_after_tool_batch(self):
            return True

    results = [{"type": "tool_result", "tool_use_id": "a", "content": "receipt"}]
    store = ListStore(
        [PROMPT, {"role": "assistant", "content": [tool_use("echo", id="a")]}, {"role": "user", "content": results}]
    )
    agent, model = agent_of([], tools=[echo_tool()], history_store=store)
    result = (await events_of(agent.resume(runtime=Runtime())))[-1]
    assert result.paused
    assert model.calls == 0


async def test_truncated_calls_are_not_run_after_a_crash_either():
    ran = []
    spy = tool("spy", "Spies.", ANY, lambda value: ran.append(1) or "x")
    message = {"role": "assistant", "content": [tool_use("spy", id="a")], "stopReason": "max_tokens"}
    agent, _ = agent_of(["ok"], tools=[spy], history_store=ListStore([PROMPT, message]))
    assert (await events_of(agent.resume()))[-1].result == "ok"
    assert ran == []


async def test_an_empty_conversation_cannot_be_resumed():
    agent, _ = agent_of(["x"])
    with pytest.raises(LatticeError, match="resume: the conversation is empty"):
        await events_of(agent.resume())
    assert (await agent.prompt("go")).result == "x"


async def test_a_new_prompt_on_a_cut_off_batch_keeps_what_is_known():
    journal = MemoryJournal()
    kept = {"type": "tool_result", "tool_use_id": "a", "content": "paid result"}
    await journal.finished(JournalEntry("a", kept))
    calls = [tool_use("echo", id="a"), tool_use("echo", id="b")]
    store = ListStore([PROMPT, {"role": "assistant", "content": calls}])
    agent, model = agent_of(["fine"], tools=[echo_tool()], history_store=store, journal=journal)
    await agent.prompt("and now?")
    blocks = model.requests[0].messages[2]["content"]
    assert blocks[0] == kept
    assert blocks[1]["is_error"] is True
    assert await journal.load() == {}
    assert store.messages == await agent.get_history()


async def test_a_resume_that_fails_early_leaves_the_batch_to_the_next_one():
    class Stop:
        source = {"kind": "agent"}
        permissions = None

    class BrokenJournal(MemoryJournal):
        broken = True

        async def load(self):
            if self.broken:
                raise OSError("journal away")
            return await super().load()

    journal = BrokenJournal()
    store = ListStore([PROMPT, {"role": "assistant", "content": [tool_use("echo", id="a")]}])
    agent, _ = agent_of(["fine"], tools=[echo_tool()], history_store=store, journal=journal)
    with pytest.raises(OSError, match="journal away"):
        await events_of(agent.resume(runtime=Stop()))
    assert len(store.messages) == 2
    journal.broken = False
    events = await events_of(agent.resume(stream=False))
    assert events[1].tool_use_result == "echo"
    assert events[-1].result == "fine"
