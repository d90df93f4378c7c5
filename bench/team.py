"""One team task from submit to result: a lead, three members, models that answer in no time.

    python -m bench.team idle | loaded [--rounds N] [--runs N]

idle    one run at a time: median milliseconds from submit to the result in the submitter's hands
loaded  many runs at once: runs per second, two coordinators and two workers for each member

The floor is the same exchange between bare processes (``bench/team_floor.py``).
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path

import redis

from bench import harness, team_floor
from lattice.client import LatticeClient

APP = "bench.team_app:team"
BIN = Path(sys.executable).parent


class Floor:
    """The bare exchange; one process for each role, whatever the load."""

    def __init__(self, server, group, _copies):
        self.redis = redis.Redis.from_url(server.url, socket_timeout=None)
        roles = ("lead", *team_floor.MEMBERS)
        for role in roles:
            group.start([sys.executable, "-m", "bench.team_floor", role], BENCH_URL=server.url)
        harness.wait_until(lambda: self.redis.scard("ready") == len(roles), "the floor's processes are ready")

    def idle(self, runs):
        return [self._one(number) for number in range(runs)]

    def _one(self, number):
        time.sleep(0.02)
        began = time.perf_counter()
        self.redis.rpush("lead", f"run {number}")
        self.redis.blpop(["results"], 60)
        return (time.perf_counter() - began) * 1e3

    def loaded(self, runs):
        began = time.perf_counter()
        for number in range(runs):
            self.redis.rpush("lead", f"run {number}")
        for _ in range(runs):
            self.redis.blpop(["results"], 60)
        return runs / (time.perf_counter() - began)


class Lattice:
    """The shipped commands, ``copies`` of each."""

    def __init__(self, server, group, copies):
        self.url = server.url
        common = ["--app", APP, "--redis-url", server.url, "--log-level", "warning"]
        for _ in range(copies):
            group.start([str(BIN / "lattice-coordinator"), *common])
            for member in team_floor.MEMBERS:
                group.start([str(BIN / "lattice-worker"), "--member", member, *common])
        asyncio.run(self._ready(copies * (1 + len(team_floor.MEMBERS))))

    async def _ready(self, processes):
        async with self._client() as client:
            async with asyncio.timeout(60):
                while len(await client.processes()) < processes:  # noqa: ASYNC110 - they report to Redis, not to us
                    await asyncio.sleep(0.1)
            await client.result(await client.submit("warm up"), timeout=60)

    def _client(self):
        return LatticeClient(team="bench", redis_url=self.url)

    def idle(self, runs):
        return asyncio.run(self._idle(runs))

    async def _idle(self, runs):
        times = []
        async with self._client() as client:
            for number in range(runs):
                await asyncio.sleep(0.02)
                began = time.perf_counter()
                await self._finish(client, await client.submit(f"run {number}"))
                times.append((time.perf_counter() - began) * 1e3)
        return times

    def loaded(self, runs):
        return asyncio.run(self._loaded(runs))

    async def _loaded(self, runs):
        async with self._client() as client:
            began = time.perf_counter()
            ids = await asyncio.gather(*(client.submit(f"run {number}") for number in range(runs)))
            for run_id in ids:
                await self._finish(client, run_id)
            return runs / (time.perf_counter() - began)

    @staticmethod
    async def _finish(client, run_id):
        outcome = await client.result(run_id, timeout=120)
        if outcome["status"] != "succeeded":
            sys.exit(f"run {run_id} ended {outcome['status']}: {outcome['error']}")


SYSTEMS = {"floor": Floor, "lattice": Lattice}


def one_round(part, runs):
    figures = {}
    for name, system in SYSTEMS.items():
        with harness.PrivateRedis() as server, harness.Group() as group:
            running = system(server, group, 2 if part == "loaded" else 1)
            if part == "idle":
                running.idle(10)
                figures[name] = harness.percentile(running.idle(runs), 50)
            else:
                figures[name] = running.loaded(runs)
    return figures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("idle", "loaded"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, help="default: 100 for idle, 1,000 for loaded")
    options = parser.parse_args()
    runs = options.runs or (100 if options.part == "idle" else 1000)
    figures = harness.compare([one_round(options.part, runs) for _ in range(options.rounds)], "floor")
    unit = "ms" if options.part == "idle" else "runs/s"
    harness.show(f"A team task with three handoffs, {options.part}", unit, figures)
    harness.save(f"team-{options.part}", figures)


if __name__ == "__main__":
    main()
