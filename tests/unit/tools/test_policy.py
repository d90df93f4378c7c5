import json
from types import SimpleNamespace

import pytest

from lattice.abort import AbortController
from lattice.errors import AbortError, ToolBatchRejectedError
from lattice.tools.batch import ToolEnvironment, execute_batch
from lattice.tools.tool import tool

ANY = {"type": "object"}


def call(name, call_id, value=None):
    return {"type": "tool_use", "id": call_id, "name": name, "input": value or {}}


@pytest.fixture
def ran():
    return []


@pytest.fixture
def tools(ran):
    made = [tool(name, "d", ANY, lambda _input, name=name: ran.append(name)) for name in ("a", "b", "submit_output")]
    return {definition.name: definition for definition in made}


BOTH = [call("a", "1", {"x": 1}), call("b", "2")]


async def test_the_policy_sees_the_whole_batch_first(tools, ran):
    """agent:POL-01 agent:POL-02"""
    seen = []

    class Policy:
        async def validate(self, context):
            seen.append((context, list(ran)))
            return {"allowed": True}

    signal = AbortController().signal
    environment = ToolEnvironment(tools=tools, policy=Policy(), context="host", signal=signal)
    await execute_batch([*BOTH, call("nope", "3")], environment)
    ((context, ran_before),) = seen
    assert ran_before == []
    assert context.source is None
    assert (context.context, context.signal) == ("host", signal)
    assert [(c.id, c.name, c.input, c.kind) for c in context.tool_calls] == [
        ("1", "a", {"x": 1}, "tool"),
        ("2", "b", {}, "tool"),
        ("3", "nope", {}, "tool"),
    ]
    assert ran == ["a", "b"]


async def test_the_policy_gets_the_source_of_the_runtime(tools):
    """agent:POL-02"""
    sources = []
    runtime = SimpleNamespace(source={"kind": "team_member"})

    def policy(context):
        sources.append(context.source)
        return True

    await execute_batch(BOTH, ToolEnvironment(tools=tools, policy=policy, agent_runtime=runtime))
    assert sources == [{"kind": "team_member"}]


@pytest.mark.parametrize("spelling", ["snake", "camel", "object"])
async def test_a_rejection_answers_every_call_and_runs_none(tools, ran, spelling):
    """agent:POL-03 agent:POL-04 agent:POL-05"""
    answer = {"allowed": False, "code": "invalid_tool_batch", "message": "Split it."}
    if spelling == "camel":
        answer |= {"conflictingToolCallIds": ["1"], "suggestedNextStep": "First a."}
    else:
        answer |= {"conflicting_tool_call_ids": ["1"], "suggested_next_step": "First a."}
    given = SimpleNamespace(**answer) if spelling == "object" else answer
    outcome = await execute_batch(BOTH, ToolEnvironment(tools=tools, policy={"validate": lambda _c: given}))
    assert ran == []
    assert [block["tool_use_id"] for block in outcome.results] == ["1", "2"]
    assert all(block["is_error"] for block in outcome.results)
    assert len({block["content"] for block in outcome.results}) == 1
    assert list(json.loads(outcome.results[0]["content"]).items()) == [
        ("status", "rejected"),
        ("code", "invalid_tool_batch"),
        ("message", "Split it."),
        ("conflicting_tool_call_ids", ["1"]),
        ("suggested_next_step", "First a."),
    ]
    assert isinstance(outcome.error, ToolBatchRejectedError)
    assert outcome.error.message == "Split it."
    assert outcome.error.rejection.code == "invalid_tool_batch"


async def test_a_policy_that_raises_or_says_nothing_runs_nothing(tools, ran):
    """agent:POL-06 agent:POL-07 agent:POL-12"""

    def broken(_context):
        raise RuntimeError("internal detail")

    for policy in (broken, lambda _context: None):
        outcome = await execute_batch(BOTH, ToolEnvironment(tools=tools, policy=policy))
        body = json.loads(outcome.results[0]["content"])
        assert body == {
            "status": "rejected",
            "code": "tool_batch_policy_error",
            "message": "Tool batch validation failed before execution.",
            "suggested_next_step": "Retry with the tool calls split into separate steps.",
        }
        assert ran == []


async def test_a_policy_that_fails_under_an_abort_is_the_abort(tools, ran):
    """agent:POL-08"""
    controller = AbortController()

    def broken(_context):
        controller.abort()
        raise RuntimeError("connection closed")

    def aborting(_context):
        raise AbortError("enough")

    for policy, signal in ((broken, controller.signal), (aborting, None)):
        outcome = await execute_batch(BOTH, ToolEnvironment(tools=tools, policy=policy, signal=signal))
        assert outcome.results[1]["content"] == "Tool b was not started because the operation was aborted"
        assert isinstance(outcome.error, AbortError)
        assert outcome.aborted
        assert ran == []


async def test_a_policy_that_allows_after_an_abort_starts_nothing(tools, ran):
    """agent:POL-09"""
    controller = AbortController()

    def policy(_context):
        controller.abort()
        return True

    outcome = await execute_batch(BOTH, ToolEnvironment(tools=tools, policy=policy, signal=controller.signal))
    assert ran == []
    assert outcome.aborted


@pytest.mark.parametrize("batch", [["submit_output", "submit_output"], ["a", "submit_output"]])
async def test_the_exclusive_tool_must_be_alone(tools, ran, batch):
    """agent:OUT-09 agent:OUT-10"""
    calls = [call(name, str(n)) for n, name in enumerate(batch)]
    outcome = await execute_batch(calls, ToolEnvironment(tools=tools, exclusive_tool="submit_output"))
    body = json.loads(outcome.results[0]["content"])
    assert body["code"] == "submit_output_exclusive_batch"
    assert body["message"] == "submit_output must be the only tool call in its batch."
    assert body["conflicting_tool_call_ids"] == [str(n) for n, name in enumerate(batch) if name == "submit_output"]
    assert ran == []
    assert len(outcome.results) == 2


async def test_the_policy_speaks_before_exclusivity(tools):
    """agent:POL-11"""
    environment = ToolEnvironment(
        tools=tools,
        exclusive_tool="submit_output",
        policy=lambda _c: {"allowed": False, "code": "mine", "message": "m"},
    )
    outcome = await execute_batch([call("a", "1"), call("submit_output", "2")], environment)
    assert json.loads(outcome.results[0]["content"])["code"] == "mine"


async def test_a_truncated_response_is_refused_before_everything_else(tools, ran):
    """agent:TRUNC-01 agent:TRUNC-02 agent:TRUNC-03 agent:POL-10 agent:PERM-07"""
    asked, rows = [], []

    async def trace(kind, _data):
        rows.append(kind)

    environment = ToolEnvironment(tools=tools, policy=asked.append, permission=asked.append, trace=trace)
    outcome = await execute_batch(BOTH, environment, truncated=True)
    first = "Tool a was not executed: the model response was truncated at max_tokens, so tool inputs may be incomplete."
    assert outcome.results[0]["content"] == (
        f"{first} Shorten your thinking and output, then issue the tool call again."
    )
    assert outcome.error.message == first
    assert [block["is_error"] for block in outcome.results] == [True, True]
    assert rows == ["tool_use", "tool_result"] * 2
    assert asked == []
    assert ran == []
