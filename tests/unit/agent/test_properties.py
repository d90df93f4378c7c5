"""Whatever happens, whenever: the history is well formed, there is one result, nothing goes on running."""

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lattice import (
    AbortController,
    APIError,
    create_bare_agent,
    define_context_tracer,
    define_history_store,
    tool,
)
from lattice.testing import ScriptedModel, text, tool_use, turn
from tests.unit.agent.support import ANY, ListStore, other_tasks, problems_of, until

SUBTYPES = {"success", "interrupted", "error", "error_max_turns", "error_abort", "error_timeout"}
BOUNDED = settings(
    max_examples=150, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


async def _pauses(value):
    for _ in range(value.get("steps", 0)):
        await asyncio.sleep(0)
    return "paused"


async def _fails(value):
    await asyncio.sleep(0)
    raise RuntimeError("no")


async def _ends(value):
    return {"content": "enough", "end_turn": True}


TOOLS = [
    tool("pauses", "Waits a little.", ANY, _pauses, is_concurrency_safe=True),
    tool("fails", "Fails.", ANY, _fails, is_concurrency_safe=True),
    tool("ends", "Ends the turn.", ANY, _ends),
]

calls = st.one_of(
    st.builds(lambda n: tool_use("pauses", {"steps": n}), st.integers(0, 3)),
    st.just(tool_use("fails")),
    st.just(tool_use("ends")),
    st.just(tool_use("unknown")),
)
going_on = st.one_of(
    st.lists(calls, min_size=1, max_size=3).map(lambda blocks: turn(text("working"), *blocks)),
    st.lists(calls, min_size=1, max_size=3).map(lambda blocks: turn(*blocks)),
    st.lists(calls, min_size=1, max_size=2).map(lambda blocks: turn(*blocks, stop_reason="max_tokens")),
    st.just(turn(text("wait"), stop_reason="pause_turn")),
)
ending = st.one_of(
    st.just("done"),
    st.just(""),
    st.just(turn(text("no"), tool_use("pauses"), stop_reason="refusal")),
    st.just(turn(tool_use("pauses"), stop_reason="model_context_window_exceeded")),
    st.just(APIError("overloaded", status=529)),
    st.just(RuntimeError("broken")),
    st.just({"role": "user", "content": "not an assistant"}),
)
scripts = st.builds(lambda working, last: [*working, last], st.lists(going_on, max_size=4), ending)


async def never(_request):
    await asyncio.Event().wait()


endless_scripts = st.builds(lambda script: [*script, never], st.lists(going_on, max_size=4))


class SlowModel(ScriptedModel):
    """Gives every step of the answer a point at which the world may change."""

    async def create_message(self, request):
        for _ in range(3):
            await asyncio.sleep(0)
        return await super().create_message(request)


def make(script, store=None):
    return create_bare_agent(
        model="m", model_client=SlowModel(script), tools=TOOLS, max_turns=6, history_store=store, auto_compact=True
    )


async def check_left_behind(agent, store):
    history = await agent.get_history()
    assert problems_of(history) == []
    assert store.messages == history
    assert other_tasks() == []


async def asks_again(agent):
    """The agent is free, and its conversation can be continued."""
    agent.model_client = ScriptedModel(["fine"])
    result = await agent.prompt("go on")
    assert (result.subtype, result.result) == ("success", "fine")


@BOUNDED
@given(script=scripts, stream=st.booleans())
def test_every_query_ends_with_exactly_one_result(script, stream):
    async def scenario():
        store = ListStore()
        agent = make(script, store)
        events = [event async for event in agent.query("go", stream=stream)]
        assert [event.type for event in events].count("result") == 1
        assert events[-1].type == "result"
        assert events[-1].subtype in SUBTYPES
        assert events[-1].is_error == (events[-1].subtype not in {"success", "interrupted"})
        await check_left_behind(agent, store)
        await asks_again(agent)

    asyncio.run(scenario())


@BOUNDED
@given(script=endless_scripts, steps=st.integers(0, 60), how=st.sampled_from(["abort", "interrupt", "cancel"]))
def test_stopping_at_any_await_point_leaves_a_sound_conversation(script, steps, how):
    async def scenario():
        store, controller = ListStore(), AbortController()
        agent = make(script, store)
        work = asyncio.ensure_future(agent.prompt("go", signal=controller.signal))
        for _ in range(steps):
            await asyncio.sleep(0)
        stopped = not work.done()
        if how == "abort":
            controller.abort()
        elif how == "interrupt":
            agent.interrupt()
        else:
            work.cancel()
        if how == "cancel":
            done, _ = await asyncio.wait({work}, timeout=5)
            assert done
            assert work.cancelled() or not stopped or work.result().subtype in SUBTYPES
        else:
            result = await asyncio.wait_for(work, 5)
            assert result.subtype in SUBTYPES
        await check_left_behind(agent, store)
        await asks_again(agent)

    asyncio.run(scenario())


@BOUNDED
@given(script=scripts, taken=st.integers(1, 8), close=st.booleans())
def test_giving_up_the_iteration_at_any_event_leaves_a_sound_conversation(script, taken, close):
    async def scenario():
        store = ListStore()
        agent = make(script, store)
        stream = agent.query("go", stream=False)
        count = 0
        async for _ in stream:
            count += 1
            if count == taken:
                break
        if close:
            await stream.aclose()
        del stream
        await until(lambda: agent.active is None)
        await check_left_behind(agent, store)
        await asks_again(agent)

    asyncio.run(scenario())


@BOUNDED
@given(
    script=scripts,
    where=st.sampled_from(["on_tool_result", "on_model_request", "tracer", "append"]),
    after=st.integers(0, 4),
)
def test_a_failing_host_leaves_a_sound_conversation(script, where, after):
    class HostError(Exception):
        pass

    async def scenario():
        left = after
        armed = True

        def fail(*_):
            nonlocal left
            left -= 1
            if left < 0 and armed:
                raise HostError

        store = ListStore()

        def append(message):
            if where == "append":
                fail()
            store.append(message)

        options = {
            "tracer": define_context_tracer(on_event=fail, fail_on_error=True) if where == "tracer" else None,
            "hooks": {where: fail} if where.startswith("on_") else None,
            "history_store": define_history_store(
                load=store.load, append=append, replace=store.replace, fail_on_error=True
            ),
        }
        agent = create_bare_agent(model="m", model_client=SlowModel(script), tools=TOOLS, max_turns=6, **options)
        try:
            result = await agent.prompt("go")
            assert result.subtype in SUBTYPES
        except HostError:
            assert left < 0
        armed = False
        assert problems_of(await agent.get_history()) == []
        assert other_tasks() == []
        await asks_again(agent)
        assert store.messages == await agent.get_history()

    asyncio.run(scenario())
