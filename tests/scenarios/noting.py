"""Notes to those at work: shown at the next boundary between tools and model, once; an urgent one breaks a call off."""

import asyncio
import json

from lattice import team_member, tool
from lattice.testing import tool_use, turn
from tests.contracts.backends import TEAM
from tests.scenarios.description import Scenario, answers, is_resumed, rounds_of, scenario
from tests.teams import handoff, results, said, spec


def report_of(outcome, member):
    (report,) = [report for report in outcome.reports if report.from_ == f"{TEAM}::{member}"]
    return report.content


def _a_note_while_at_work(make, expect, *, urgency=None, to="worker"):
    """A worker in the middle of a tool call, a colleague that writes to somebody, and what the worker's model sees then."""

    async def look(value, context):
        make.stage.note("looking")
        await make.stage.reached("written")
        make.stage.note("told to stop" if context.signal.aborted else "not told to stop")
        return "seen"

    async def colleague(request):
        await make.stage.reached("looking")
        if results(request):
            make.stage.note("written")
            return "told"
        note = {"to": to, "content": "the API has changed"}
        return tool_use("team_send", note if urgency is None else {**note, "urgency": urgency})

    def work(request):
        return json.dumps(request.messages[-1]["content"]) if results(request) else tool_use("look", {})

    worker = spec("worker", work, tools=[tool("look", "Look.", {"type": "object"}, look)])
    # One conversation for ever: no second session of the worker can take the note instead of the one at work.
    members = {
        "worker": team_member(name="worker", role="executor", agent=worker, conversation="member"),
        "colleague": colleague,
    }
    lead = [turn(handoff("worker"), handoff("colleague")), "end"]
    team = make(lead, members, runner={"max_concurrent_work_items": 2})

    def check(outcome):
        assert outcome.status == "succeeded"
        expect(outcome, json.loads(report_of(outcome, "worker")))

    return Scenario(team, check)


@scenario("notes")
def a_note_reaches_a_working_member_after_its_tool_results(make):
    def expect(outcome, shown):
        result, note = shown
        assert (result["type"], note["type"]) == ("tool_result", "text")
        assert result["content"] == "seen"
        assert note["text"].startswith("--- new mail ---\nid: ")
        assert f"from: {TEAM}::colleague\nurgency: note\n" in note["text"]
        assert note["text"].endswith("the API has changed")
        assert [str(m.status) for m in outcome.mail["worker"] if m.metadata] == ["read"]

    return _a_note_while_at_work(make, expect)


@scenario("notes")
def an_urgent_note_says_so(make):
    def expect(outcome, shown):
        assert "urgency: interrupt\nStop what you are doing and deal with this first." in shown[1]["text"]

    return _a_note_while_at_work(make, expect, urgency="interrupt")


@scenario("notes")
def a_note_to_somebody_else_is_not_shown(make):
    def expect(outcome, shown):
        assert [block["type"] for block in shown] == ["tool_result"]
        assert [m.content for m in outcome.mail["manager"] if m.metadata] == ["the API has changed"]

    return _a_note_while_at_work(make, expect, to="manager")


@scenario("notes")
def a_note_is_shown_once(make):
    """Also over several turns of the same work."""

    def expect(outcome):
        (report,) = outcome.reports
        assert report.content == "1"
        assert [str(m.status) for m in outcome.mail["a"]] == ["done", "read"]

    def member(request):
        if rounds_of(request) < 3:
            word = {"to": "a", "content": "remember the API"} if rounds_of(request) == 0 else None
            return tool_use("team_status", {}) if word is None else tool_use("team_send", word)
        told = [b for m in request.messages for b in m["content"] if isinstance(b, dict) and b["type"] == "text"]
        return str(sum(block["text"].count("remember the API") for block in told if "new mail" in block["text"]))

    members = {"a": team_member(name="a", role="executor", agent=spec("a", member), conversation="member")}
    return Scenario(make([handoff("a"), "end"], members), expect)


@scenario("notes")
def an_interrupt_during_tools_lets_them_end(make):
    def expect(outcome, shown):
        assert shown[0]["content"] == "seen"
        assert shown[1]["text"].endswith("the API has changed")
        assert make.stage.notes == ["looking", "written", "not told to stop"]

    return _a_note_while_at_work(make, expect, urgency="interrupt")


def _a_note_while_thinking(make, expect, *, urgency, **options):
    """A worker whose first model call takes until it was written to, or broken off; then it says what it was sent.

    What it is not shown while it works is mail for whoever works next at its mailbox.
    """

    async def think(request):
        if "new mail" in said(request):
            roles = [message["role"] for message in request.messages]
            return json.dumps({"roles": roles, "task": request.messages[0]["content"], "said": said(request)})
        if "waiting in your team mailbox" in str(request.messages[0]["content"]):
            return "x" if results(request) else answers("team_reply", request, "noted")
        make.stage.note("thinking")
        try:
            await make.stage.reached("written")
            if urgency == "interrupt":
                await request.signal.wait()
        finally:
            make.stage.note("broken off" if request.signal.aborted else "thought to the end")
        return "the long thought"

    async def colleague(request):
        await make.stage.reached("thinking")
        if results(request):
            make.stage.note("written")
            return "told"
        return tool_use("team_send", {"to": "worker", "content": "the API has changed", "urgency": urgency})

    lead = [turn(handoff("worker", "think"), handoff("colleague")), "end"]
    members = {"worker": spec("worker", think, **options), "colleague": colleague}
    return Scenario(make(lead, members, runner={"max_concurrent_work_items": 2}), expect)


def _dealt_with(make):
    def expect(outcome):
        assert outcome.status == "succeeded"
        assert sorted(make.stage.notes) == ["broken off", "thinking", "written"]
        second = json.loads(report_of(outcome, "worker"))
        assert second["roles"] == ["user", "user"]
        assert second["task"].endswith("think")
        assert "urgency: interrupt\n" in second["said"]
        assert second["said"].endswith("the API has changed")
        assert [str(m.status) for m in outcome.mail["worker"] if m.metadata] == ["read"]

    return expect


@scenario("notes")
def an_interrupt_breaks_the_model_call_off(make):
    return _a_note_while_thinking(make, _dealt_with(make), urgency="interrupt")


@scenario("notes")
def a_broken_off_call_is_no_turn(make):
    return _a_note_while_thinking(make, _dealt_with(make), urgency="interrupt", max_turns=1)


@scenario("notes")
def a_steering_note_waits_for_the_end_of_the_model_call(make):
    def expect(outcome):
        assert make.stage.notes == ["thinking", "written", "thought to the end"]
        assert report_of(outcome, "worker") == "the long thought"

    return _a_note_while_thinking(make, expect, urgency="steer")


@scenario("notes")
def an_interrupt_to_the_lead_breaks_its_call_off(make):
    async def play(world):
        running = asyncio.create_task(world.run(team))
        await make.stage.reached("resumed")
        metadata = {"urgency": "interrupt"}
        await world.send(team, f"{TEAM}::a", "manager", "stop", metadata=metadata, run_id=world.run_id)
        outcome = await running
        assert outcome.text == "heard you"
        assert [str(m.status) for m in outcome.mail["manager"] if m.metadata] == ["read"]

    async def lead(request):
        if not is_resumed(request):
            return handoff("a")
        if "new mail" in said(request):
            return "heard you"
        make.stage.note("resumed")
        await request.signal.wait()

    team = make(lead, {"a": ["done"]})
    return Scenario(team, play=play)
