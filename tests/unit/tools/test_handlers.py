import asyncio
import threading

import pytest

from lattice.abort import AbortController, AbortSignal
from lattice.errors import AbortError, ToolExecutionError
from lattice.tools import handlers
from lattice.tools.batch import ToolConcurrency, ToolEnvironment, execute_batch
from lattice.tools.tool import tool

BOUND = 10
ANY = {"type": "object"}


def calls(count=1):
    return [{"type": "tool_use", "id": f"c{n}", "name": "t", "input": {}} for n in range(count)]


def environment(handler, signal=None, mode="safe", **options):
    made = tool("t", "d", ANY, handler, **options)
    return ToolEnvironment(tools={"t": made}, signal=signal, concurrency=ToolConcurrency(mode=mode))


async def nobody_is_left():
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=BOUND)
    return not (asyncio.all_tasks() - {asyncio.current_task()})


@pytest.fixture
def short_grace(monkeypatch):
    monkeypatch.setattr(handlers, "GRACE_SECONDS", 0.05)


@pytest.fixture
def endless_grace(monkeypatch):
    monkeypatch.setattr(handlers, "GRACE_SECONDS", 3600)


async def test_a_handler_that_hears_the_abort_keeps_its_result(endless_grace):
    """agent:ABRT-04 agent:ABRT-06"""
    controller, started = AbortController(), asyncio.Event()

    async def handler(_input, context):
        started.set()
        await context.signal.wait()
        return {"content": "stopped cleanly", "end_turn": True}

    running = asyncio.ensure_future(execute_batch(calls(), environment(handler, controller.signal)))
    await asyncio.wait_for(started.wait(), BOUND)
    controller.abort()
    outcome = await asyncio.wait_for(running, BOUND)
    assert outcome.results[0]["content"] == "stopped cleanly"
    assert outcome.end_turn
    assert outcome.aborted
    assert outcome.failure is None


async def test_a_handler_that_does_not_hear_is_cancelled_after_its_grace(short_grace):
    """agent:W-44 agent:W-05"""
    controller, started, cancelled = AbortController(), asyncio.Event(), asyncio.Event()

    async def handler(_input):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    running = asyncio.ensure_future(execute_batch(calls(), environment(handler, controller.signal)))
    await asyncio.wait_for(started.wait(), BOUND)
    controller.abort()
    outcome = await asyncio.wait_for(running, BOUND)
    assert cancelled.is_set()
    assert "had started" in outcome.results[0]["content"]
    assert isinstance(outcome.error, AbortError)
    assert outcome.aborted
    assert await nobody_is_left()


async def test_calls_that_wait_are_not_started_after_an_abort(endless_grace):
    """agent:ABRT-05 agent:ABRT-08"""
    controller, rows, seen = AbortController(), [], []

    async def handler(_input):
        controller.abort()
        return "first"

    async def trace(kind, data):
        rows.append((kind, data.get("id") or data.get("tool_use_id")))

    env = ToolEnvironment(
        tools={"t": tool("t", "d", ANY, handler)},
        signal=controller.signal,
        trace=trace,
        on_tool_result=lambda context: seen.append(type(context.error)),
    )
    outcome = await execute_batch(calls(3), env)
    text = "Tool t was not started because the operation was aborted"
    assert [block["content"] for block in outcome.results] == ["first", text, text]
    assert isinstance(outcome.error, AbortError)
    assert rows == [(kind, f"c{n}") for n in range(3) for kind in ("tool_use", "tool_result")]
    assert seen == [type(None), AbortError, AbortError]


async def test_a_tool_may_have_a_deadline_of_its_own():
    """agent:W-44"""
    stopped = asyncio.Event()

    async def handler(_input, context):
        try:
            await asyncio.Event().wait()
        finally:
            assert context.signal.aborted
            stopped.set()

    outcome = await execute_batch(calls(), environment(handler, timeout_ms=20))
    assert outcome.results[0]["content"] == "Tool t failed: timed out after 20 ms"
    assert isinstance(outcome.error, ToolExecutionError)
    assert stopped.is_set()
    assert not outcome.aborted
    assert await nobody_is_left()


async def test_a_deadline_does_not_fire_the_callers_signal_but_hears_it(endless_grace):
    controller, started = AbortController(), asyncio.Event()

    async def handler(_input, context):
        started.set()
        await context.signal.wait()
        return "heard"

    env = environment(handler, controller.signal, timeout_ms=3_600_000)
    running = asyncio.ensure_future(execute_batch(calls(), env))
    await asyncio.wait_for(started.wait(), BOUND)
    controller.abort()
    assert (await asyncio.wait_for(running, BOUND)).results[0]["content"] == "heard"


async def test_a_thread_that_hangs_is_given_up(short_grace):
    release, controller, started = threading.Event(), AbortController(), threading.Event()

    def handler(_input):
        started.set()
        release.wait(BOUND)

    running = asyncio.ensure_future(execute_batch(calls(), environment(handler, controller.signal)))
    assert await asyncio.to_thread(started.wait, BOUND)
    controller.abort()
    outcome = await asyncio.wait_for(running, BOUND)
    release.set()
    assert "was cancelled because the operation was aborted" in outcome.results[0]["content"]
    assert await nobody_is_left()


async def test_a_thread_hears_that_the_task_is_cancelled(endless_grace):
    started = threading.Event()

    def handler(_input, context):
        heard = threading.Event()
        context.signal.add_listener(heard.set)
        started.set()
        return "heard" if heard.wait(BOUND) else "deaf"

    running = asyncio.ensure_future(execute_batch(calls(), environment(handler)))
    assert await asyncio.to_thread(started.wait, BOUND)
    running.cancel()
    outcome = await running
    assert outcome.results[0]["content"] == "heard"
    assert isinstance(outcome.failure, asyncio.CancelledError)


@pytest.mark.parametrize("signal", [None, AbortSignal()])
async def test_cancelling_the_task_answers_the_batch_first(signal):
    started, rest = asyncio.Event(), []

    async def handler(_input):
        rest.append(1)
        started.set()
        await asyncio.Event().wait()

    running = asyncio.ensure_future(execute_batch(calls(3), environment(handler, signal)))
    await asyncio.wait_for(started.wait(), BOUND)
    running.cancel()
    outcome = await running
    assert isinstance(outcome.failure, asyncio.CancelledError)
    assert [block["tool_use_id"] for block in outcome.results] == ["c0", "c1", "c2"]
    assert all(block["is_error"] for block in outcome.results)
    assert len(rest) == 1
    assert await nobody_is_left()


async def test_a_handler_that_swallows_the_cancellation_does_not_lose_it():
    started = asyncio.Event()

    async def handler(_input):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished anyway"

    running = asyncio.ensure_future(execute_batch(calls(), environment(handler)))
    await asyncio.wait_for(started.wait(), BOUND)
    running.cancel()
    outcome = await running
    assert outcome.results[0]["content"] == "finished anyway"
    assert isinstance(outcome.failure, asyncio.CancelledError)


async def test_cancelling_the_task_stops_a_whole_group():
    """agent:W-04"""
    started, ended = [], []
    everyone = asyncio.Event()

    async def handler(_input):
        started.append(1)
        if len(started) == 3:
            everyone.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(1)

    running = asyncio.ensure_future(execute_batch(calls(3), environment(handler, mode="all")))
    await asyncio.wait_for(everyone.wait(), BOUND)
    running.cancel()
    outcome = await running
    assert len(ended) == 3
    assert isinstance(outcome.failure, asyncio.CancelledError)
    assert len(outcome.results) == 3
    assert await nobody_is_left()


async def test_a_handler_that_ignores_everything_is_let_go_with_a_warning(short_grace, caplog):
    controller, started, release = AbortController(), asyncio.Event(), asyncio.Event()

    async def handler(_input):
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    running = asyncio.ensure_future(execute_batch(calls(), environment(handler, controller.signal)))
    await asyncio.wait_for(started.wait(), BOUND)
    controller.abort()
    outcome = await asyncio.wait_for(running, BOUND)
    assert outcome.results[0]["is_error"] is True
    assert "ignores that it was cancelled" in caplog.text
    release.set()
    assert await nobody_is_left()
