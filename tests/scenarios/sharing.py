"""Several runs of one team, and two teams on one Redis: what they share, and what they do not."""

import asyncio

from lattice.testing import tool_use
from tests.contracts.backends import TEAM
from tests.scenarios.description import Scenario, first_result, is_resumed, never_answers, scenario
from tests.teams import ask, echo, handoff, results, said, spec


def passes_on(request):
    """A lead that hands its task to ``a`` and says what it is told."""
    return said(request) if is_resumed(request) else handoff("a", said(request))


@scenario("several runs")
def two_runs_one_after_another(make):
    async def play(world):
        assert (await world.run(team, "one")).text.endswith("a did one")
        second = await world.run(team, "two")
        assert second.text.endswith("a did two")
        assert [m.content for m in second.mail["a"]] == ["one", "two"]
        assert [str(r.status) for r in second.reports] == ["read", "read"]

    team = make(spec("lead", passes_on), {"a": echo("a")})
    return Scenario(team, play=play)


@scenario("several runs")
def five_runs_at_once(make):
    async def play(world):
        outcomes = await asyncio.gather(*(world.run(team, f"task {n}") for n in range(5)))
        for number, outcome in enumerate(outcomes):
            assert outcome.text.endswith(f"a did task {number}")
            assert outcome.text.count(" did ") == 1
        assert max((await world.mail(team))["a"], key=lambda m: m.content).content == "task 4"
        assert [str(m.status) for m in (await world.mail(team))["a"]] == ["done"] * 5

    team = make(spec("lead", passes_on), {"a": echo("a")})
    return Scenario(team, play=play)


@scenario("several runs")
def a_run_goes_on_when_another_is_aborted(make):
    async def play(world):
        aborted, other = await asyncio.gather(
            world.run(team, "hang", abort_on="hanging"), world.run(team, "wait for the other")
        )
        assert (aborted.status, other.status) == ("cancelled", "succeeded")
        assert other.text.endswith("went on")

    async def member(request):
        if said(request).endswith("hang"):
            make.stage.note("hanging")
            try:
                return await never_answers(request)
            finally:
                make.stage.note("aborted")
        await make.stage.reached("aborted")
        return "went on"

    team = make(spec("lead", passes_on), {"a": member}, runner={"max_concurrent_work_items": 2})
    return Scenario(team, play=play)


@scenario("several runs")
def a_failed_run_and_one_after_it(make):
    async def play(world):
        failed = await world.run(team, "break")
        assert (failed.status, failed.statuses("a")) == ("failed", [])
        assert (await world.run(team, "work")).text.endswith("a did work")

    def lead(request):
        if said(request) == "break":
            raise RuntimeError("the lead broke")
        return passes_on(request)

    team = make(spec("lead", lead), {"a": echo("a")})
    return Scenario(team, play=play)


def _two_teams(make, name="other", **members):
    one = make(spec("lead", passes_on), {"a": members.get("one", echo("a"))})
    other = make(spec("lead", passes_on), {"a": members.get("other", echo("the other a"))}, name=name)
    return one, other


@scenario("two teams")
def two_teams_with_members_of_the_same_names(make):
    async def play(world):
        first, second = await asyncio.gather(world.run(one, "work"), world.run(other, "work"))
        assert first.text.endswith("\na did work")
        assert second.text.endswith("the other a did work")
        assert [m.to for m in first.mail["a"]] == [f"{TEAM}::a"]
        assert [m.to for m in second.mail["a"]] == ["other::a"]
        assert [len(outcome.mail["manager"]) for outcome in (first, second)] == [1, 1]

    one, other = _two_teams(make)
    return Scenario(one, play=play, others=(other,))


@scenario("two teams")
def an_abort_in_one_of_two_teams(make):
    async def play(world):
        first, second = await asyncio.gather(world.run(one, "x", abort_on="hanging"), world.run(other, "work"))
        assert (first.status, first.statuses("a")) == ("cancelled", ["cancelled"])
        assert (second.status, second.statuses("a")) == ("succeeded", ["done"])

    async def hangs(request):
        make.stage.note("hanging")
        try:
            return await never_answers(request)
        finally:
            make.stage.note("aborted")

    async def waits(request):
        await make.stage.reached("aborted")
        return "went on"

    one, other = _two_teams(make, one=hangs, other=waits)
    return Scenario(one, play=play, others=(other,))


@scenario("two teams")
def mail_of_one_of_two_teams(make):
    async def play(world):
        await world.send(one, "manager", "a", "work")
        await world.drain(one)
        await world.drain(other)
        assert [len(box) for box in (await world.mail(one)).values()] == [1, 1]
        assert [len(box) for box in (await world.mail(other)).values()] == [0, 0]

    one, other = _two_teams(make)
    return Scenario(one, play=play, others=(other,))


@scenario("two teams")
def a_member_of_another_team_cannot_be_written_to(make):
    """Its mailbox id is none of this team's recipients, though both are on one Redis."""

    async def play(world):
        outcome = await world.run(one)
        assert "recipients are manager, a" in outcome.text
        assert (await world.mail(other))["a"] == []

    member = [tool_use("team_send", {"to": "other::a", "content": "psst"}), first_result]
    one = make([handoff("a"), said], {"a": member})
    other = make(spec("lead", passes_on), {"a": echo("a")}, name="other")
    return Scenario(one, play=play, others=(other,))


@scenario("two teams")
def one_agent_in_two_teams(make):
    async def play(world):
        first, second = await asyncio.gather(world.run(one, "1"), world.run(other, "2"))
        assert (first.text, second.text) == ("shared did 1", "shared did 2")

    shared = spec("shared", echo("shared"))

    def lead(request):
        return results(request)[0] if results(request) else ask("a", said(request))

    one = make(spec("lead", lead), {"a": shared})
    other = make(spec("lead", lead), {"a": shared}, name="other")
    return Scenario(one, play=play, others=(other,))
