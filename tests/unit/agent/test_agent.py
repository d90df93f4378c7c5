"""One conversation at a time, and the host's access to it."""

import asyncio
import gc

import pytest

from lattice import ConcurrentQueryError, LatticeError, StoreError
from lattice.testing import turn
from tests.unit.agent.support import ListStore, agent_of, events_of, other_tasks, until


def waiting_model():
    """A model that waits until it is released; returns the client, the release and the list of requests."""
    release, asked = asyncio.Event(), []

    class Model:
        async def create_message(self, request):
            asked.append(request)
            request.on_stream_event({"n": len(asked)})
            await release.wait()
            return turn("done")

    return Model(), release, asked


async def test_a_second_query_is_refused():
    """agent:CONC-01, agent:CONC-02"""
    model, release, asked = waiting_model()
    agent, _ = agent_of(model, name="ada")
    first = asyncio.ensure_future(agent.prompt("a"))
    await until(lambda: asked)
    with pytest.raises(ConcurrentQueryError) as caught:
        await agent.prompt("b")
    assert str(caught.value) == (
        "Agent ada is already running a query. An Agent holds one conversation: create a separate Agent per"
        " concurrent conversation."
    )
    with pytest.raises(ConcurrentQueryError):
        await anext(agent.query("c"))
    release.set()
    assert (await first).result == "done"
    assert (await agent.prompt("d")).result == "done"
    assert [message["content"] for message in await agent.get_history() if message["role"] == "user"] == ["a", "d"]


async def test_of_two_prompts_started_together_one_is_refused():
    """agent:CONC-01"""
    agent, _ = agent_of(["one", "two"])
    first, second = await asyncio.gather(agent.prompt("a"), agent.prompt("b"), return_exceptions=True)
    assert first.result == "one"
    assert isinstance(second, ConcurrentQueryError)


async def test_prompts_made_early_and_awaited_in_turn_are_fine():
    agent, _ = agent_of(["one", "two"])
    first, second = agent.prompt("a"), agent.prompt("b")
    assert [(await first).result, (await second).result] == ["one", "two"]


async def test_a_query_that_was_never_iterated_holds_nothing():
    """agent:CONC-03"""
    agent, _ = agent_of(["one"])
    unused = agent.query("a")
    assert (await agent.prompt("b")).result == "one"
    await unused.aclose()


async def test_breaking_off_stops_the_model_and_frees_the_agent():
    """agent:CONC-03"""
    model, release, asked = waiting_model()
    agent, _ = agent_of(model)
    async for event in agent.query("a"):
        if event.type == "stream_event":
            break
    pending = asyncio.ensure_future(agent.prompt("b"))
    await until(lambda: len(asked) == 2)
    assert asked[0].signal.aborted
    release.set()
    assert (await pending).result == "done"
    assert other_tasks() == []


async def test_the_agent_is_free_when_the_result_arrives():
    agent, _ = agent_of(["one", "two"])
    stream = agent.query("a")
    async for event in stream:
        if event.type == "result":
            assert (await agent.prompt("b")).result == "two"
    await stream.aclose()


async def test_an_unawaited_prompt_does_not_hold_the_agent():
    agent, _ = agent_of(["one"])
    unused = agent.prompt("a")
    unused.close()
    del unused
    gc.collect()
    assert (await agent.prompt("b")).result == "one"


def test_an_agent_survives_its_event_loop():
    agent, _ = agent_of(["one", "two"])

    async def breaks_off():
        async for _ in agent.query("a"):
            break

    asyncio.run(breaks_off())
    assert asyncio.run(agent.prompt("b")).result == "one"
    assert asyncio.run(agent.prompt("c")).result == "two"


async def test_cancelling_the_task_is_an_abort():
    model, _release, asked = waiting_model()
    agent, _ = agent_of(model)
    work = asyncio.ensure_future(agent.prompt("a"))
    await until(lambda: asked)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert asked[0].signal.aborted
    assert other_tasks() == []
    assert await agent.get_history() == [{"role": "user", "content": "a"}]


async def test_get_history_is_a_deep_copy():
    """agent:HIST-05, agent:CONC-05"""
    agent, _ = agent_of(["one"])
    await agent.prompt("a")
    history = await agent.get_history()
    history[1]["content"][0]["text"] = "changed"
    history.clear()
    assert (await agent.get_history())[1]["content"][0]["text"] == "one"


async def test_replace_history():
    """agent:HIST-06, agent:HIST-07, agent:CONC-04, agent:CONC-05"""
    store = ListStore([{"role": "user", "content": "old"}])
    model, release, asked = waiting_model()
    agent, _ = agent_of(model, history_store=store)
    mine = [{"role": "user", "content": "x"}, {"role": "assistant", "content": [{"type": "text", "text": "y"}]}]
    await agent.replace_history(mine)
    mine[1]["content"][0]["text"] = "changed"
    pending = asyncio.ensure_future(agent.prompt("a"))
    await until(lambda: asked)
    with pytest.raises(ConcurrentQueryError, match=r"replace_history\(\) is idle-only: wait for the running query"):
        await agent.replace_history([])
    assert len(await agent.get_history()) == 3
    release.set()
    await pending
    assert asked[0].messages[1]["content"][0]["text"] == "y"
    assert store.calls == ["replace", "append", "append"]
    with pytest.raises(StoreError, match="replace_history: a message must be a dict"):
        await agent.replace_history([{"role": "system", "content": "x"}])


async def test_no_query_starts_while_the_history_is_replaced():
    """agent:W-30"""
    started, release = asyncio.Event(), asyncio.Event()

    class Slow(ListStore):
        async def replace(self, messages):
            started.set()
            await release.wait()
            super().replace(messages)

    agent, _ = agent_of(["one"], history_store=Slow())
    work = asyncio.ensure_future(agent.replace_history([]))
    await started.wait()
    with pytest.raises(ConcurrentQueryError):
        await agent.prompt("a")
    assert agent.interrupt() is False
    release.set()
    await work
    assert (await agent.prompt("a")).result == "one"


async def test_an_unanswered_prompt_can_be_taken_back():
    """agent:W-42"""
    store = ListStore()
    agent, model = agent_of([RuntimeError("no"), "yes"], history_store=store)
    await agent.prompt("a")
    assert agent.drop_unanswered_prompt() is True
    assert agent.drop_unanswered_prompt() is False
    await agent.prompt("b")
    assert [message["content"] for message in model.requests[1].messages] == ["b"]
    assert store.messages == await agent.get_history()


async def test_a_prompt_never_returns_nothing(monkeypatch):
    """agent:LOOP-16"""

    async def without_result(_run):
        return
        yield

    monkeypatch.setattr("lattice.agent.run.Run.events", without_result)
    agent, _ = agent_of(["x"])
    with pytest.raises(LatticeError, match="completed without a result message"):
        await agent.prompt("go")


async def test_interrupt_after_the_last_response_says_no():
    agent, _ = agent_of(["final"])
    said = []
    async for event in agent.query("a", stream=False):
        if event.type == "assistant":
            said.append(agent.interrupt())
    assert said == [False]
    assert event.subtype == "success"


async def test_a_hundred_agents_at_once():
    agents = [agent_of([f"answer {number}"])[0] for number in range(100)]
    results = await asyncio.gather(*(agent.prompt("go") for agent in agents))
    assert [result.result for result in results] == [f"answer {number}" for number in range(100)]


async def test_events_of_two_agents_keep_apart():
    one, _ = agent_of(["1"])
    two, _ = agent_of(["2"])
    first, second = await asyncio.gather(events_of(one.query("a")), events_of(two.query("b")))
    assert {event.session_id for event in first} == {one.session_id}
    assert {event.session_id for event in second} == {two.session_id}
