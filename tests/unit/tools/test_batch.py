import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from lattice.abort import AbortController
from lattice.errors import OptionError
from lattice.journal import JournalEntry, MemoryJournal
from lattice.tools.batch import ToolConcurrency, ToolEnvironment, execute_batch
from lattice.tools.tool import UNSET, tool

BOUND = 10
ANY = {"type": "object"}


def call(name, call_id, value=None):
    return {"type": "tool_use", "id": call_id, "name": name, "input": value or {}}


class Meeting:
    """Handlers that note who runs at the same time, and end when they are told to."""

    def __init__(self):
        self.running = []
        self.seen = []
        self.most = 0
        self.order = []
        self.turn = asyncio.Event()

    async def handler(self, _input, context):
        self.running.append(context.tool_use_id)
        self.order.append(context.tool_use_id)
        self.most = max(self.most, len(self.running))
        self.seen.append(tuple(self.running))
        for _ in range(3):
            await asyncio.sleep(0)
        self.running.remove(context.tool_use_id)
        return context.tool_use_id


def environment(meeting, mode="safe", limit=10, **options):
    tools = [
        tool("safe", "d", ANY, meeting.handler, is_concurrency_safe=lambda _input: True),
        tool("plain", "d", ANY, meeting.handler),
    ]
    return ToolEnvironment(
        tools={made.name: made for made in tools},
        concurrency=ToolConcurrency(mode=mode, max_concurrency=limit),
        **options,
    )


def batch(*names):
    return [call(name, f"{n}") for n, name in enumerate(names)]


@pytest.mark.parametrize(
    ("mode", "names", "most"),
    [
        ("safe", ["safe", "safe", "safe"], 3),
        ("safe", ["plain", "plain"], 1),
        ("all", ["plain", "plain", "safe"], 3),
        ("sequential", ["safe", "safe"], 1),
    ],
)
async def test_what_overlaps(mode, names, most):
    """agent:SCHED-01 agent:SCHED-05 agent:SCHED-07 agent:SCHED-12"""
    meeting = Meeting()
    outcome = await execute_batch(batch(*names), environment(meeting, mode))
    assert meeting.most == most
    assert [block["content"] for block in outcome.results] == [str(n) for n in range(len(names))]


async def test_only_consecutive_safe_calls_overlap():
    """agent:SCHED-01"""
    meeting = Meeting()
    await execute_batch(batch("safe", "safe", "plain", "safe", "safe"), environment(meeting))
    assert meeting.seen == [("0",), ("0", "1"), ("2",), ("3",), ("3", "4")]


async def test_at_most_so_many_at_once_in_call_order():
    """agent:SCHED-06"""
    meeting = Meeting()
    await execute_batch(batch(*["safe"] * 6), environment(meeting, limit=2))
    assert meeting.most == 2
    assert meeting.order == ["0", "1", "2", "3", "4", "5"]


class Flag(BaseModel):
    safe: bool


async def coroutine(_input):
    return True


@pytest.mark.parametrize(
    ("check", "value", "most"),
    [
        (lambda flag: flag.safe, {"safe": True}, 2),
        (lambda flag: flag.safe, {"safe": False}, 1),
        (lambda flag: flag.safe, {"safe": "neither"}, 0),
        (lambda flag: 1 / 0, {"safe": True}, 1),
        (lambda flag: "truthy", {"safe": True}, 2),
        (True, {"safe": False}, 2),
        (coroutine, {"safe": True}, 1),
    ],
)
async def test_the_check_decides_by_the_parsed_input(check, value, most):
    """agent:SCHED-02 agent:SCHED-03 - an awaitable answer is no yes here."""
    meeting = Meeting()
    made = tool("t", "d", Flag, meeting.handler, is_concurrency_safe=check)
    env = ToolEnvironment(tools={"t": made})
    outcome = await execute_batch([call("t", "0", value), call("t", "1", value)], env)
    assert meeting.most == most
    assert len(outcome.results) == 2


async def test_safety_is_asked_lazily_and_the_input_parsed_once():
    """agent:SCHED-04 - ours parses once."""
    log = []

    class Schema:
        def parse(self, value):
            log.append(f"parse {value['n']}")
            return value

    async def handler(value):
        log.append(f"run {value['n']}")

    made = [
        tool("safe", "d", Schema(), handler, is_concurrency_safe=lambda _v: True),
        tool("plain", "d", Schema(), handler, is_concurrency_safe=lambda _v: False),
    ]
    env = ToolEnvironment(tools={m.name: m for m in made})
    await execute_batch([call("safe", "0", {"n": 0}), call("plain", "1", {"n": 1}), call("safe", "2", {"n": 2})], env)
    assert log == ["parse 0", "parse 1", "run 0", "run 1", "parse 2", "run 2"]


async def test_traces_of_a_group_come_in_the_order_of_finishing():
    """agent:SCHED-08"""
    rows, gates = [], {n: asyncio.Event() for n in "abc"}

    async def handler(_input, context):
        await asyncio.wait_for(gates[context.tool_use_id].wait(), BOUND)
        return context.tool_use_id

    async def trace(kind, data):
        rows.append((kind, data.get("id") or data["tool_use_id"]))
        if kind == "tool_use" and data["id"] == "c":
            gates["c"].set()
        elif kind == "tool_result" and data["tool_use_id"] in "cb":
            gates[{"c": "b", "b": "a"}[data["tool_use_id"]]].set()

    env = ToolEnvironment(
        tools={"t": tool("t", "d", ANY, handler)}, concurrency=ToolConcurrency(mode="all"), trace=trace
    )
    outcome = await execute_batch([call("t", name) for name in "abc"], env)
    assert rows == [("tool_use", n) for n in "abc"] + [("tool_result", n) for n in "cba"]
    assert [block["content"] for block in outcome.results] == ["a", "b", "c"]


async def test_sequential_traces_interleave():
    """agent:SCHED-08"""
    rows = []

    async def trace(kind, _data):
        rows.append(kind)

    await execute_batch(batch("plain", "plain"), environment(Meeting(), trace=trace))
    assert rows == ["tool_use", "tool_result"] * 2


async def test_one_failure_does_not_touch_the_others():
    """agent:SCHED-09 - and the first error in call order is reported (agent:EVT-07)."""

    async def handler(_input, context):
        if context.tool_use_id in "13":
            raise RuntimeError(context.tool_use_id)
        return "fine"

    env = ToolEnvironment(tools={"t": tool("t", "d", ANY, handler)}, concurrency=ToolConcurrency(mode="all"))
    outcome = await execute_batch([call("nope", "0"), *(call("t", str(n)) for n in range(1, 4))], env)
    assert [bool(block.get("is_error")) for block in outcome.results] == [True, True, False, True]
    assert outcome.error.message == "Tool t failed: 1"


async def test_the_first_end_turn_in_call_order_counts():
    """agent:EXEC-10 agent:EXEC-14 agent:EXEC-15"""

    async def handler(value, context):
        return {"content": context.tool_use_id, **value}

    env = ToolEnvironment(tools={"t": tool("t", "d", ANY, handler)}, concurrency=ToolConcurrency(mode="all"))
    calls = [
        call("t", "0", {"structured_result": "ignored"}),
        call("t", "1", {"end_turn": True}),
        call("t", "2", {"end_turn": True, "structured_result": "late"}),
    ]
    outcome = await execute_batch(calls, env)
    assert (outcome.end_turn, outcome.end_turn_text) == (True, "1")
    assert outcome.structured_result is UNSET
    assert len(outcome.results) == 3


async def test_a_failing_hook_stops_what_runs_and_starts_nothing_more():
    """agent:SCHED-10 agent:W-45"""
    ended, started = [], []
    all_started = asyncio.Event()

    async def handler(_input, context):
        started.append(context.tool_use_id)
        if len(started) == 3:
            all_started.set()
        if context.tool_use_id == "0":
            await asyncio.wait_for(all_started.wait(), BOUND)
            return "first"
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(context.tool_use_id)

    broken = RuntimeError("hook")

    def hook(context):
        if context.tool_use_id == "0":
            raise broken

    env = ToolEnvironment(
        tools={"t": tool("t", "d", ANY, handler)},
        concurrency=ToolConcurrency(mode="all", max_concurrency=3),
        on_tool_result=hook,
    )
    outcome = await asyncio.wait_for(execute_batch([call("t", str(n)) for n in range(6)], env), BOUND)
    assert outcome.failure is broken
    assert sorted(ended) == ["1", "2"]
    assert started == ["0", "1", "2"]
    assert [block["tool_use_id"] for block in outcome.results] == [str(n) for n in range(6)]
    assert all(block["is_error"] for block in outcome.results)


async def test_an_empty_batch_is_nothing():
    outcome = await execute_batch([], ToolEnvironment(tools={}))
    assert outcome.results == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "fast"}, 'tool_concurrency.mode must be "safe", "all", or "sequential"'),
        ({"max_concurrency": 0}, "tool_concurrency.max_concurrency must be a positive integer"),
        ({"max_concurrency": 1.5}, "tool_concurrency.max_concurrency must be a positive integer"),
        ({"max_concurrency": True}, "tool_concurrency.max_concurrency must be a positive integer"),
    ],
)
def test_concurrency_is_checked(options, message):
    """agent:OPT-15"""
    with pytest.raises(OptionError, match=message):
        ToolConcurrency(**options)
    assert ToolConcurrency() == ToolConcurrency(mode="safe", max_concurrency=10)


# Recovery


def recovering(ran):
    async def handler(_input, context):
        ran.append(context.tool_use_id)
        return "ran"

    tools = [
        tool("once", "d", ANY, handler),
        tool("again", "d", ANY, handler, on_recovery="rerun"),
    ]
    return {made.name: made for made in tools}


async def test_a_batch_goes_on_where_it_was_cut_off():
    ran = []
    kept = {"type": "tool_result", "tool_use_id": "done", "content": "kept"}
    recovered = {
        "done": JournalEntry("done", kept, end_turn=True, structured_result={"a": 1}),
        "under way": JournalEntry("under way"),
        "repeatable": JournalEntry("repeatable"),
    }
    calls = [call("once", "done"), call("once", "under way"), call("again", "repeatable"), call("once", "new")]
    outcome = await execute_batch(calls, ToolEnvironment(tools=recovering(ran)), recovered=recovered)
    assert ran == ["repeatable", "new"]
    assert outcome.results[0] is kept
    assert "outcome is unknown" in outcome.results[1]["content"]
    assert "before you repeat it" in outcome.results[1]["content"]
    assert [bool(block.get("is_error")) for block in outcome.results] == [False, True, False, False]
    assert (outcome.end_turn, outcome.end_turn_text, outcome.structured_result) == (True, "kept", {"a": 1})


async def test_an_untouched_batch_is_judged_by_the_policy_as_ever():
    ran = []
    env = ToolEnvironment(tools=recovering(ran), policy=lambda _c: {"allowed": False, "code": "no", "message": "no"})
    outcome = await execute_batch([call("once", "1"), call("once", "2")], env, recovered={})
    assert ran == []
    assert '"no"' in outcome.results[0]["content"]


async def test_a_second_process_finishes_what_the_first_began():
    """A crash after the first call: its result is kept, nothing runs twice."""
    journal, ran = MemoryJournal(), []
    calls = [call("once", "1"), call("once", "2")]

    env = ToolEnvironment(tools=recovering(ran), journal=journal)
    await execute_batch(calls[:1], env)
    outcome = await execute_batch(calls, env, recovered=await journal.load())
    assert ran == ["1", "2"]
    assert [block["content"] for block in outcome.results] == ["ran", "ran"]


# Whatever happens, every call has one answer


KINDS = ["fine", "nothing", "raises", "exits", "cancels", "unknown", "ends", "waits", "thread", "blocks"]


async def behave(value):
    kind = value["kind"]
    if kind == "raises":
        raise RuntimeError("x")
    if kind == "exits":
        raise SystemExit(1)
    if kind == "cancels":
        raise asyncio.CancelledError
    if kind == "waits":
        for _ in range(4):
            await asyncio.sleep(0)
    return {"nothing": None, "ends": {"content": "e", "end_turn": True}, "blocks": []}.get(kind, "text")


def everything(on_call):
    async def handler(value):
        on_call()
        return await behave(value)

    def threaded(_input):
        return "from a thread"

    tools = {kind: tool(kind, "d", ANY, handler) for kind in KINDS if kind not in {"unknown", "thread"}}
    tools["waits"] = tool("waits", "d", ANY, handler, is_concurrency_safe=True)
    tools["thread"] = tool("thread", "d", ANY, threaded, is_concurrency_safe=True)
    return tools


@settings(max_examples=150, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(KINDS), max_size=6),
    mode=st.sampled_from(["safe", "all", "sequential"]),
    limit=st.integers(1, 3),
    stop=st.sampled_from(["never", "abort", "cancel"]),
    stop_at=st.integers(0, 6),
    hook_fails_at=st.integers(0, 12),
)
def test_every_call_has_exactly_one_answer(kinds, mode, limit, stop, stop_at, hook_fails_at):
    """agent:W-03"""

    async def scenario():
        controller, count = AbortController(), [0, 0]
        task = asyncio.current_task()

        def on_call():
            count[0] += 1
            if count[0] == stop_at and stop == "abort":
                controller.abort()
            elif count[0] == stop_at and stop == "cancel":
                task.cancel()

        def hook(_context):
            count[1] += 1
            if count[1] == hook_fails_at:
                raise ValueError("hook")

        env = ToolEnvironment(
            tools=everything(on_call),
            concurrency=ToolConcurrency(mode=mode, max_concurrency=limit),
            signal=controller.signal if stop == "abort" else None,
            on_tool_result=hook,
        )
        calls = [call(kind, f"{n}", {"kind": kind}) for n, kind in enumerate(kinds)]
        outcome = await execute_batch(calls, env)
        assert [block["tool_use_id"] for block in outcome.results] == [c["id"] for c in calls]
        assert all(block["type"] == "tool_result" and block["content"] for block in outcome.results)
        if count[1] >= hook_fails_at > 0:
            assert outcome.failure is not None
        left = asyncio.all_tasks() - {task}
        if left:
            await asyncio.wait(left, timeout=BOUND)
        assert not asyncio.all_tasks() - {task}
        while task.cancelling():
            task.uncancel()

    asyncio.run(scenario())
