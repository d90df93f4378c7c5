"""What a team costs: many waiting runs in one coordinator, and Redis after everything has been forgotten (P6)."""

import asyncio
from pathlib import Path

import pytest
import redis as blocking

from lattice.client import LatticeClient
from lattice.run_store import StoreOptions
from tests.processes.commands import MEMBERS, eventually

pytestmark = [pytest.mark.redis, pytest.mark.processes, pytest.mark.timeout(120)]

WAITING = 300
MOST_MIB = 200


def resident_mib(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
async def test_300_waiting_runs_fit_into_one_small_coordinator(scripts, redis_url):
    coordinator = scripts.start("lattice-coordinator", "--concurrency", "400")
    async with LatticeClient(team="trio", redis_url=redis_url) as client:
        for number in range(WAITING):
            await client.submit(f"task {number}")

        async def all_wait():
            return sum(run.status == "waiting" for run in await client.runs(limit=WAITING + 10)) == WAITING

        await eventually(all_wait, bound=60)
        assert resident_mib(coordinator.pid) < MOST_MIB


async def test_redis_is_as_before_once_runs_are_forgotten(commands, redis_url):
    server = blocking.Redis.from_url(redis_url, decode_responses=True)
    options = StoreOptions(retention_ms=2000)
    commands.start("lattice-coordinator", "--retention", "2s")
    for member in MEMBERS:
        commands.start("lattice-worker", "--member", member, "--retention", "2s")
    async with LatticeClient(team="trio", redis_url=redis_url, options=options) as client:
        await client.result(await client.submit("warm up"), timeout=60)
        await eventually(lambda: keys_of_runs(server) == [], bound=60)
        before, keys = bytes_of_keys(server), server.dbsize()
        run_ids = await asyncio.gather(*(client.submit(f"task {number}") for number in range(100)))
        for run_id in run_ids:
            await client.result(run_id, timeout=60)
        await eventually(lambda: keys_of_runs(server) == [], bound=60)
        await eventually(lambda: server.dbsize() <= keys, bound=60)
        assert bytes_of_keys(server) < before + 8 * 1024
    server.close()


def bytes_of_keys(server):
    """Memory of all keys; what the server itself allocates (clients, scripts, fragments) is not of our doing."""
    return sum(server.memory_usage(key, samples=0) or 0 for key in server.scan_iter(count=1000))


def keys_of_runs(server):
    """Keys of runs, messages, conversations and RQ jobs."""
    words = (":run:", ":message:", ":conversation:", ":journal:", ":batch:", "rq:job:", "rq:results:", "rq:execution")
    return sorted(key for key in server.scan_iter(count=1000) if any(word in key for word in words))
