"""``lattice interrupt``: what is under way is finished, what is queued is cancelled, the lead is not asked again."""

import json

import pytest

from lattice.client import LatticeClient
from lattice.errors import OptionError
from tests.processes.commands import Commands, eventually

pytestmark = [pytest.mark.redis, pytest.mark.processes]


@pytest.fixture
def commands(redis_url, tmp_path):
    env = {
        "LATTICE_REDIS_URL": redis_url,
        "LATTICE_APP": "tests.apps.two_halves:team",
        "LATTICE_TEST_GATE": str(tmp_path),
    }
    commands = Commands(tmp_path, env, warm=True)
    yield commands
    commands.close()


@pytest.fixture
async def client(redis_url):
    async with LatticeClient(team="halves", redis_url=redis_url) as client:
        yield client


async def test_what_is_under_way_is_finished_and_the_rest_is_not_begun(commands, client, tmp_path):
    commands.start("lattice-coordinator")
    commands.start("lattice-worker", "--member", "first")
    run_id = await client.submit("go")
    await eventually((tmp_path / "begun").exists)
    done = await commands.done("lattice", "interrupt", run_id)
    assert f"run {run_id} ends as soon as what is under way has ended" in done.out
    (tmp_path / "open").touch()
    outcome = await client.result(run_id, timeout=20)
    run = await client.run(run_id)
    assert (outcome["status"], run.result["subtype"]) == ("succeeded", "interrupted")
    assert (tmp_path / "finished").exists()
    assert not (tmp_path / "asked-again").exists()
    work = {state.member: str(state.message.status) for state in await client.work_items(run_id)}
    assert work == {"first": "done", "second": "cancelled"}
    again = await commands.done("lattice", "interrupt", run_id, "--json")
    shown = json.loads(again.out)
    assert (shown["status"], shown["interrupted"]) == ("succeeded", True)


async def test_a_run_that_does_not_exist_is_named(commands, client):
    refused = await commands.done("lattice", "interrupt", "nope")
    assert "no run 'nope'" in refused.err
    with pytest.raises(OptionError, match="no run 'nope'"):
        await client.interrupt("nope")
