"""Scenarios from one description: a team, and what must come of its run, wherever it runs.

``team`` is an app for the real commands; LATTICE_TEST_SCENARIO names the scenario. So the models are functions of what
they are sent, and nothing is shared between the agents but what the team carries.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from lattice import agent_tool, team_member
from lattice.errors import APIError
from lattice.testing import tool_use, turn
from tests.contracts.backends import TEAM
from tests.teams import ask, echo, handoff, results, said, spec, team_of

USAGE = {"input_tokens": 10, "output_tokens": 1}


@dataclass(frozen=True)
class Scenario:
    """``expect`` checks an ``Outcome``; ``abort_at`` is the event at which the run is aborted, in short."""

    team: Any
    expect: Callable[[Any], None]
    abort_at: str | None = None
    permissions: dict[str, Any] | None = None


SCENARIOS: dict[str, Callable[[Callable[..., Any]], Scenario]] = {}


def scenario(describe):
    SCENARIOS[describe.__name__] = describe
    return describe


def over_processes(name):
    """The scenario as the processes of its team know it."""
    return SCENARIOS[name](lambda lead, members=(), **options: team_of(lead, dict(members), name=TEAM, **options))


def team():
    """The team of the scenario that the environment names."""
    return over_processes(os.environ["LATTICE_TEST_SCENARIO"]).team


class Verdict(BaseModel):
    ok: bool


def message_id(request):
    return said(request).split("message_id: ")[1].splitlines()[0]


def first_result(request):
    return results(request)[0]


def user_event(outcome):
    return next(event for event in outcome.events if event["type"] == "user")


@scenario
def one_handoff(make):
    def expect(outcome):
        assert outcome.status == "succeeded"
        assert outcome.text.endswith("a did count")
        assert outcome.statuses("a") == ["done"]
        assert [r.status for r in outcome.reports] == ["read"]
        receipt = json.loads(user_event(outcome)["tool_use_result"])
        assert receipt["message_id"] == receipt["work_item_id"] == receipt["thread_id"] == outcome.mail["a"][0].id
        assert (receipt["status"], receipt["to"]) == ("accepted", f"{TEAM}::a")

    return Scenario(make([turn(handoff("a", "count")), said], {"a": echo("a")}), expect)


@scenario
def the_whole_story(make):
    def expect(outcome):
        assert outcome.briefs == [
            "system",
            "assistant",
            f"sent {TEAM}::a",
            "user",
            "lead:result",
            f"claimed {TEAM}::a",
            "started a",
            "a:system",
            "a:assistant",
            "a:result",
            "finished a",
            f"done {TEAM}::a",
            "replied manager",
            "system",
            "assistant",
            "result",
        ]

    return Scenario(make([handoff("a"), "done"], {"a": echo("a")}), expect)


@scenario
def two_members_and_reports_in_order(make):
    def expect(outcome):
        assert outcome.text.index("b did second") < outcome.text.index("a did first")
        assert [r.content for r in outcome.reports if r.from_ == f"{TEAM}::a"] == ["a did first"]
        assert (outcome.statuses("a"), outcome.statuses("b")) == (["done"], ["done"])

    lead = [turn(handoff("b", "second"), handoff("a", "first")), said]
    return Scenario(make(lead, {"a": echo("a"), "b": echo("b")}, runner={"max_concurrent_work_items": 2}), expect)


@scenario
def one_mailbox_in_order(make):
    def expect(outcome):
        assert [m.content for m in outcome.mail["a"]] == ["one", "two", "three"]
        assert [r.content for r in outcome.reports] == ["1: a did one", "2: a did two", "3: a did three"]

    def member(request):
        answers = sum(message["role"] == "assistant" for message in request.messages)
        return f"{answers + 1}: {echo('a')(request)}"

    agent = spec("a", member)
    lead = [turn(handoff("a", "one"), handoff("a", "two"), handoff("a", "three")), said]
    # A conversation for ever: the turns that it counts show the order in which the work was done.
    members = {"a": team_member(name="a", agent=agent.spawn(), conversation="member")}
    return Scenario(make(lead, members, runner={"max_concurrent_work_items": 3}), expect)


@scenario
def a_question_beside_a_handoff_to_the_same_member(make):
    def expect(outcome):
        assert user_event(outcome)["tool_use_result"][1]["content"] == "a did second"
        assert outcome.text.endswith("a did first")

    return Scenario(make([turn(handoff("a", "first"), ask("a", "second")), said], {"a": echo("a")}), expect)


@scenario
def a_failure_beside_a_success(make):
    def expect(outcome):
        assert outcome.status == "succeeded"
        assert "Delegated work assigned to bad failed.\nError code: api_error\nReason: down" in outcome.text
        assert outcome.text.endswith("good did work")
        assert (outcome.statuses("bad"), outcome.statuses("good")) == (["failed"], ["done"])
        assert f"failed {TEAM}::bad" in outcome.briefs
        (failed,) = [report for report in outcome.reports if report.metadata]
        assert failed.metadata["error"] == {"code": "api_error", "message": "down", "name": "APIError"}

    lead = [turn(handoff("bad"), handoff("good")), said]
    return Scenario(make(lead, {"bad": [APIError("down")], "good": echo("good")}), expect)


@scenario
def a_failed_question(make):
    def expect(outcome):
        assert outcome.text.startswith("Tool a failed: Delegated work assigned to a failed.")
        assert user_event(outcome)["message"]["content"][0]["is_error"] is True
        assert outcome.statuses("a") == ["failed"]

    return Scenario(make([ask("a"), first_result], {"a": [APIError("down")]}), expect)


@scenario
def three_rounds(make):
    def expect(outcome):
        assert outcome.text == "three rounds"
        assert [m.content for m in outcome.mail["a"]] == ["round 0", "round 1", "round 2"]
        assert outcome.briefs.count("system") == 4

    def lead(request):
        rounds = sum("Team runtime update" in str(m["content"]) for m in request.messages)
        return turn(handoff("a", f"round {rounds}")) if rounds < 3 else "three rounds"

    return Scenario(make(lead, {"a": echo("a")}), expect)


@scenario
def a_member_that_hands_off_itself(make):
    def expect(outcome):
        assert f"mailbox: {TEAM}::middle" in outcome.text
        assert outcome.text.index("helper did x") < outcome.text.index("helper did y")

    tools = [agent_tool("helper", spec("helper", echo("helper")))]
    middle = spec("middle", [turn(handoff("helper", "x"), handoff("helper", "y")), said], tools=tools)
    return Scenario(make([handoff("middle"), said], {"middle": middle}), expect)


@scenario
def teams_three_deep(make):
    def expect(outcome):
        assert outcome.text.endswith("d did question")
        assert "sent b::c" in outcome.briefs
        assert outcome.statuses("b") == ["done"]

    innermost = team_of([ask("d"), first_result], {"d": echo("d")}, name="c")
    middle = team_of([handoff("c"), said], {"c": innermost}, name="b")
    return Scenario(make([handoff("b"), said], {"b": middle}), expect)


@scenario
def a_reply_by_tool_after_progress(make):
    def expect(outcome):
        assert outcome.text.endswith("the reply")
        assert [r.content for r in outcome.reports] == ["the reply"]
        assert [m.content for m in outcome.mail["manager"] if m.work_item_role == "followup"] == ["half way"]

    def member(request):
        calls = sum(message["role"] == "assistant" for message in request.messages)
        if calls == 2:
            return "closing words"
        mine = str(request.messages[0]["content"]).split("message_id: ")[1].split()[0]
        name, content = (("team_followup", "half way"), ("team_reply", "the reply"))[calls]
        return tool_use(name, {"message_id": mine, "content": content})

    return Scenario(make([handoff("a"), said], {"a": member}), expect)


@scenario
def typed_delegation_and_structured_output(make):
    def expect(outcome):
        assert json.loads(outcome.text) == {"ok": True}

    judge = spec(
        "judge", lambda request: tool_use("submit_output", {"ok": "ok is True" in said(request)}), output_schema=Verdict
    )
    tool = agent_tool("judge", judge, input_schema=Verdict, map_input=lambda value: f"ok is {value.ok}")
    return Scenario(make(spec("lead", [tool_use("judge", {"ok": True}), first_result], tools=[tool])), expect)


@scenario
def the_tokens_of_everybody(make):
    def expect(outcome):
        assert outcome.usage == {"input_tokens": 40, "output_tokens": 4}

    members = {"a": [turn("y", usage=USAGE)], "b": [turn("z", usage=USAGE)]}
    return Scenario(make([turn(handoff("a"), ask("b"), usage=USAGE), turn("x", usage=USAGE)], members), expect)


@scenario
def a_grant_for_one_of_two(make):
    root = "/srv/lattice-scenario"

    def expect(outcome):
        assert f"a sees {root}/x" in outcome.text
        assert outcome.text.endswith("b sees nothing")

    def member(name):
        def reply(request):
            _, found, rest = said(request).partition("- grant 1: ")
            return f"{name} sees {rest.splitlines()[0] if found else 'nothing'}"

        return reply

    lead = [turn(handoff("a", workspaceGrants=[{"root": f"{root}/x"}]), handoff("b")), said]
    own = {"workspace_grants": [{"root": root}]}
    return Scenario(make(lead, {"a": member("a"), "b": member("b")}), expect, permissions=own)


@scenario
def an_abort_while_members_work(make):
    def expect(outcome):
        assert outcome.status == "cancelled"
        assert set(outcome.statuses("a")) == {"cancelled"}
        assert outcome.reports == []

    async def member(request):
        await request.signal.wait()

    lead = [turn(handoff("a"), handoff("a"), handoff("a")), "never"]
    return Scenario(make(lead, {"a": member}, runner={"max_concurrent_work_items": 1}), expect, abort_at="started a")
