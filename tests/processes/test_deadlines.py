"""The deadline of a question over real processes: whoever asked may die, and what was asked is stopped all the same."""

import pytest

from lattice.client import LatticeClient
from tests.processes.commands import Commands, eventually

pytestmark = [pytest.mark.redis, pytest.mark.processes]


@pytest.fixture
def commands(redis_url, tmp_path):
    env = {"LATTICE_REDIS_URL": redis_url, "LATTICE_APP": "tests.apps.late:team", "LATTICE_TEST_GATE": str(tmp_path)}
    commands = Commands(tmp_path, env, warm=True)
    yield commands
    commands.close()


@pytest.mark.parametrize("dies", [False, True])
async def test_a_question_that_is_not_answered_in_time(commands, redis_url, tmp_path, dies):
    asking = commands.start("lattice-coordinator", "--lease", "2s")
    commands.start("lattice-worker", "--member", "silent", "--lease", "2s")
    async with LatticeClient(team="late", redis_url=redis_url) as client:
        run_id = await client.submit("go")
        await eventually((tmp_path / "begun").exists)
        if dies:
            asking.kill()
            commands.start("lattice-coordinator", "--lease", "2s")
        outcome = await client.result(run_id, timeout=30)
        assert "Error code: timeout\nReason: silent has not answered within 3 s" in outcome["result"]
        (work,) = await client.work_items(run_id)
        assert (work.message.status, work.attempts) == ("cancelled", 1)
        await eventually((tmp_path / "stopped").exists)
