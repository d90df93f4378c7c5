"""What is not the same in one process and in many, on purpose; docs/differences.md says why."""

from lattice.testing import turn
from tests.scenarios.description import Scenario, is_resumed, scenario
from tests.teams import handoff, said, spec


def _length(request):
    return str(len(request.messages))


@scenario("differing")
def what_a_live_lead_remembers(make):
    """One process goes on with its conversation; over processes each run has one of its own."""

    async def play(world):
        assert (await world.run(team, "one")).text == "1"
        assert (await world.run(team, "two")).text == ("3" if world.is_local else "1")

    team = make(spec("lead", _length).spawn())
    return Scenario(team, play=play)


@scenario("differing")
def what_a_live_member_remembers_of_earlier_runs(make):
    """Over processes nothing leaks from one run into another, unless the member's conversation is said to be for ever."""

    async def play(world):
        assert (await world.run(team)).text.endswith("1")
        assert (await world.run(team)).text.endswith("3" if world.is_local else "1")

    def lead(request):
        return said(request) if is_resumed(request) else handoff("a")

    team = make(spec("lead", lead), {"a": spec("a", _length).spawn()})
    return Scenario(team, play=play)


@scenario("differing")
def how_many_work_at_one_mailbox(make):
    """One process works a mailbox message by message; a worker has as many places as ``--concurrency`` says."""

    async def play(world):
        if world.is_local:
            make.stage.note("alone")
        await world.run(team)
        assert make.stage.most_at_once == (1 if world.is_local else 3)

    async def member(request):
        with make.stage.at_work("a"):
            await make.stage.holds(lambda notes: "alone" in notes or notes.count("begin a") == 3)
        return "done"

    lead = [turn(handoff("a"), handoff("a"), handoff("a")), "x"]
    team = make(lead, {"a": member}, runner={"max_concurrent_work_items": 3})
    return Scenario(team, play=play)
