"""Handing work off: receipts, rounds, order, and how many members work at once."""

import json

from lattice import agent_tool, team_member
from lattice.testing import turn
from tests.contracts.backends import TEAM
from tests.scenarios.description import Scenario, first_result, is_resumed, rounds_of, scenario
from tests.teams import ask, echo, handoff, said, spec, task_of


def worker(stage, name, *, meets=()):
    """A member that notes that it works, once it has met those that are to be at work with it."""

    async def reply(request):
        with stage.at_work(name):
            await stage.reached(*(f"begin {other}" for other in meets))
            return f"{name} did {task_of(request)}"

    return reply


@scenario("serial")
def just_an_answer(make):
    def expect(outcome):
        assert (outcome.status, outcome.text) == ("succeeded", "just an answer")
        assert outcome.briefs == ["system", "assistant", "result"]
        assert outcome.mail == {"manager": [], "a": []}

    return Scenario(make(["just an answer"], {"a": echo("a")}), expect)


@scenario("serial")
def a_team_without_members(make):
    def expect(outcome):
        assert outcome.text == "alone"

    return Scenario(make(["alone"]), expect)


@scenario("serial")
def content_blocks_as_the_task(make):
    """team:RUN-23"""

    def expect(outcome):
        assert outcome.text == "in blocks"

    lead = [lambda request: request.messages[0]["content"][0]["text"]]
    return Scenario(make(lead), expect, task=[{"type": "text", "text": "in blocks"}])


@scenario("serial")
def one_handoff(make):
    def expect(outcome):
        assert outcome.status == "succeeded"
        assert outcome.text.endswith("a did count")
        assert outcome.statuses("a") == ["done"]
        assert [r.status for r in outcome.reports] == ["read"]
        (receipt,) = map(json.loads, outcome.tool_results())
        assert receipt["message_id"] == receipt["work_item_id"] == receipt["thread_id"] == outcome.mail["a"][0].id
        assert (receipt["status"], receipt["to"]) == ("accepted", f"{TEAM}::a")

    return Scenario(make([turn(handoff("a", "count")), said], {"a": echo("a")}), expect)


@scenario("serial")
def the_whole_story(make):
    """team:EVT-09"""

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


@scenario("serial")
def the_lead_is_not_asked_while_members_work(make):
    def expect(outcome):
        assert outcome.text == "done"
        assert make.stage.notes[0] == make.stage.notes[-1] == "lead"
        assert make.stage.count("lead") == 2
        assert sorted(make.stage.notes[1:-1]) == ["begin a", "begin b", "end a", "end b"]

    def lead(request):
        make.stage.note("lead")
        return "done" if is_resumed(request) else turn(handoff("a"), handoff("b"))

    return Scenario(make(lead, {name: worker(make.stage, name) for name in "ab"}), expect)


@scenario("serial")
def one_at_a_time(make):
    def expect(outcome):
        assert make.stage.most_at_once == 1
        assert [note for note in make.stage.notes if note.startswith("begin")] == ["begin a", "begin b", "begin c"]

    members = {name: worker(make.stage, name) for name in "abc"}
    return Scenario(make([turn(*map(handoff, "abc")), "x"], members, runner={"max_concurrent_work_items": 1}), expect)


@scenario("bounded")
def two_at_a_time(make):
    def expect(outcome):
        assert make.stage.most_at_once == 2
        assert sorted(make.stage.notes) == sorted(f"{word} {name}" for word in ("begin", "end") for name in "abcd")
        assert len(outcome.reports) == 4

    # The first two meet, and so do the others: two work at once at some time, and nobody sees three.
    meetings = {"a": "b", "b": "a", "c": "d", "d": "c"}
    members = {name: worker(make.stage, name, meets=other) for name, other in meetings.items()}
    return Scenario(make([turn(*map(handoff, "abcd")), "x"], members, runner={"max_concurrent_work_items": 2}), expect)


@scenario("bounded")
def a_bound_for_handoffs_to_one_template(make):
    """A place is given to the next work item as soon as one has ended."""

    def expect(outcome):
        assert make.stage.most_at_once <= 2
        assert make.stage.count("end a") == make.stage.count("end b") == 3
        assert [m.content for m in outcome.mail["a"]] == ["1", "3", "5"]
        assert [r.content for r in outcome.reports if r.from_ == f"{TEAM}::b"] == ["b did 2", "b did 4", "b did 6"]

    lead = [turn(*(handoff("ab"[n % 2 == 0], str(n)) for n in range(1, 7))), "x"]
    members = {name: worker(make.stage, name) for name in "ab"}
    return Scenario(make(lead, members, runner={"max_concurrent_work_items": 2}), expect, concurrency=1)


def _bound_inside_a_member(make, limit):
    def expect(outcome):
        assert outcome.text.endswith("all done")
        assert make.stage.most_at_once == limit

    meets = {"x": "y", "y": "x"} if limit == 2 else {}
    tools = [agent_tool(name, spec(name, worker(make.stage, name, meets=meets.get(name, "")))) for name in "xyz"]
    middle = spec("middle", [turn(*map(handoff, "xyz")), "all done"], tools=tools)
    team = make([handoff("middle"), said], {"middle": middle}, runner={"max_concurrent_work_items": limit})
    return Scenario(team, expect)


@scenario("bounded")
def a_bound_of_one_for_what_a_member_hands_off(make):
    """team:CON-05"""
    return _bound_inside_a_member(make, 1)


@scenario("bounded")
def a_bound_of_two_for_what_a_member_hands_off(make):
    """team:CON-05"""
    return _bound_inside_a_member(make, 2)


@scenario("all at once")
def three_members_that_meet(make):
    def expect(outcome):
        assert make.stage.most_at_once == 3
        assert sorted(r.content for r in outcome.reports) == ["a did work", "b did work", "c did work"]

    members = {name: worker(make.stage, name, meets="abc") for name in "abc"}
    return Scenario(make([turn(*map(handoff, "abc")), "x"], members, runner={"max_concurrent_work_items": 3}), expect)


@scenario("all at once")
def two_members_and_reports_in_order(make):
    """team:HND-12"""

    def expect(outcome):
        assert outcome.text.index("b did second") < outcome.text.index("a did first")
        assert [r.content for r in outcome.reports if r.from_ == f"{TEAM}::a"] == ["a did first"]
        assert (outcome.statuses("a"), outcome.statuses("b")) == (["done"], ["done"])

    lead = [turn(handoff("b", "second"), handoff("a", "first")), said]
    return Scenario(make(lead, {"a": echo("a"), "b": echo("b")}, runner={"max_concurrent_work_items": 2}), expect)


@scenario("all at once")
def whoever_was_handed_work_first_is_reported_first(make):
    """team:HND-12"""

    def expect(outcome):
        assert make.stage.notes == ["fast", "slow"]
        assert outcome.text.index("the slow one") < outcome.text.index("the fast one")

    async def slow(request):
        await make.stage.reached("fast")
        make.stage.note("slow")
        return "the slow one"

    def fast(request):
        make.stage.note("fast")
        return "the fast one"

    lead = [turn(handoff("slow"), handoff("fast")), said]
    return Scenario(make(lead, {"slow": slow, "fast": fast}, runner={"max_concurrent_work_items": 2}), expect)


@scenario("one mailbox")
def one_mailbox_in_order(make):
    def expect(outcome):
        assert [m.content for m in outcome.mail["a"]] == ["one", "two", "three"]
        assert [r.content for r in outcome.reports] == ["1: a did one", "2: a did two", "3: a did three"]

    agent = spec("a", lambda request: f"{rounds_of(request) + 1}: {echo('a')(request)}")
    lead = [turn(handoff("a", "one"), handoff("a", "two"), handoff("a", "three")), said]
    # A conversation for ever: the turns that it counts show the order in which the work was done.
    members = {"a": team_member(name="a", agent=agent.spawn(), conversation="member")}
    return Scenario(make(lead, members, runner={"max_concurrent_work_items": 3}), expect)


@scenario("one mailbox")
def one_place_works_a_mailbox_one_after_another(make):
    def expect(outcome):
        assert make.stage.most_at_once == 1
        assert [m.content for m in outcome.mail["a"]] == ["one", "two", "three"]
        assert [r.content for r in outcome.reports] == ["a did one", "a did two", "a did three"]

    lead = [turn(handoff("a", "one"), handoff("a", "two"), handoff("a", "three")), said]
    members = {"a": worker(make.stage, "a")}
    return Scenario(make(lead, members, runner={"max_concurrent_work_items": 3}), expect, concurrency=1)


def _lengths(request):
    return str(len(request.messages))


@scenario("one mailbox")
def templates_forget_between_work_items(make):
    def expect(outcome):
        assert [r.content for r in outcome.reports] == ["1", "1"]

    return Scenario(make([turn(handoff("a"), handoff("a")), "x"], {"a": _lengths}), expect)


@scenario("one mailbox")
def live_agents_remember_within_a_run(make):
    def expect(outcome):
        assert [r.content for r in outcome.reports] == ["1", "3"]

    return Scenario(make([turn(handoff("a"), handoff("a")), "x"], {"a": spec("a", _lengths).spawn()}), expect)


@scenario("one mailbox")
def one_agent_under_two_names(make):
    def expect(outcome):
        assert outcome.text.index("shared did 1") < outcome.text.index("shared did 2")
        assert (outcome.statuses("x"), outcome.statuses("y")) == (["done"], ["done"])

    shared = spec("shared", echo("shared"))
    members = {name: team_member(name=name, role="executor", agent=shared) for name in ("x", "y")}
    return Scenario(make([turn(handoff("x", "1"), handoff("y", "2")), said], members), expect)


@scenario("ask beside handoff")
def a_question_beside_a_handoff_to_the_same_member(make):
    def expect(outcome):
        assert outcome.tool_results()[1] == "a did second"
        assert outcome.text.endswith("a did first")

    return Scenario(make([turn(handoff("a", "first"), ask("a", "second")), said], {"a": echo("a")}), expect)


@scenario("ask beside handoff")
def two_questions_around_a_handoff_to_one_member(make):
    def expect(outcome):
        first, receipt, third = outcome.tool_results()
        assert (first, third) == ("a did first", "a did third")
        assert json.loads(receipt)["status"] == "accepted"
        assert outcome.text.endswith("a did second")
        assert sorted(m.content for m in outcome.mail["a"]) == ["first", "second", "third"]
        assert outcome.statuses("a") == ["done"] * 3

    calls = ask("a", "first"), handoff("a", "second"), ask("a", "third")
    return Scenario(make([turn(*calls), said], {"a": echo("a")}), expect)


@scenario("ask beside handoff")
def a_question_to_a_live_agent_beside_a_handoff_to_it(make):
    """Both are one conversation: whoever comes second finds what was said before."""

    def expect(outcome):
        assert outcome.status == "succeeded"
        assert sorted([outcome.tool_results()[1], outcome.reports[-1].content]) == ["1", "3"]

    lead = [turn(handoff("a"), ask("a")), "x"]
    return Scenario(make(lead, {"a": spec("a", _lengths).spawn()}), expect)


@scenario("ask beside handoff")
def a_question_about_what_was_handed_off(make):
    def expect(outcome):
        assert outcome.text == "a did question"
        assert [m.content for m in outcome.mail["a"]] == ["work", "question"]

    def lead(request):
        return ask("a") if is_resumed(request) else handoff("a")

    return Scenario(make([lead, lead, first_result], {"a": echo("a")}), expect)
