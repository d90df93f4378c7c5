"""Many runs at once over several processes of each kind, undisturbed and with processes killed: P1, P2, P3."""

import asyncio
import os

import pytest

from lattice.client import LatticeClient
from lattice.redis.connection import open_redis
from lattice.redis.run_store import RedisRunStore
from lattice.run_store import StoreOptions
from tests.checker import check_runs
from tests.processes.commands import MEMBERS, eventually

pytestmark = [pytest.mark.redis, pytest.mark.processes, pytest.mark.timeout(240)]

RUNS = int(os.environ.get("LATTICE_TEST_RUNS", "150"))
RETENTION_MS = 600_000


@pytest.fixture
def crowd(commands):
    """Two coordinators and two workers of each member; every process drops what it holds after two seconds."""
    coordinators = [commands.start("lattice-coordinator", "--lease", "2s") for _ in range(2)]
    workers = [commands.start("lattice-worker", "--member", m, "--lease", "2s") for m in MEMBERS * 2]
    return coordinators, workers


@pytest.fixture
async def store(redis_url):
    client = open_redis(redis_url)
    store = RedisRunStore(client, "trio", StoreOptions(retention_ms=RETENTION_MS))
    yield store
    await store.close()
    await client.aclose()


async def alive(store, count):
    await eventually(lambda: has_processes(store, count), bound=60)


async def has_processes(store, count):
    return len(await store.processes()) >= count


async def submit_all(client, count):
    gate = asyncio.Semaphore(16)

    async def submit(number):
        async with gate:
            return await client.submit(f"task {number}")

    return await asyncio.gather(*(submit(number) for number in range(count)))


def right_result(number):
    return "; ".join(f"{name} task {number} / {name}" for name in MEMBERS)


async def finish_and_check(client, store, run_ids):
    results = [await client.result(run_id, timeout=120) for run_id in run_ids]
    assert [r["status"] for r in results] == ["succeeded"] * len(run_ids)
    assert [r["result"] for r in results] == [right_result(number) for number in range(len(run_ids))]
    findings = await check_runs(store, run_ids, members=MEMBERS)
    assert findings.problems[:20] == []
    assert (findings.runs, findings.messages) == (len(run_ids), 3 * len(run_ids))


async def test_every_run_succeeds_and_every_message_is_done_once(crowd, store, redis_url):
    await alive(store, 8)
    async with LatticeClient(team="trio", redis_url=redis_url) as client:
        run_ids = await submit_all(client, RUNS)
        await finish_and_check(client, store, run_ids)


async def test_a_killed_worker_and_a_killed_coordinator_change_nothing_of_that(crowd, store, redis_url):
    coordinators, workers = crowd
    await alive(store, 8)
    async with LatticeClient(team="trio", redis_url=redis_url) as client:
        run_ids = await submit_all(client, RUNS)
        await eventually(lambda: some_but_not_all_done(store, run_ids), bound=60)
        workers[0].kill()
        coordinators[0].kill()
        await finish_and_check(client, store, run_ids)


async def some_but_not_all_done(store, run_ids):
    ended = [run.status.is_terminal for run in await store.list_runs(len(run_ids))]
    return any(ended)
