"""The scenarios, each from one description: in one process, over hosts on Redis, and over the real commands."""

import pytest

from tests.scenarios.app import KIND_OF, KINDS, SCENARIOS
from tests.scenarios.conftest import EVERYWHERE

AT_LEAST = 100
ABORTED_WHILE = {
    "the run is queued": "an_abort_of_a_queued_run",
    "the lead is asked": "an_abort_while_the_lead_is_asked",
    "the lead is in a tool": "an_abort_in_a_tool_of_the_lead",
    "work is queued": "an_abort_while_work_is_queued",
    "work was claimed": "an_abort_when_work_was_claimed",
    "a member is asked": "an_abort_while_a_member_is_asked",
    "a member is in a tool": "an_abort_in_a_tool_of_a_member",
    "a question waits": "an_abort_while_a_question_waits",
    "the lead waits for one of two": "an_abort_after_the_first_of_two_reports",
    "the reports are there and the lead is not resumed": "an_abort_between_the_reports_and_the_next_leg",
    "the lead was resumed": "an_abort_when_the_lead_has_been_resumed",
    "a member waits for its own handoffs": "an_abort_while_a_member_waits_for_its_own_handoffs",
    "a nested team is at work": "an_abort_inside_a_team_inside_a_team",
}


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_scenario(world, name):
    await SCENARIOS[name](world.make).happen(world)


def test_each_scenario_runs_in_each_world():
    """None is left out anywhere: every name is asked for in every world, and no mark skips one."""
    (names,) = [mark.args[1] for mark in test_a_scenario.pytestmark if mark.name == "parametrize"]
    assert names is SCENARIOS
    marks = {mark.name for world in EVERYWHERE for mark in world.marks} | {m.name for m in test_a_scenario.pytestmark}
    assert marks == {"parametrize", "redis", "processes"}
    assert [world.values for world in EVERYWHERE] == [("memory",), ("sqlite",), ("redis",), ("processes",)]


def test_there_are_enough_scenarios_and_some_of_each_kind():
    assert len([name for name in SCENARIOS if KIND_OF[name] != "differing"]) >= AT_LEAST
    assert [kind for kind in KINDS if kind not in KIND_OF.values()] == []


def test_an_abort_is_tried_in_each_phase():
    assert {phase: name for phase, name in ABORTED_WHILE.items() if KIND_OF.get(name) != "abort"} == {}
