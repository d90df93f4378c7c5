"""An interrupt: what is under way is finished, nothing else is begun, and the lead is not asked again."""

import asyncio

from lattice import tool
from lattice.testing import tool_use, turn
from tests.scenarios.description import Scenario, scenario
from tests.teams import ask, handoff, spec


def interrupted(make, team, **statuses):
    """Interrupt a run once somebody has begun, let it go on then, and check that it ends as interrupted."""

    async def play(world):
        running = asyncio.create_task(world.run(team))
        await make.stage.reached("begun")
        await world.interrupt(team)
        make.stage.note("go on")
        outcome = await running
        assert (outcome.status, outcome.events[-1]["subtype"]) == ("succeeded", "interrupted")
        assert make.stage.count("lead") == 1
        assert {name: outcome.statuses(name) for name in statuses} == statuses

    return Scenario(team, play=play)


def lead(stage, *calls, **options):
    """A lead that makes these calls whenever it is asked, and notes that it is."""

    def reply(request):
        stage.note("lead")
        return turn(*calls)

    return spec("lead", reply, **options)


def worker(stage):
    """A member that has begun and waits until it may go on."""

    async def reply(request):
        stage.note("begun")
        await stage.reached("go on")
        return "finished all the same"

    return reply


@scenario("interrupt")
def an_interrupt_while_a_member_works(make):
    """team:INT-03"""
    team = make(lead(make.stage, handoff("a")), {"a": worker(make.stage)})
    return interrupted(make, team, a=["done"])


@scenario("interrupt")
def an_interrupt_while_work_is_queued(make):
    """team:INT-03"""
    calls = handoff("a"), handoff("a"), handoff("a")
    team = make(lead(make.stage, *calls), {"a": worker(make.stage)}, runner={"max_concurrent_work_items": 1})
    return interrupted(make, team, a=["done", "cancelled", "cancelled"])


@scenario("interrupt")
def an_interrupt_while_a_question_waits(make):
    team = make(lead(make.stage, ask("a")), {"a": worker(make.stage)})
    return interrupted(make, team, a=["done"])


def looking(stage):
    """A tool of the lead's that has begun and waits until it may go on."""

    async def look(value):
        return await worker(stage)(None)

    return tool("look", "Look.", {"type": "object"}, look)


@scenario("interrupt")
def an_interrupt_in_a_tool_of_the_lead(make):
    team = make(lead(make.stage, tool_use("look", {}), tools=[looking(make.stage)]), {"a": worker(make.stage)})
    return interrupted(make, team, a=[])


@scenario("interrupt")
def an_interrupt_in_a_tool_beside_a_handoff(make):
    """What the response hands off is not begun. team:INT-04"""
    calls = handoff("a"), tool_use("look", {})
    team = make(lead(make.stage, *calls, tools=[looking(make.stage)]), {"a": worker(make.stage)})
    return interrupted(make, team, a=["cancelled"])


@scenario("interrupt")
def an_interrupt_while_the_lead_is_asked(make):
    """What the response calls is not begun."""

    async def reply(request):
        make.stage.note("lead")
        return await worker(make.stage)(request) and handoff("a")

    return interrupted(make, make(spec("lead", reply), {"a": worker(make.stage)}), a=[])
