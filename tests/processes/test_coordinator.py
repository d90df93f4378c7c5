"""``lattice-coordinator`` as a process: kills, drains, restarts, and what RQ says meanwhile."""

import asyncio
import json
import signal
from pathlib import Path

import pytest
import redis as blocking
from rq import Queue
from rq.job import Job
from rq.serializers import JSONSerializer
from rq.worker import BaseWorker

from lattice.client import LatticeClient
from tests.processes.commands import MEMBERS, answer, eventually
from tests.redis_server import free_port

pytestmark = [pytest.mark.redis, pytest.mark.processes]

RESULT = "alpha count / alpha; beta count / beta; gamma count / gamma"


@pytest.fixture
async def client(redis_url):
    async with LatticeClient(team="trio", redis_url=redis_url) as client:
        yield client


@pytest.fixture
def queue(redis_url):
    connection = blocking.Redis.from_url(redis_url)
    yield Queue("lattice-trio", connection=connection, serializer=JSONSerializer)
    connection.close()


def job_of(queue, run_id):
    return Job.fetch(run_id, connection=queue.connection, serializer=JSONSerializer)


async def waiting(client, run_id):
    return await eventually(lambda: is_waiting(client, run_id))


async def all_announced(client, count):
    return len(await client.processes()) == count


async def is_waiting(client, run_id):
    return (await client.run(run_id)).status == "waiting"


def start_workers(commands, *args):
    return [commands.start("lattice-worker", "--member", name, *args) for name in MEMBERS]


@pytest.mark.parametrize(
    ("args", "app", "says"),
    [
        ([], "tests.apps.no_such_module:team", "no_such_module"),
        ([], "tests.apps.three_members:nothing", "nothing"),
        (["--concurrency", "0"], None, "concurrency"),
        (["--lease", "soon"], None, "no duration"),
        (["--no-such-option"], None, "no-such-option"),
        (["--redis-url", "redis://:secret@127.0.0.1:1"], None, "127.0.0.1:1"),
    ],
)
async def test_bad_input_ends_it_before_anything_starts(scripts, queue, args, app, says):
    done = await scripts.done("lattice-coordinator", *args, **({"LATTICE_APP": app} if app else {}))
    assert done.returncode == 2
    assert says in done.err and "secret" not in done.err
    assert queue.connection.dbsize() == 0


async def test_rq_and_the_run_agree_from_queued_to_finished(scripts, client, queue):
    run_id = await client.submit("count")
    assert job_of(queue, run_id).get_status() == "queued"
    scripts.start("lattice-coordinator")
    await waiting(client, run_id)
    assert job_of(queue, run_id).get_status() == "started"
    assert [job for job, _ in queue.started_job_registry.get_job_and_execution_ids()] == [run_id]
    assert [worker.get_state() for worker in BaseWorker.all(queue=queue)] == ["busy"]
    start_workers(scripts)
    outcome = await client.result(run_id, timeout=30)
    assert (outcome["status"], outcome["result"]) == ("succeeded", RESULT)
    await eventually(lambda: job_of(queue, run_id).get_status() == "finished")
    assert job_of(queue, run_id).return_value() == outcome
    assert queue.finished_job_registry.get_job_ids() == [run_id]
    assert queue.started_job_registry.count == queue.failed_job_registry.count == len(queue) == 0
    assert [worker.get_state() for worker in BaseWorker.all(queue=queue)] == ["idle"]


async def test_a_killed_coordinators_waiting_run_is_finished_by_another(commands, client, queue):
    first = commands.start("lattice-coordinator", "--lease", "1s")
    run_id = await client.submit("count")
    await waiting(client, run_id)
    first.kill()
    await first.ended()
    second = commands.start("lattice-coordinator", "--lease", "1s")
    await eventually(lambda: job_of(queue, run_id).worker_name.split("-")[-2] == str(second.pid))
    start_workers(commands)
    outcome = await client.result(run_id, timeout=30)
    assert outcome["result"] == RESULT
    await eventually(lambda: job_of(queue, run_id).get_status() == "finished")
    assert job_of(queue, run_id).return_value() == outcome
    assert queue.started_job_registry.count == queue.failed_job_registry.count == 0


async def test_sigterm_hands_waiting_runs_over_at_once(commands, client, queue):
    first = commands.start("lattice-coordinator")
    run_id = await client.submit("count")
    await waiting(client, run_id)
    first.kill(signal.SIGTERM)
    assert await first.ended() == 0
    assert queue.get_job_ids() == [run_id]
    assert job_of(queue, run_id).get_status() == "queued"
    assert BaseWorker.all(queue=queue) == []
    commands.start("lattice-coordinator")
    start_workers(commands)
    assert (await client.result(run_id, timeout=20))["result"] == RESULT
    await eventually(lambda: job_of(queue, run_id).get_status() == "finished")


async def test_a_second_signal_stops_at_once(commands, client):
    coordinator = commands.start("lattice-coordinator")
    run_id = await client.submit("count")
    await waiting(client, run_id)
    coordinator.kill(signal.SIGTERM)
    coordinator.kill(signal.SIGINT)
    assert await coordinator.ended(5) in (0, 130, 143)


async def test_burst_ends_when_all_runs_have_ended(commands, client):
    runs = [await client.submit(f"count {n}") for n in range(5)]
    start_workers(commands)
    done = await commands.done("lattice-coordinator", "--burst")
    assert done.returncode == 0
    assert {(await client.run(run_id)).status for run_id in runs} == {"succeeded"}


async def test_one_coordinator_holds_many_waiting_runs(scripts, client, queue):
    coordinator = scripts.start("lattice-coordinator", "--concurrency", "300")
    runs = [await client.submit(f"count {n}") for n in range(300)]
    await eventually(lambda: all_waiting(client, runs), bound=50)
    status = Path(f"/proc/{coordinator.pid}/status").read_text()
    (resident,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")]
    assert resident < 200 * 1024
    assert queue.started_job_registry.count == 300


async def all_waiting(client, runs):
    found = {run.id: run.status for run in await client.runs(limit=1000)}
    return all(found[run_id] == "waiting" for run_id in runs)


async def test_it_goes_on_after_its_connections_were_killed(commands, client, queue):
    commands.team(*MEMBERS)
    await eventually(lambda: all_announced(client, 4))
    for _ in range(3):
        queue.connection.client_kill_filter(_type="normal", skipme=True)
        await asyncio.sleep(0)
    run_id = await client.submit("count")
    assert (await client.result(run_id, timeout=30))["result"] == RESULT


async def test_cancelling_a_waiting_run_cancels_its_job(commands, client, queue):
    commands.start("lattice-coordinator")
    run_id = await client.submit("count")
    await waiting(client, run_id)
    assert await client.cancel(run_id, "no longer needed") == "cancelled"
    await eventually(lambda: job_of(queue, run_id).get_status() == "canceled")
    assert queue.started_job_registry.count == 0
    outcome = await client.result(run_id)
    assert outcome["status"] == "cancelled" and "no longer needed" in json.dumps(outcome["error"])


async def test_a_retry_of_rq_tries_a_failed_run_again(commands, client, queue, redis_url):
    async with LatticeClient(team="failing", redis_url=redis_url) as failing:
        run_id = await failing.submit("count", retry=2)
        commands.start("lattice-coordinator", LATTICE_APP="tests.apps.failing_lead:team")
        outcome = await failing.result(run_id, timeout=30)
        assert outcome["status"] == "failed"
        assert (await failing.run(run_id)).epoch == 3
        assert job_of(queue, run_id).get_status() == "failed"


async def test_while_its_lead_ends_a_leg_it_lives_but_is_not_ready(commands, redis_url):
    health = free_port()
    gate = commands.folder / "gate"
    gate.mkdir(parents=True)
    commands.env |= {"LATTICE_APP": "tests.apps.gated:leading", "LATTICE_TEST_GATE": str(gate)}
    coordinator = commands.start("lattice-coordinator", "--health-port", health)
    async with LatticeClient(team="gated", redis_url=redis_url) as client:
        run_id = await client.submit("think")
        await eventually((gate / "begun-0").exists, what="the leg has begun")
        assert answer(health, "/readyz") == answer(health, "/livez") == (200, '{"status":"ok"}')
        coordinator.kill(signal.SIGTERM)
        draining = (503, '{"status":"unavailable","reason":"draining"}')
        await eventually(lambda: answer(health, "/readyz") == draining, what="it is not ready")
        assert answer(health, "/livez") == (200, '{"status":"ok"}')
        assert (await client.run(run_id)).status == "running"
        (gate / "open").touch()
        assert (await client.result(run_id, timeout=30))["result"] == "worked"
        assert await coordinator.ended() == 0
    assert len(list(gate.glob("begun-*"))) == 1
