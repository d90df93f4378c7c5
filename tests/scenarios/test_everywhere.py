"""The scenarios that have one description: in one process, over hosts on Redis, and over the real commands."""

import pytest

from tests.processes.team_commands import Commands
from tests.scenarios.app import SCENARIOS, over_processes
from tests.scenarios.worlds import ProcessWorld

ENOUGH = {"a_failed_question", "three_rounds", "the_tokens_of_everybody"}
"""Left out over real processes: three starts each, and what they would show the others show too."""


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_scenario(world, name):
    """team:EVT-09 team:HND-12 team:FAIL-02 team:HND-15"""
    described = SCENARIOS[name](world.team)
    more = {"abort_at": described.abort_at, "permissions": described.permissions}
    outcome = await world.run(described.team, **more)
    described.expect(outcome)
    assert set(outcome.ends.values()) <= {1}, "each work item has one end in the events"


@pytest.fixture
async def commands(redis_url):
    commands = Commands(redis_url)
    yield commands
    await commands.close()


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in ENOUGH])
@pytest.mark.redis
@pytest.mark.processes
async def test_a_scenario_over_real_processes(commands, redis_url, name):
    """team:EVT-09 team:HND-12 team:FAIL-02 team:HND-15"""
    described = over_processes(name)
    outcome = await ProcessWorld(commands, redis_url).run(name, described)
    described.expect(outcome)
    assert set(outcome.ends.values()) <= {1}, "each work item has one end in the events"
