import pytest

from lattice.encoding import decode
from lattice.errors import LeaseLostError, StoreError
from lattice.events import SDKStreamEvent
from lattice.journal import JournalEntry
from lattice.runs import ConversationState, Lease
from lattice.team.host import Host
from lattice.team.recording import Recorder

ANSWER = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "look", "input": {}}]}
RESULTS = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "seen"}]}


class Store:
    """Notes the steps that it is given."""

    def __init__(self):
        self.steps = []
        self.answer = "written"

    async def append(self, lease, step):
        if isinstance(self.answer, Exception):
            raise self.answer
        self.steps.append(step)
        return self.answer

    async def renew(self, leases, lease_ms):
        return []


@pytest.fixture
def store():
    return Store()


@pytest.fixture
async def recorder(store):
    host = Host(store, process_id="p", lease_ms=60_000)
    recorder = Recorder(host, host.hold(Lease("message", "m", "p", 1)), "c")
    yield recorder
    await recorder.close()


def texts(step):
    return [decode(message)["content"] for message in step.messages]


async def test_a_prompt_waits_for_the_step_that_ends_the_work(recorder, store):
    recorder.once = "m"
    recorder.history.append({"role": "user", "content": "task"})
    await recorder.before_model_call()
    recorder.history.append({"role": "assistant", "content": "done"})
    assert store.steps == []
    step = recorder.take()
    assert (step.once, texts(step)) == ("m", ["task", "done"])
    assert recorder.take().messages == ()


async def test_the_start_of_a_call_is_written_with_all_that_led_to_it(recorder, store):
    recorder.history.append({"role": "user", "content": "task"})
    recorder.history.append(ANSWER)
    await recorder.journal.started("t1")
    (step,) = store.steps
    assert len(step.messages) == 2
    assert step.started == ("t1",)


async def test_results_are_written_before_the_next_model_call(recorder, store):
    recorder.history.append(ANSWER)
    await recorder.journal.started("t1")
    await recorder.journal.finished(JournalEntry("t1", RESULTS["content"][0]))
    recorder.history.append(RESULTS)
    await recorder.before_model_call()
    assert [len(step.messages) for step in store.steps] == [1, 1]
    assert store.steps[1].finished == (), "the results themselves stand in the conversation"


async def test_a_call_that_ended_the_turn_stays_in_the_journal(recorder, store):
    await recorder.journal.finished(JournalEntry("t1", RESULTS["content"][0], end_turn=True, structured_result=[1]))
    recorder.history.append(RESULTS)
    await recorder.flush()
    ((tool_use_id, record),) = store.steps[0].finished
    assert (tool_use_id, decode(record)["end_turn"], decode(record)["structured_result"]) == ("t1", True, [1])


async def test_a_receipt_is_written_with_its_handoff_or_not_at_all(recorder, store):
    recorder.history.append(ANSWER)
    recorder.pausing = True
    recorder.history.append(RESULTS)
    await recorder.flush()
    assert store.steps == []
    assert recorder.kept is None
    recorder.pausing = False
    assert len(recorder.take().messages) == 2


async def test_nothing_is_taken_once_it_is_frozen(recorder, store):
    recorder.history.append(ANSWER)
    recorder.freeze()
    recorder.history.append(RESULTS)
    recorder.emit({"type": "note"})
    step = recorder.kept
    assert (len(step.messages), step.events) == (1, ())


async def test_a_lost_lease_stops_the_work(recorder, store):
    store.answer = "stale"
    recorder.history.append(ANSWER)
    with pytest.raises(LeaseLostError):
        await recorder.before_model_call()
    assert recorder.held.controller.signal.aborted


async def test_a_step_that_may_or_may_not_be_written_ends_the_work_here(recorder, store):
    store.answer = StoreError("the connection broke")
    recorder.history.append(ANSWER)
    with pytest.raises(LeaseLostError):
        await recorder.flush()
    assert recorder.held.broken


async def test_stream_events_travel_by_time_and_not_with_steps(recorder, store):
    """team:EVT-05"""
    delta = SDKStreamEvent({"type": "message_stop"}, "s")
    recorder.emit(delta)
    recorder.emit({"type": "assistant"})
    step = recorder.take()
    assert (len(step.events), step.deltas) == (1, ())
    recorder.emit(delta)
    await recorder.flush()
    assert [decode(written)["type"] for written in store.steps[0].deltas] == ["stream_event"]


async def test_the_journal_and_the_conversation_come_back_as_stored(recorder):
    recorder.state = ConversationState(
        (b'{"role":"user","content":"x"}',),
        frozenset(),
        {"a": b"", "b": b'{"result":{"type":"tool_result"},"end_turn":false,"structured_result":null}'},
    )
    entries = await recorder.journal.load()
    assert recorder.history.load() == [{"role": "user", "content": "x"}]
    assert entries["a"].result is None
    assert entries["b"].result == {"type": "tool_result"}


async def test_a_repair_of_the_last_batch_is_not_taken_for_the_task(recorder):
    recorder.once = "m"
    recorder.history.append(RESULTS)
    assert recorder.take().once is None
    recorder.history.append({"role": "user", "content": "task"})
    assert recorder.take().once == "m"


async def test_compaction_rewrites_the_conversation(recorder):
    recorder.history.append({"role": "user", "content": "old"})
    recorder.history.replace([{"role": "user", "content": "summary"}])
    recorder.history.append({"role": "assistant", "content": "next"})
    step = recorder.take()
    assert step.replace
    assert texts(step) == ["summary", "next"]
    assert recorder.position == 2


async def test_tokens_add_up(recorder):
    recorder.add_usage({"input_tokens": 1})
    recorder.add_usage({"input_tokens": 2, "cache_read_input_tokens": 3})
    recorder.add_usage(None)
    assert recorder.take().usage == {"input_tokens": 3, "cache_read_input_tokens": 3}
    assert recorder.take().usage is None


async def test_what_tells_of_the_end_is_written_with_the_end_or_not_at_all(recorder, store):
    recorder.emit({"type": "before"})
    recorder.ending = True
    recorder.emit({"type": "the end"})
    await recorder.flush()
    assert [decode(event)["type"] for step in store.steps for event in step.events] == ["before"]
    assert recorder.kept.events == ()
    assert [decode(event)["type"] for event in recorder.take(end=True).events] == ["the end"]
