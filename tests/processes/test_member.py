"""``lattice-worker`` as a process: it works, drains, hands back, and outlives a Redis that goes away."""

import signal
from dataclasses import replace

import pytest

from lattice.ids import new_id
from lattice.mailbox import TeamMessage
from lattice.redis.connection import open_redis
from lattice.runs import Batch, RunRecord, Step, WorkItem
from tests.processes.commands import Commands, answer, get, until
from tests.redis_server import free_port
from workers.connections import OwnRedisRunStore

pytestmark = [pytest.mark.processes, pytest.mark.redis]

APP = "tests.apps.gated:team"


@pytest.fixture
def commands(server, tmp_path):
    folder = tmp_path / "work"
    env = {"LATTICE_REDIS_URL": server.url, "LATTICE_APP": APP, "LATTICE_TEST_GATE": str(folder)}
    commands = Commands(folder, env, warm=True)
    yield commands
    commands.close()


@pytest.fixture
async def store(server):
    store = OwnRedisRunStore(open_redis(server.url), "gated")
    yield store
    await store.close()


async def hand_off(store, *tasks):
    """Hand tasks to the member as a lead does, and return their messages."""
    run = RunRecord(id=new_id(), team="gated", task="all of it")
    await store.start_run(replace(run, conversation=run.id))
    taken = await store.take_run(run.id, "a test", 600_000)
    drafts = [
        TeamMessage(id=new_id(), from_="manager", to="gated::backend", content=task, run_id=run.id) for task in tasks
    ]
    items = tuple(WorkItem(message=draft, member="backend", conversation=draft.id) for draft in drafts)
    word, messages = await store.hand_off(taken.lease, Batch(id=new_id(), items=items), Step(conversation=run.id))
    assert word == "accepted"
    return messages


async def status(store, message):
    found = await store.get(message.id)
    return str(found.status)


async def test_a_burst_works_what_is_there_and_ends(store, commands):
    commands.folder.mkdir()
    (commands.folder / "open").touch()
    messages = await hand_off(store, "a", "b", "c", "d", "e")
    commands.run("lattice-worker", "--member", "backend", "--burst")
    assert [await status(store, message) for message in messages] == ["done"] * 5
    assert await store.processes() == []


async def test_a_member_that_is_a_team_is_worked_by_one_worker(store, commands):
    commands.env["LATTICE_APP"] = "tests.apps.gated:outer"
    commands.folder.mkdir()
    (commands.folder / "open").touch()
    (message,) = await hand_off(store, "do it together")
    commands.run("lattice-worker", "--member", "backend", "--burst")
    assert await status(store, message) == "done"
    assert (commands.folder / "begun-0").exists()
    (report,) = await store.inbox("manager", "all")
    assert report.content == "the team worked"


async def test_sigterm_lets_running_work_finish(store, commands):
    (message,) = await hand_off(store, "do it")
    worker = commands.start("lattice-worker", "--member", "backend")
    until((commands.folder / "begun-0").exists, "the work has begun")
    (process,) = await store.processes()
    assert (process.role, process.member, process.pid) == ("worker", "backend", worker.process.pid)
    worker.kill(signal.SIGTERM)
    worker.says("draining")
    (commands.folder / "open").touch()
    worker.ends(0)
    assert await status(store, message) == "done"
    assert await store.processes() == []


async def test_what_does_not_finish_in_time_is_handed_back_at_once(store, commands):
    (message,) = await hand_off(store, "do it")
    worker = commands.start("lattice-worker", "--member", "backend", "--drain-timeout", "0", "--lease", "10m")
    until((commands.folder / "begun-0").exists, "the work has begun")
    worker.kill(signal.SIGTERM)
    worker.ends(0)
    (commands.folder / "open").touch()
    commands.run("lattice-worker", "--member", "backend", "--burst")
    assert await status(store, message) == "done"


async def test_a_worker_outlives_a_redis_that_was_restarted(server, commands):
    worker = commands.start("lattice-worker", "--member", "backend")
    worker.says("working")
    (commands.folder / "open").touch()
    server.stop()
    server.start()
    store = OwnRedisRunStore(open_redis(server.url), "gated")
    (message,) = await hand_off(store, "do it")
    until((commands.folder / "begun-0").exists, "the work has begun")
    worker.kill(signal.SIGTERM)
    worker.ends(0)
    assert await status(store, message) == "done"
    await store.close()


async def test_it_says_that_it_works_and_how_much(store, commands):
    health, metrics = free_port(), free_port()
    ports = ("--health-port", health, "--metrics-port", metrics)
    worker = commands.start("lattice-worker", "--member", "backend", "--concurrency", 1, *ports)
    worker.says("working")
    assert get(health, "/livez") == get(health, "/readyz") == '{"status":"ok"}'
    await hand_off(store, "first", "second")
    waits = 'lattice_mailbox_depth{lattice_member="backend",lattice_team="gated"} 1'
    until(lambda: waits in get(metrics, "/metrics"), "one of two waits")
    assert 'lattice_messages_claimed_total{lattice_member="backend",lattice_team="gated"} 1' in get(metrics, "/metrics")
    (commands.folder / "open").touch()
    settled = 'lattice_messages_settled_total{lattice_member="backend",lattice_status="done",lattice_team="gated"} 2'
    until(lambda: settled in get(metrics, "/metrics"), "both are settled")
    worker.kill(signal.SIGINT)
    worker.ends(0)


async def test_while_it_drains_it_lives_but_is_not_ready(store, commands):
    health = free_port()
    worker = commands.start("lattice-worker", "--member", "backend", "--health-port", health)
    (message,) = await hand_off(store, "do it")
    until((commands.folder / "begun-0").exists, "the work has begun")
    assert answer(health, "/readyz")[0] == 200
    worker.kill(signal.SIGTERM)
    until(lambda: answer(health, "/readyz") == (503, '{"status":"unavailable","reason":"draining"}'), "not ready")
    assert answer(health, "/livez") == (200, '{"status":"ok"}')
    (commands.folder / "open").touch()
    worker.ends(0)
    assert await status(store, message) == "done"


async def test_one_conversation_for_ever_is_worked_one_at_a_time(store, commands):
    commands.env["LATTICE_APP"] = "tests.apps.gated:lasting"
    worker = commands.start("lattice-worker", "--member", "backend")
    worker.says("working")
    (process,) = await store.processes()
    assert process.concurrency == 1
    worker.kill(signal.SIGTERM)
    worker.ends(0)
