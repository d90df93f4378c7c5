"""Asking members: answers, failures, and questions beside handoffs."""

import asyncio
import json

from pydantic import BaseModel

from lattice import agent_tool
from lattice.testing import tool_use
from tests.scenarios.worlds import TEAM
from tests.teams import ask, echo, results, said, spec


def first_result(request):
    return results(request)[0]


class Verdict(BaseModel):
    ok: bool


async def test_one_question(world):
    outcome = await world.run(world.team([ask("a", "why"), first_result], {"a": echo("a")}))
    assert outcome.text == "a did why"
    assert outcome.statuses("a") == ["done"]
    assert outcome.briefs.index("replied manager") < outcome.briefs.index("user")


async def test_several_questions_in_a_row(world):
    outcome = await world.run(world.team([ask("a"), ask("b"), first_result], {"a": echo("a"), "b": echo("b")}))
    assert outcome.text == "b did question"


async def test_the_expectations_of_a_task_reach_the_member(world):
    call = ask("a", "task", expectedOutput="a list", acceptanceCriteria=["short"])
    outcome = await world.run(world.team([call, first_result], {"a": echo("a")}))
    assert outcome.text == "a did task\n\nExpected output:\na list\n\nAcceptance criteria:\n- short"


async def test_structured_output_is_the_answer(world):
    child = spec("a", [tool_use("submit_output", {"ok": True})], output_schema=Verdict)
    outcome = await world.run(world.team([ask("a"), first_result], {"a": child}))
    assert json.loads(outcome.text) == {"ok": True}


async def test_a_member_that_does_not_submit_is_invalid(world):
    child = spec("a", ["prose"], output_schema=Verdict)
    outcome = await world.run(world.team([ask("a"), first_result], {"a": child}))
    assert outcome.text.startswith("child_output_invalid:")
    assert "missing_output" in outcome.text


async def test_observing_is_not_supported(world):
    outcome = await world.run(
        world.team([tool_use("a", {"mode": "observe", "task": "x"}), first_result], {"a": echo("a")})
    )
    assert "mode=observe is not supported" in outcome.text


async def test_typed_delegation(world):
    judge = spec("judge", lambda request: f"judged {said(request).rpartition(chr(10))[2]}")
    tool = agent_tool("judge", judge, input_schema=Verdict, map_input=lambda value: f"ok is {value.ok}")
    lead = spec("lead", [tool_use("judge", {"ok": True}), first_result], tools=[tool])
    assert (await world.run(world.team(lead))).text == "judged ok is True"


async def test_typed_delegation_with_a_bad_argument(world):
    judge = spec("judge", ["never"])
    tool = agent_tool("judge", judge, input_schema=Verdict, map_input=str)
    lead = spec("lead", [tool_use("judge", {"ok": "perhaps"}), first_result], tools=[tool])
    assert (await world.run(world.team(lead))).text.startswith("Tool judge failed:")


async def test_members_ask_each_other(world):
    helper = spec("helper", echo("helper"))
    middle = spec(
        "middle",
        [ask("helper", "deep"), first_result],
        tools=[agent_tool("helper", helper, target_mailbox_id=f"{TEAM}::helper")],
    )
    outcome = await world.run(world.team([ask("middle"), first_result], {"middle": middle, "helper": helper}))
    assert outcome.text == "helper did deep"
    assert outcome.mail["helper"][0].from_ == f"{TEAM}::middle"


async def test_a_circle_of_live_agents_is_an_error(world):
    a = spec("a", lambda r: first_result(r) if results(r) else ask("b")).spawn()
    b = spec("b", lambda r: first_result(r) if results(r) else ask("a")).spawn()
    a.add_tools([agent_tool("b", b, target_mailbox_id=f"{TEAM}::b")])
    b.add_tools([agent_tool("a", a, target_mailbox_id=f"{TEAM}::a")])
    outcome = await asyncio.wait_for(world.run(world.team([ask("a"), first_result], {"a": a, "b": b})), 10)
    assert "would never end" in outcome.text
