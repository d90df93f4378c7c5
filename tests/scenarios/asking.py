"""Asking members: answers, typed input and output, and rules for what may be called together."""

import json

from pydantic import BaseModel

from lattice import agent_tool, tool
from lattice.testing import tool_use, turn
from tests.contracts.backends import TEAM
from tests.scenarios.description import Scenario, first_result, is_resumed, scenario
from tests.teams import ask, echo, handoff, results, said, spec, task_of


class Verdict(BaseModel):
    ok: bool


def text_of(text):
    """An expectation: the run has succeeded with this."""

    def expect(outcome):
        assert (outcome.status, outcome.text) == ("succeeded", text)

    return expect


@scenario("asking")
def one_question(make):
    def expect(outcome):
        assert outcome.text == "a did why"
        assert outcome.statuses("a") == ["done"]
        assert outcome.briefs.index("replied manager") < outcome.briefs.index("user")

    return Scenario(make([ask("a", "why"), first_result], {"a": echo("a")}), expect)


@scenario("asking")
def several_questions_in_a_row(make):
    def expect(outcome):
        assert outcome.tool_results(0) == ["a did question"]
        assert outcome.text == "b did question"

    return Scenario(make([ask("a"), ask("b"), first_result], {"a": echo("a"), "b": echo("b")}), expect)


@scenario("asking")
def several_questions_at_once(make):
    def expect(outcome):
        assert outcome.tool_results() == ["a did 1", "b did 2", "a did 3"]

    calls = ask("a", "1"), ask("b", "2"), ask("a", "3")
    return Scenario(make([turn(*calls), first_result], {"a": echo("a"), "b": echo("b")}), expect)


@scenario("asking")
def the_expectations_of_a_task_reach_the_member(make):
    call = ask("a", "task", expectedOutput="a list", acceptanceCriteria=["short"])
    expected = "a did task\n\nExpected output:\na list\n\nAcceptance criteria:\n- short"
    return Scenario(make([call, first_result], {"a": echo("a")}), text_of(expected))


@scenario("asking")
def members_ask_each_other(make):
    def expect(outcome):
        assert outcome.text == "helper did deep"
        assert outcome.mail["helper"][0].from_ == f"{TEAM}::middle"

    helper = spec("helper", echo("helper"))
    tools = [agent_tool("helper", helper, target_mailbox_id=f"{TEAM}::helper")]
    middle = spec("middle", [ask("helper", "deep"), first_result], tools=tools)
    return Scenario(make([ask("middle"), first_result], {"middle": middle, "helper": helper}), expect)


@scenario("asking")
def a_circle_of_live_agents_is_an_error(make):
    def expect(outcome):
        assert "would never end" in outcome.text

    def asks(other):
        return lambda request: first_result(request) if results(request) else ask(other)

    a, b = spec("a", asks("b")).spawn(), spec("b", asks("a")).spawn()
    a.add_tools([agent_tool("b", b, target_mailbox_id=f"{TEAM}::b")])
    b.add_tools([agent_tool("a", a, target_mailbox_id=f"{TEAM}::a")])
    return Scenario(make([ask("a"), first_result], {"a": a, "b": b}), expect)


@scenario("asking")
def observing_is_not_supported(make):
    def expect(outcome):
        assert "mode=observe is not supported" in outcome.text

    return Scenario(make([tool_use("a", {"mode": "observe", "task": "x"}), first_result], {"a": echo("a")}), expect)


@scenario("asking")
def the_tokens_of_everybody(make):
    def expect(outcome):
        assert outcome.usage == {"input_tokens": 40, "output_tokens": 4}

    usage = {"input_tokens": 10, "output_tokens": 1}
    members = {"a": [turn("y", usage=usage)], "b": [turn("z", usage=usage)]}
    return Scenario(make([turn(handoff("a"), ask("b"), usage=usage), turn("x", usage=usage)], members), expect)


@scenario("typed")
def structured_output_is_the_answer(make):
    def expect(outcome):
        assert json.loads(outcome.text) == {"ok": True}

    child = spec("a", [tool_use("submit_output", {"ok": True})], output_schema=Verdict)
    return Scenario(make([ask("a"), first_result], {"a": child}), expect)


@scenario("typed")
def structured_output_goes_with_the_report(make):
    """team:OUT-12"""

    def expect(outcome):
        (report,) = outcome.reports
        assert (report.content, report.metadata) == ("Structured output submitted.", {"structuredResult": {"ok": True}})

    child = spec("a", [tool_use("submit_output", {"ok": True})], output_schema=Verdict)
    return Scenario(make([handoff("a"), said], {"a": child}), expect)


@scenario("typed")
def a_member_that_does_not_submit_is_invalid(make):
    def expect(outcome):
        assert outcome.text.startswith("child_output_invalid:")
        assert "missing_output" in outcome.text

    return Scenario(make([ask("a"), first_result], {"a": spec("a", ["prose"], output_schema=Verdict)}), expect)


def _judging(make, judge, value, **options):
    tools = [agent_tool("judge", spec("judge", judge, **options), input_schema=Verdict, map_input=_as_task)]
    return make(spec("lead", [tool_use("judge", {"ok": value}), first_result], tools=tools))


def _as_task(value):
    return f"ok is {value.ok}"


@scenario("typed")
def typed_delegation(make):
    return Scenario(_judging(make, lambda request: f"judged {task_of(request)}", True), text_of("judged ok is True"))


@scenario("typed")
def typed_delegation_and_structured_output(make):
    def expect(outcome):
        assert json.loads(outcome.text) == {"ok": True}

    def judge(request):
        return tool_use("submit_output", {"ok": "ok is True" in said(request)})

    return Scenario(_judging(make, judge, True, output_schema=Verdict), expect)


@scenario("typed")
def typed_delegation_with_a_bad_argument(make):
    def expect(outcome):
        assert outcome.text.startswith("Tool judge failed:")

    return Scenario(_judging(make, ["never"], "perhaps"), expect)


@scenario("rules of a batch")
def a_rejected_batch_sends_nothing_and_a_split_retry_works(make):
    """team:HND-16 team:HND-17"""

    def expect(outcome):
        assert outcome.text == "done"
        assert [json.loads(content)["code"] for content in outcome.tool_results()] == ["one_at_a_time"] * 2
        assert len(outcome.mail["a"]) == 1

    def policy(context):
        agents = [call for call in context.tool_calls if call.kind == "agent_tool"]
        if len(agents) > 1:
            return {"allowed": False, "code": "one_at_a_time", "message": "one at a time"}
        return {"allowed": True}

    def lead(request):
        if is_resumed(request):
            return "done"
        return turn(handoff("a")) if results(request) else turn(handoff("a"), ask("a"))

    return Scenario(make(spec("lead", lead, tool_batch_policy=policy), {"a": echo("a")}), expect)


@scenario("rules of a batch")
def other_tools_of_the_response_run_before_the_pause(make):
    """team:HND-05"""

    def expect(outcome):
        assert make.stage.notes == ["noted", "member"]
        assert outcome.tool_results()[1] == "written down"
        assert outcome.text == "done"

    def member(request):
        make.stage.note("member")
        return "ok"

    note = tool("note", "Note.", {"type": "object"}, lambda value: make.stage.note("noted") or "written down")
    lead = spec("lead", [turn(handoff("a"), tool_use("note", {})), "done"], tools=[note])
    return Scenario(make(lead, {"a": member}), expect)


@scenario("rules of a batch")
def the_pause_wins_over_a_tool_that_ends_the_turn(make):
    """The tool's output stays in the conversation. team:W-33 team:HND-07"""
    finish = tool("finish", "Finish.", {"type": "object"}, lambda value: {"content": "over", "end_turn": True})

    def lead(request):
        if not is_resumed(request):
            return turn(handoff("a"), tool_use("finish", {}))
        blocks = [block for m in request.messages[1:3] for block in m["content"] if block["type"] == "tool_result"]
        return str(blocks[1]["content"])

    return Scenario(make(spec("lead", lead, tools=[finish]), {"a": echo("a")}), text_of("over"))


@scenario("rules of a batch")
def the_turn_limit_does_not_count_against_a_pause(make):
    """team:HND-08"""
    lead = spec("lead", [turn(handoff("a")), "in time"], max_turns=1)
    return Scenario(make(lead, {"a": echo("a")}), text_of("in time"))


@scenario("rules of a batch")
def a_refused_handoff_does_not_pause(make):
    """team:HND-09"""

    def expect(outcome):
        assert outcome.text.startswith("Tool a failed:")
        assert outcome.mail["a"] == []

    return Scenario(make([turn(handoff("a", mode="shout")), first_result], {"a": echo("a")}), expect)
