import asyncio
import json

import pytest
from pydantic import BaseModel

from lattice.abort import AbortController
from lattice.errors import AbortError, ToolExecutionError, ToolPermissionDeniedError
from lattice.journal import MemoryJournal
from lattice.tools.batch import ToolEnvironment, execute_batch
from lattice.tools.tool import UNSET, ToolResult, tool


class Number(BaseModel):
    n: int


def call(name="t", value=None, call_id="c1"):
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"n": 1} if value is None else value}


def returning(value, **options):
    async def handler(_input):
        return value

    return tool("t", "d", Number, handler, **options)


def raising(error):
    async def handler(_input):
        raise error

    return tool("t", "d", Number, handler)


async def run(definition, *calls, **options):
    environment = ToolEnvironment(tools={definition.name: definition}, **options)
    return await execute_batch(list(calls) or [call()], environment)


async def test_a_result_block_says_no_more_than_it_must():
    """agent:EVT-08"""
    outcome = await run(returning("fine"))
    assert outcome.results == [{"type": "tool_result", "tool_use_id": "c1", "content": "fine"}]
    assert (outcome.error, outcome.end_turn, outcome.failure, outcome.aborted) == (None, False, None, False)


async def test_an_unknown_tool_is_an_error_for_the_model_only():
    """agent:EXEC-01"""
    asked = []
    outcome = await run(returning("x"), call("nope"), permission=asked.append)
    assert outcome.results[0]["content"] == "Tool nope is not registered"
    assert outcome.results[0]["is_error"] is True
    assert outcome.error is None
    assert asked == []


async def test_order_is_permission_then_parse_then_handler():
    """agent:EXEC-02 agent:PERM-06"""
    order = []

    class Schema:
        def parse(self, value):
            order.append("parse")
            return value

    made = tool("t", "d", Schema(), lambda _input: order.append("handler"))
    await run(made, permission=lambda _request: order.append("permission"))
    assert order == ["permission", "parse", "handler"]


async def test_a_failing_handler_is_told_to_the_model():
    """agent:EXEC-03 agent:EXEC-04 agent:ERR-02"""
    boom = RuntimeError("boom")
    outcome = await run(raising(boom))
    assert outcome.results[0] == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": "Tool t failed: boom",
        "is_error": True,
    }
    assert isinstance(outcome.error, ToolExecutionError)
    assert outcome.error.message == "Tool t failed: boom"
    assert outcome.error.cause is boom
    assert outcome.failure is None


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError"),
        (BaseExceptionGroup("several", [RuntimeError("one"), SystemExit(2)]), "several: one; SystemExit: 2"),
        (KeyError("k"), "KeyError: 'k'"),
        (ValueError(), "ValueError"),
        (RuntimeError("bad \ud800 text"), "bad � text"),
    ],
)
@pytest.mark.parametrize("signalled", [False, True])
async def test_whatever_a_handler_raises_stays_its_own(error, told, signalled):
    """agent:EXEC-07"""
    outcome = await run(raising(error), signal=AbortController().signal if signalled else None)
    assert outcome.results[0]["content"] == f"Tool t failed: {told}"
    assert outcome.failure is None
    assert asyncio.current_task().cancelling() == 0


async def test_a_keyboard_interrupt_leaves_after_the_answer():
    outcome = await run(raising(KeyboardInterrupt()))
    assert isinstance(outcome.failure, KeyboardInterrupt)
    assert outcome.results[0]["is_error"] is True


async def test_invalid_input_never_reaches_the_handler():
    """agent:EXEC-05"""
    ran = []
    made = tool("t", "d", Number, ran.append)
    outcome = await run(made, call(value={"n": "many"}))
    assert outcome.results[0]["content"].startswith("Tool t failed: ")
    assert "int_parsing" in outcome.results[0]["content"]
    assert ran == []


@pytest.mark.parametrize("raw", ['{"n": 1', [1], 7])
async def test_arguments_that_are_no_object_never_become_an_empty_one(raw):
    """agent:W-36"""
    ran = []
    outcome = await run(tool("t", "d", {"type": "object"}, ran.append), call(value=raw))
    assert "must be a JSON object" in outcome.results[0]["content"]
    assert ran == []


async def test_a_denied_call_has_the_message_and_no_error():
    """agent:PERM-02 agent:PERM-03"""
    ran = []
    made = tool("t", "d", Number, ran.append)
    outcome = await run(made, permission=lambda _r: {"behavior": "deny", "message": "not today"})
    assert outcome.results[0]["content"] == "not today"
    assert outcome.results[0]["is_error"] is True
    assert outcome.error is None
    assert ran == []


async def test_a_permission_callback_that_raises_is_a_failed_tool():
    """agent:PERM-04"""

    def broken(_request):
        raise RuntimeError("policy server is down")

    outcome = await run(returning("x"), permission=broken)
    assert outcome.results[0]["content"] == "Tool t failed: policy server is down"


async def test_permission_does_not_guard_the_exclusive_tool():
    """agent:PERM-08 agent:W-24 - ours lets it finish."""
    outcome = await run(returning({"content": "ok", "end_turn": True}), permission=lambda _r: False, exclusive_tool="t")
    assert outcome.results[0]["content"] == "ok"


async def test_a_denial_from_inside_is_shown_as_json():
    """agent:EXEC-06 agent:GRANT-07"""
    denial = {"tool": "t", "requestedPath": "/x", "reason": "no", "allowedRoots": ["/w"], "suggestedNextStep": "ask"}
    error = ToolPermissionDeniedError(denial)
    outcome = await run(raising(error))
    assert outcome.error is error
    assert list(json.loads(outcome.results[0]["content"]).items()) == [
        ("status", "permission_denied"),
        ("tool", "t"),
        ("requestedPath", "/x"),
        ("reason", "no"),
        ("allowedWriteRoots", ["/w"]),
        ("suggestedNextStep", "ask"),
    ]


async def test_the_handler_is_told_its_context():
    """agent:TOOL-09 agent:TOOL-10"""
    seen = []

    async def handler(value, context):
        seen.append((value, context))
        return "x"

    signal, host, runtime, permissions = AbortController().signal, object(), object(), {"workspace_grants": []}
    made = tool("t", "d", Number, handler)
    outcome = await run(made, signal=signal, context=host, agent_runtime=runtime, permissions=permissions)
    ((value, context),) = seen
    assert value == Number(n=1)
    assert context.signal is signal
    assert context.context is host
    assert context.agent_runtime is runtime
    assert context.permissions is permissions
    assert context.tool_use_id == "c1"
    assert outcome.results[0]["content"] == "x"


async def test_end_turn_carries_the_text_after_the_hook():
    """agent:EXEC-10 agent:EXEC-12"""
    made = returning(ToolResult("raw", end_turn=True, structured_result=[1]))
    outcome = await run(made, on_tool_result=lambda hook: {**hook.result, "content": "redacted"})
    assert outcome.end_turn
    assert outcome.end_turn_text == "redacted"
    assert outcome.structured_result == [1]


async def test_a_hook_cannot_cancel_end_turn():
    """agent:EXEC-13"""
    made = returning(ToolResult("raw", end_turn=True))
    outcome = await run(made, on_tool_result=lambda hook: {**hook.result, "is_error": True})
    assert outcome.end_turn
    assert outcome.results[0]["is_error"] is True


async def test_a_failing_call_cannot_end_the_turn():
    """agent:EXEC-16"""
    outcome = await run(raising(RuntimeError("x")))
    assert not outcome.end_turn
    assert outcome.structured_result is UNSET


async def test_the_end_turn_text_is_whole_even_if_the_block_is_cut():
    made = returning(ToolResult("y" * 300, end_turn=True))
    outcome = await run(made, max_result_chars=100)
    assert outcome.end_turn_text == "y" * 300
    assert "characters left out" in outcome.results[0]["content"]


async def test_an_end_turn_of_nothing_has_an_empty_text():
    outcome = await run(returning(ToolResult("", end_turn=True)))
    assert outcome.end_turn_text == ""
    assert outcome.results[0]["content"] == "(no output)"


async def test_a_hook_sees_copies_and_everything_about_the_call():
    """agent:HOOK-02 agent:W-26"""
    seen = []

    def hook(context):
        seen.append(context)
        context.result["content"] = "edited in place"
        context.input["n"] = 9

    the_call = call()
    boom = RuntimeError("boom")
    signal = AbortController().signal
    outcome = await run(
        raising(boom), the_call, on_tool_result=hook, source={"kind": "agent"}, context="host", signal=signal
    )
    (context,) = seen
    assert (context.tool_name, context.tool_use_id, context.source, context.context) == (
        "t",
        "c1",
        {"kind": "agent"},
        "host",
    )
    assert context.error.cause is boom
    assert context.signal is signal
    assert outcome.results[0]["content"] == "Tool t failed: boom"
    assert the_call["input"] == {"n": 1}


@pytest.mark.parametrize("wanted", ["unknown", "denied", "failed", "truncated"])
async def test_a_hook_runs_for_every_kind_of_result(wanted):
    """agent:HOOK-01 agent:HOOK-03"""
    seen = []
    made = raising(RuntimeError("x")) if wanted == "failed" else returning("x")
    environment = ToolEnvironment(
        tools={"t": made},
        permission=(lambda _r: False) if wanted == "denied" else None,
        on_tool_result=lambda context: seen.append(context.result["is_error"]),
    )
    name = "nope" if wanted == "unknown" else "t"
    await execute_batch([call(name)], environment, truncated=wanted == "truncated")
    assert seen == [True]


async def test_a_failure_that_a_hook_forgives_leaves_no_error():
    """agent:HOOK-05 agent:W-25 - ours clears the error, on the event and in the trace."""
    rows = []

    async def trace(kind, data):
        rows.append((kind, data))

    outcome = await run(
        raising(RuntimeError("x")),
        on_tool_result=lambda _c: {"type": "tool_result", "content": "never mind"},
        trace=trace,
    )
    assert outcome.error is None
    assert outcome.results[0] == {"type": "tool_result", "tool_use_id": "c1", "content": "never mind"}
    assert rows[-1] == ("tool_result", {"tool_use_id": "c1", "content": "never mind", "is_error": False})


async def test_a_hook_cannot_answer_another_call():
    """agent:HOOK-06 agent:W-25 - ours keeps the id."""
    outcome = await run(returning("x"), on_tool_result=lambda hook: {**hook.result, "tool_use_id": "other"})
    assert outcome.results[0]["tool_use_id"] == "c1"


async def test_a_hook_replaces_the_block_whole_only_if_it_returns_something():
    """agent:HOOK-04"""
    for nothing in (None, {}):
        outcome = await run(returning("x"), on_tool_result=lambda _c, nothing=nothing: nothing)
        assert outcome.results[0]["content"] == "x"

    async def later(_context):
        return {"content": ""}

    outcome = await run(raising(RuntimeError("x")), on_tool_result=later)
    assert outcome.results[0] == {"type": "tool_result", "tool_use_id": "c1", "content": "(no output)"}


async def test_a_hook_that_raises_withholds_the_result():
    """agent:HOOK-10 - a redaction that failed must not leak."""
    broken = RuntimeError("redactor is down")

    def hook(_context):
        raise broken

    outcome = await run(returning("secret"), on_tool_result=hook)
    assert outcome.failure is broken
    assert "secret" not in str(outcome.results)
    assert outcome.results[0]["is_error"] is True


async def test_trace_rows_of_one_call():
    """agent:TRACE-15 agent:TRACE-16 agent:HOOK-11"""
    rows = []

    async def trace(kind, data):
        rows.append((kind, data))

    await run(returning("raw"), trace=trace, on_tool_result=lambda hook: {**hook.result, "content": "sent"})
    assert rows == [
        ("tool_use", {"id": "c1", "name": "t", "input": {"n": 1}, "description": "d"}),
        ("tool_result", {"tool_use_id": "c1", "content": "sent", "is_error": False}),
    ]


async def test_an_unknown_tool_is_traced_without_description():
    """agent:TRACE-15"""
    rows = []

    async def trace(kind, data):
        rows.append((kind, data))

    await run(returning("x"), call("nope"), trace=trace)
    assert rows[0] == ("tool_use", {"id": "c1", "name": "nope", "input": {"n": 1}})
    assert rows[1][1]["is_error"] is True


async def test_a_strict_tracer_stops_the_call_before_it_starts():
    ran = []

    async def trace(_kind, _data):
        raise RuntimeError("disk full")

    outcome = await run(tool("t", "d", Number, ran.append), trace=trace)
    assert str(outcome.failure) == "disk full"
    assert ran == []
    assert len(outcome.results) == 1


async def test_a_sync_handler_does_not_block_the_loop():
    import threading

    release = threading.Event()
    made = tool("t", "d", Number, lambda _input: "released" if release.wait(10) else "stuck")
    running = asyncio.ensure_future(run(made))
    await asyncio.sleep(0)
    release.set()
    assert (await running).results[0]["content"] == "released"


async def test_a_sync_handler_may_return_an_awaitable():
    async def later():
        return "later"

    outcome = await run(tool("t", "d", Number, lambda _input: later()))
    assert outcome.results[0]["content"] == "later"


class Recording(MemoryJournal):
    def __init__(self, fail_on=None):
        super().__init__()
        self.log = []
        self.fail_on = fail_on

    async def started(self, tool_use_id):
        self.log.append(("started", tool_use_id))
        if self.fail_on == "started":
            raise ConnectionError("gone")
        await super().started(tool_use_id)

    async def starting(self, tool_use_id):
        asyncio.get_running_loop().call_soon(self.log.append, ("another step", tool_use_id))
        if self.fail_on == "starting":
            raise ConnectionError("gone")

    async def finished(self, entry):
        self.log.append(("finished", entry.tool_use_id))
        if self.fail_on == "finished":
            raise ConnectionError("gone")
        await super().finished(entry)


async def test_the_journal_knows_before_and_after():
    journal = Recording()

    async def handler(_input):
        journal.log.append(("ran", "c1"))
        return ToolResult("x", end_turn=True, structured_result={"a": 1})

    await run(tool("t", "d", Number, handler), journal=journal)
    assert [what for what, _ in journal.log if what != "another step"] == ["started", "ran", "finished"]
    (entry,) = (await journal.load()).values()
    assert entry.result == {"type": "tool_result", "tool_use_id": "c1", "content": "x"}
    assert entry.end_turn
    assert entry.structured_result == {"a": 1}


async def test_what_may_be_rerun_is_not_recorded_as_started():
    journal = Recording()
    await run(returning("x", on_recovery="rerun"), journal=journal)
    assert [what for what, _ in journal.log if what != "another step"] == ["finished"]


@pytest.mark.parametrize("signal", [None, AbortController().signal])
@pytest.mark.parametrize("on_recovery", ["unknown", "rerun"])
async def test_nothing_else_runs_between_the_last_look_at_the_journal_and_the_handler(signal, on_recovery):
    """A process that is stopped in between would begin what another has taken over."""
    journal = Recording()

    async def handler(_input):
        journal.log.append(("ran", "c1"))
        await asyncio.sleep(0)

    await run(tool("t", "d", Number, handler, on_recovery=on_recovery), journal=journal, signal=signal)
    names = [what for what, _ in journal.log]
    assert names.index("ran") < names.index("another step")


@pytest.mark.parametrize(("when", "ran"), [("started", 0), ("starting", 0), ("finished", 1)])
async def test_a_broken_journal_leaves_the_query_and_starts_nothing_more(when, ran):
    done = []
    made = tool("t", "d", Number, done.append)
    outcome = await run(made, call(), call(call_id="c2"), journal=Recording(fail_on=when))
    assert isinstance(outcome.failure, ConnectionError)
    assert len(done) == ran
    assert [block["tool_use_id"] for block in outcome.results] == ["c1", "c2"]
    assert outcome.results[1]["is_error"] is True


async def test_an_abort_error_of_the_handler_stays_an_abort_error():
    controller = AbortController()

    async def handler(_input, context):
        controller.abort()
        context.signal.throw_if_aborted()

    outcome = await run(tool("t", "d", Number, handler), signal=controller.signal)
    assert isinstance(outcome.error, AbortError)
    assert outcome.aborted
