"""An abort in each phase of a run: it ends cancelled, and so does everything that was not over."""

from lattice import agent_tool, tool
from lattice.testing import tool_use, turn
from tests.contracts.backends import TEAM
from tests.scenarios.description import Scenario, is_resumed, never_answers, scenario
from tests.teams import ask, echo, handoff, said, spec, team_of


def cancelled(**statuses):
    """An expectation: the run is cancelled and each member's mail is as said, with no report of what was cut off."""

    def expect(outcome):
        assert (outcome.status, outcome.text) == ("cancelled", "")
        assert {name: outcome.statuses(name) for name in statuses} == statuses
        assert len(outcome.reports) == sum(found.count("done") for found in statuses.values())
        assert "result" not in outcome.briefs

    return expect


def hangs(stage, note):
    """A model that never answers, once it has said so on the stage."""

    async def reply(request):
        stage.note(note)
        return await never_answers(request)

    return reply


def stops(stage):
    """A model that never answers, and notes that it was broken off."""

    async def reply(request):
        stage.note("asked")
        try:
            return await never_answers(request)
        finally:
            stage.note("told to stop")

    return reply


def hanging_tool(stage):
    """A tool that never returns, and notes that it was told to."""

    async def hang(value, context):
        stage.note("in the tool")
        await context.signal.wait()
        stage.note("told to stop")
        return "stopped"

    return tool("hang", "Hang.", {"type": "object"}, hang)


@scenario("abort")
def an_abort_of_a_queued_run(make):
    def expect(outcome):
        cancelled(a=[])(outcome)
        assert make.stage.notes == []

    def lead(request):
        make.stage.note("lead")
        return handoff("a")

    return Scenario(make(lead, {"a": echo("a")}), expect, abort_first=True)


@scenario("abort")
def an_abort_while_the_lead_is_asked(make):
    return Scenario(make(hangs(make.stage, "asked"), {"a": echo("a")}), cancelled(a=[]), abort_on="asked")


@scenario("abort")
def an_abort_in_a_tool_of_the_lead(make):
    async def play(world):
        cancelled(a=[])(await world.run(team, abort_on="in the tool"))
        await make.stage.reached("told to stop")

    team = make(spec("lead", [tool_use("hang", {})], tools=[hanging_tool(make.stage)]), {"a": echo("a")})
    return Scenario(team, play=play)


@scenario("abort")
def an_abort_while_work_is_queued(make):
    """team:ABRT-07"""
    lead = [turn(handoff("a"), handoff("a"), handoff("a")), "never"]
    team = make(lead, {"a": never_answers}, runner={"max_concurrent_work_items": 1})
    return Scenario(team, cancelled(a=["cancelled"] * 3), abort_at="started a")


@scenario("abort")
def an_abort_when_work_was_claimed(make):
    team = make([handoff("a"), "never"], {"a": never_answers})
    return Scenario(team, cancelled(a=["cancelled"]), abort_at=f"claimed {TEAM}::a")


@scenario("abort")
def an_abort_while_a_member_is_asked(make):
    """The model call is told, and the lead is not asked again."""

    async def play(world):
        cancelled(a=["cancelled"])(await world.run(team, abort_on="asked"))
        await make.stage.reached("told to stop")
        assert make.stage.notes == ["lead", "asked", "told to stop"]

    member = stops(make.stage)

    def lead(request):
        make.stage.note("lead")
        return handoff("a")

    team = make(lead, {"a": member})
    return Scenario(team, play=play)


@scenario("abort")
def an_abort_in_a_tool_of_a_member(make):
    async def play(world):
        cancelled(a=["cancelled"])(await world.run(team, abort_on="in the tool"))
        await make.stage.reached("told to stop")

    member = spec("a", [tool_use("hang", {})], tools=[hanging_tool(make.stage)])
    team = make([handoff("a"), "never"], {"a": member})
    return Scenario(team, play=play)


@scenario("abort")
def an_abort_while_a_question_waits(make):
    team = make([ask("a"), "never"], {"a": hangs(make.stage, "asked")})
    return Scenario(team, cancelled(a=["cancelled"]), abort_on="asked")


@scenario("abort")
def an_abort_while_a_question_and_a_handoff_are_under_way(make):
    def expect(outcome):
        assert outcome.status == "cancelled"
        assert outcome.statuses("b") == ["cancelled"]
        # Over processes the handoffs of a response are accepted together at its end, so this one may not exist yet.
        assert set(outcome.statuses("a")) <= {"cancelled"}
        assert outcome.reports == []

    members = {"a": never_answers, "b": hangs(make.stage, "asked")}
    return Scenario(make([turn(handoff("a"), ask("b")), "never"], members), expect, abort_on="asked")


@scenario("abort")
def an_abort_after_the_first_of_two_reports(make):
    """What was over stays as it is."""
    team = make(
        [turn(handoff("fast"), handoff("slow")), "never"],
        {"fast": echo("fast"), "slow": never_answers},
        runner={"max_concurrent_work_items": 2},
    )
    return Scenario(team, cancelled(fast=["done"], slow=["cancelled"]), abort_at=f"done {TEAM}::fast")


@scenario("abort")
def an_abort_between_the_reports_and_the_next_leg(make):
    async def lead(request):
        return await never_answers(request) if is_resumed(request) else handoff("a")

    return Scenario(make(lead, {"a": echo("a")}), cancelled(a=["done"]), abort_at="replied manager")


@scenario("abort")
def an_abort_when_the_lead_has_been_resumed(make):
    async def lead(request):
        return await hangs(make.stage, "resumed")(request) if is_resumed(request) else handoff("a")

    return Scenario(make(lead, {"a": echo("a")}), cancelled(a=["done"]), abort_on="resumed")


@scenario("abort")
def an_abort_in_the_second_round(make):
    lead = [handoff("a"), handoff("b"), "never"]
    team = make(lead, {"a": echo("a"), "b": hangs(make.stage, "asked")})
    return Scenario(team, cancelled(a=["done"], b=["cancelled"]), abort_on="asked")


@scenario("abort")
def an_abort_while_a_member_waits_for_its_own_handoffs(make):
    async def play(world):
        cancelled(middle=["cancelled"])(await world.run(team, abort_on="asked"))
        await make.stage.reached("told to stop")

    helper = stops(make.stage)
    middle = spec("middle", [handoff("helper"), "never"], tools=[agent_tool("helper", spec("helper", helper))])
    team = make([handoff("middle"), "never"], {"middle": middle})
    return Scenario(team, play=play)


@scenario("abort")
def an_abort_inside_a_team_inside_a_team(make):
    async def play(world):
        cancelled(b=["cancelled"])(await world.run(team, abort_on="in the tool"))
        await make.stage.reached("told to stop")

    member = spec("d", [tool_use("hang", {})], tools=[hanging_tool(make.stage)])
    innermost = team_of([ask("d"), "never"], {"d": member}, name="c")
    inner = team_of([handoff("c"), said], {"c": innermost}, name="b")
    team = make([handoff("b"), said], {"b": inner})
    return Scenario(team, play=play)


@scenario("abort")
def a_run_after_an_aborted_one(make):
    """An abort ends one run; the team and its processes go on."""

    async def play(world):
        first = await world.run(team, "hang", abort_on="asked")
        assert first.status == "cancelled"
        second = await world.run(team, "work")
        assert (second.status, second.text) == ("succeeded", "resumed")
        assert second.statuses("a") == ["cancelled", "done"]

    def lead(request):
        return "resumed" if is_resumed(request) else handoff("a", said(request))

    async def member(request):
        return await hangs(make.stage, "asked")(request) if "hang" in said(request).splitlines()[-1] else "ok"

    team = make(spec("lead", lead), {"a": member})
    return Scenario(team, play=play)
