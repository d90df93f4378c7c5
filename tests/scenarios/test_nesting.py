"""Members that hand off themselves, teams inside teams, and who remembers what."""

import asyncio

import pytest

from lattice import agent_tool, team_member
from lattice.testing import turn
from tests.teams import ask, echo, handoff, results, said, spec, team_of


@pytest.mark.parametrize("limit", [1, 2])
async def test_the_limit_holds_for_what_a_member_hands_off(world, limit):
    """team:CON-05"""
    now = most = 0

    async def helper(request):
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(10):
            await asyncio.sleep(0.001)
        now -= 1
        return "done"

    names = ("x", "y", "z")
    tools = [agent_tool(name, spec(name, helper)) for name in names]
    middle = spec("middle", [turn(*map(handoff, names)), "all done"], tools=tools)
    lead = [handoff("middle"), said]
    outcome = await world.run(world.team(lead, {"middle": middle}, runner={"max_concurrent_work_items": limit}))
    assert outcome.text.endswith("all done")
    assert most == limit


async def test_three_deep(world):
    third = spec("third", echo("third"))
    second = spec("second", [handoff("third", "deep"), said], tools=[agent_tool("third", third)])
    first = spec("first", [handoff("second"), said], tools=[agent_tool("second", second)])
    outcome = await world.run(world.team([handoff("first"), said], {"first": first}))
    assert outcome.text.rstrip().endswith("third did deep")


async def test_too_deep(world):
    helper = spec("helper", ["never"])
    middle = spec("middle", [ask("helper"), lambda r: results(r)[0]], tools=[agent_tool("helper", helper)])
    team = world.team([ask("middle"), lambda r: results(r)[0]], {"middle": middle}, runner={"max_delegate_depth": 1})
    assert "Reached maximum delegate depth (1)" in (await world.run(team)).text


async def test_no_delegation_at_all(world):
    """team:RUN-05"""
    team = world.team([ask("a"), lambda r: results(r)[0]], {"a": echo("a")}, runner={"max_delegate_depth": 0})
    assert "Reached maximum delegate depth (0)" in (await world.run(team)).text


async def test_a_team_inside_a_team(world):
    inner = team_of([handoff("backend", "build"), said], {"backend": echo("backend")}, name="engineering")
    outcome = await world.run(world.team([handoff("engineering"), said], {"engineering": inner}))
    assert outcome.text.endswith("backend did build")
    assert "sent engineering::backend" in outcome.briefs
    assert "engineering:result" in outcome.briefs


async def test_two_inner_teams_with_members_of_the_same_names(world):
    teams = {
        name: team_of([ask("dev"), lambda r: results(r)[0]], {"dev": echo(f"{name}-dev")}, name=name)
        for name in ("x", "y")
    }
    outcome = await world.run(world.team([turn(handoff("x"), handoff("y")), said], teams))
    assert "x-dev did question" in outcome.text
    assert "y-dev did question" in outcome.text


async def test_templates_forget_between_work_items(world):
    lengths = []

    def member(request):
        lengths.append(len(request.messages))
        return "ok"

    await world.run(world.team([turn(handoff("a"), handoff("a")), "x"], {"a": member}))
    assert lengths == [1, 1]


async def test_live_agents_remember_within_a_run(world):
    lengths = []

    def member(request):
        lengths.append(len(request.messages))
        return "ok"

    await world.run(world.team([turn(handoff("a"), handoff("a")), "x"], {"a": spec("a", member).spawn()}))
    assert lengths == [1, 3]


async def test_one_agent_under_two_names(world):
    shared = spec("shared", echo("shared"))
    members = {name: team_member(name=name, role="executor", agent=shared) for name in ("x", "y")}
    outcome = await world.run(world.team([turn(handoff("x", "1"), handoff("y", "2")), said], members))
    assert outcome.text.index("shared did 1") < outcome.text.index("shared did 2")


async def test_two_runs_one_after_another(world):
    team = world.team(
        spec("lead", lambda r: said(r) if said(r).startswith("Team") else handoff("a", said(r))), {"a": echo("a")}
    )
    assert (await world.run(team, "one")).text.endswith("a did one")
    assert (await world.run(team, "two")).text.endswith("a did two")


async def test_content_blocks_as_the_task(world):
    """team:RUN-23"""
    team = world.team([lambda request: request.messages[0]["content"][0]["text"]])
    assert (await world.run(team, [{"type": "text", "text": "in blocks"}])).text == "in blocks"
