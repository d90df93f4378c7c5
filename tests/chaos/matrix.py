"""Runs one task with a process that dies at a given point, and says what became of it."""

import asyncio
from contextlib import asynccontextmanager

from lattice.client import LatticeClient
from lattice.redis.connection import open_redis
from lattice.redis.keys import Keys
from tests.chaos.apps import MEMBERS
from tests.chaos.checker import Story, check
from tests.chaos.faults import FAULT
from tests.chaos.memory import rq_is_done
from tests.chaos.processes import Processes
from tests.chaos.record import read_record
from tests.chaos.world import read_world
from tests.processes.commands import eventually

APP = "tests.chaos.app:team"
LEASE = "1s"


@asynccontextmanager
async def team_of_processes(redis_url, folder, team, **options):
    """A place to start a team's processes in, its client, and a raw client."""
    processes = Processes(redis_url, folder, app=APP, team=team, lease=options.pop("lease", LEASE), **options)
    redis = open_redis(redis_url)
    try:
        async with LatticeClient(team=team, redis_url=redis_url) as client:
            yield processes, client, redis
    finally:
        await asyncio.to_thread(processes.close)
        await redis.aclose()


async def story_of(redis, team, folder, accepted, **more):
    """Gather what is known of these runs; the record may hold more."""
    world = await read_world(redis, Keys(team), list(accepted))
    numbers = set(accepted.values())
    return Story(world, [line for line in read_record(folder) if line["run"] in numbers], accepted, **more)


async def deaths(redis_url, folder, team, role, member, faults, *, latency="0-0"):
    """Drive a run for each fault, one after another; yields the findings of each.

    The process that is to die is the only one of its kind until it is dead; the others serve all the runs.
    """
    environment = {"CHAOS_LATENCY": latency}
    async with team_of_processes(redis_url, folder, team, environment=environment) as (processes, client, redis):
        for other in MEMBERS[:3]:
            if other != member:
                processes.worker(other)
        if role != "coordinator":
            processes.coordinator()
        for number, fault in enumerate(faults):
            doomed = processes.start(role, member, **{FAULT: fault})
            run_id = await client.submit(f"run {number} plain")
            code = await doomed.ended(20)
            assert code == -9, f"{role} ended with {code} instead of dying at {fault}\n{doomed.log}"
            successor = processes.start(role, member)
            result = await client.result(run_id, timeout=30)
            findings = check(await story_of(redis, team, folder, {run_id: number}))
            await eventually(lambda: rq_is_done(redis, team))
            if result["status"] != "succeeded":
                findings.problems.append(("run_ends", f"ended {result}"))
            yield findings
            successor.drain()
            await successor.ended()
