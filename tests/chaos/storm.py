"""The fault suite's storm: real processes under load, and everything that can happen to them, from one seed."""

import asyncio
import contextlib
import json
import math
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from redis.exceptions import RedisError

from lattice.abort import end_tasks
from lattice.client import LatticeClient
from lattice.errors import LatticeError
from lattice.redis.connection import open_redis
from lattice.redis.keys import Keys
from lattice.redis.run_store import RedisRunStore
from lattice.run_store import StoreOptions
from tests.chaos.checker import Cancel, Story, check
from tests.chaos.faults import FAULT
from tests.chaos.memory import after_retention, rq_is_done
from tests.chaos.processes import Processes
from tests.chaos.record import read_record
from tests.chaos.watch import Recovery
from tests.chaos.world import read_world
from tests.processes.commands import eventually
from tests.processes.servers import RedisServer

APP = "tests.chaos.app:team"
TEAM = "storm"
RETENTION = 3600
KINDS = ("coordinator", "coordinator", "alpha", "alpha", "beta", "gamma", "gamma", "delta")
FAULTS = {
    "kill": 30,
    "freeze": 12,
    "drain": 12,
    "die_at_point": 12,
    "cancel": 20,
    "script_flush": 8,
    "client_kill": 8,
    "redis_pause": 3,
    "redis_restart": 3,
    "redis_outage": 1,
}
POINTS = (
    "after_claim",
    "after_answer",
    "tool_done",
    "after_results",
    "before_settle",
    "after_settle",
    "before_hand_off",
    "after_hand_off",
    "after_resume",
    "before_finish_run",
    "after_finish_run",
    "before_finish_job",
    "after_take",
)


@dataclass(frozen=True)
class Plan:
    """What a storm is made of.

    With so many attempts only poison runs out of them, however often other work loses its process.
    """

    seconds: float
    seed: int
    max_attempts: int = 8
    in_flight: int = 200
    lease: float = 2.0
    latency: str = "0-0.15"
    pause: tuple[float, float] = (0.2, 1.0)
    settle_seconds: float = 180.0
    faults: dict = field(default_factory=lambda: dict(FAULTS))
    environment: dict = field(default_factory=dict)
    poison: bool = True
    """Whether every fiftieth run has work that kills whoever works on it."""


@dataclass
class Outcome:
    """What came of it; ``problems`` is empty when every promise was kept."""

    problems: list
    figures: dict
    broken: set


class Storm:
    """One storm, from start to check."""

    def __init__(self, plan, folder):
        self.plan = plan
        self.folder = Path(folder)
        self.random = random.Random(plan.seed)
        self.server = RedisServer(self.folder / "redis")
        self.keys = Keys(TEAM)
        self.accepted = {}
        self.in_flight = set()
        self.cancels = {}
        self.deaf = []
        """(pid or None for all, from, until): when a process, or everybody, could hear nothing."""
        self.done = Counter()
        self.slots = {}
        self.background = set()
        self.raining = True
        self.broken_start = None
        """What a process said that ended with an error of its own: nothing that a fault explains."""
        self.numbers = 0

    async def run(self):
        """Let it rain, wait for calm, and check."""
        self.server.start()
        self.redis = open_redis(self.server.url)
        environment = {
            "CHAOS_LATENCY": self.plan.latency,
            "CHAOS_SEED": str(self.plan.seed),
            "LATTICE_RETENTION": f"{RETENTION}s",
            "LATTICE_MAX_ATTEMPTS": str(self.plan.max_attempts),
            "LATTICE_DRAIN_TIMEOUT": "1s",
            **self.plan.environment,
        }
        lease = f"{self.plan.lease:g}s"
        self.processes = Processes(
            self.server.url, self.folder, app=APP, team=TEAM, lease=lease, environment=environment
        )
        self.recovery = Recovery(self.redis, self.keys)
        try:
            return await self._weather()
        finally:
            await end_tasks(self.background)
            await asyncio.to_thread(self.processes.close)
            await self.redis.aclose()
            self.server.stop()

    async def _weather(self):
        options = StoreOptions(retention_ms=RETENTION * 1000)
        async with LatticeClient(team=TEAM, redis_url=self.server.url, options=options) as self.client:
            for slot, kind in enumerate(KINDS):
                self._start(slot, kind)
            for duty in (self._feed(), self._keep_alive(), self.recovery.watch()):
                self._begin(duty)
            await self._until(lambda: len(self.in_flight) >= self.plan.in_flight, 60, "enough runs in flight")
            started = time.monotonic()
            while time.monotonic() - started < self.plan.seconds:
                await self._one_fault()
                await asyncio.sleep(self.random.uniform(*self.plan.pause))
            self.raining = False
            calm = time.monotonic()
            with contextlib.suppress(AssertionError):  # the checker says which runs have not ended
                await self._until(lambda: not self.in_flight, self.plan.settle_seconds, "all runs end")
            return await self._judge(time.monotonic() - calm)

    def _begin(self, work):
        task = asyncio.get_running_loop().create_task(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    async def _until(self, condition, within, what):
        deadline = time.monotonic() + within
        while not condition():
            assert self.broken_start is None, self.broken_start[-3000:]
            assert time.monotonic() < deadline, f"{what}: not within {within:g} s"
            await asyncio.sleep(0.05)

    # --- load ---------------------------------------------------------------------------------------------------

    async def _feed(self):
        """Keep so many runs in flight."""
        while self.raining:
            if len(self.in_flight) >= self.plan.in_flight:
                await asyncio.sleep(0.01)
                continue
            number, self.numbers = self.numbers, self.numbers + 1
            kind = "poison" if self.plan.poison and number % 50 == 25 else "plain"
            run_id = await self._submitted(f"run {number} {kind}", number)
            self.accepted[run_id] = number
            self.in_flight.add(run_id)
            self._begin(self._follow(run_id))

    async def _submitted(self, task, number):
        """Submit until it is accepted, as a caller would whom Redis was away for too long: under the same key."""
        while True:
            try:
                return await self.client.submit(task, id=str(number))
            except (LatticeError, RedisError, OSError):
                self.done["client errors"] += 1
                await asyncio.sleep(0.2)

    async def _follow(self, run_id):
        while True:
            try:
                await self.client.result(run_id)
                self.in_flight.discard(run_id)
                return
            except (LatticeError, RedisError, OSError):
                self.done["client errors"] += 1
                await asyncio.sleep(0.2)

    # --- processes ----------------------------------------------------------------------------------------------

    def _start(self, slot, kind, **environment):
        member = None if kind == "coordinator" else kind
        role = "coordinator" if member is None else "worker"
        self.slots[slot] = self.processes.start(role, member, **environment)

    async def _keep_alive(self):
        """Start again what has died."""
        while True:
            for slot, process in list(self.slots.items()):
                if not process.alive:
                    if process.code == 1:
                        self.broken_start = process.log
                    self.done[f"ended with {process.code}"] += 1
                    self._start(slot, KINDS[slot])
            await asyncio.sleep(self.random.uniform(0.05, 0.4))

    def _victim(self):
        running = [p for p in self.slots.values() if p.alive and not p.stopped]
        return self.random.choice(running) if running else None

    # --- faults -------------------------------------------------------------------------------------------------

    async def _one_fault(self):
        fault = self.random.choices(list(self.plan.faults), list(self.plan.faults.values()))[0]
        since = time.time()
        try:
            if (done := await getattr(self, f"_{fault}")()) is False:
                return
            self.done[fault] += 1
        except (RedisError, OSError, LatticeError) as error:
            self.done["faults refused by Redis"] += 1
            done = repr(error)
        with self.folder.joinpath("faults.jsonl").open("a") as log:
            line = {"fault": fault, "since": since, "until": time.time(), "to": done}
            log.write(json.dumps(line, default=str) + "\n")

    async def _kill(self):
        victim = self._victim()
        if victim is None:
            return False
        victim.freeze()  # what it holds is looked at while it can no longer change
        try:
            await self.recovery.lost(victim.pid)
        finally:
            victim.kill()
        return victim

    async def _freeze(self):
        victim = self._victim()
        if victim is None:
            return False
        victim.freeze()
        self._begin(self._thaw(victim, self.plan.lease * self.random.uniform(1.2, 2.5)))
        await self.recovery.lost(victim.pid)
        return victim

    async def _thaw(self, victim, seconds):
        frozen = time.time()
        await asyncio.sleep(seconds)
        self.deaf.append((victim.pid, frozen, time.time()))
        victim.thaw()

    async def _drain(self):
        victim = self._victim()
        if victim is None:
            return False
        victim.drain()
        return victim

    async def _die_at_point(self):
        """Replace a process by one that dies at its nth step of some kind."""
        slot = self.random.randrange(len(KINDS))
        process = self.slots[slot]
        if not process.alive or process.stopped:
            return False
        process.kill()
        await process.ended()
        self._start(slot, KINDS[slot], **{FAULT: f"{self.random.choice(POINTS)}:{self.random.randint(1, 20)}"})
        return process

    async def _cancel(self):
        if not self.in_flight:
            return False
        run_id = self.random.choice(sorted(self.in_flight))
        # Until the answer is there nobody knows when it took effect; it may also be lost, like any reply.
        cancel = self.cancels.setdefault(run_id, Cancel(math.inf))
        if await self.client.cancel(run_id) != "cancelled":
            return False
        cancel.at = time.time()
        return run_id

    async def _script_flush(self):
        await self.redis.script_flush()

    async def _client_kill(self):
        await self.redis.client_kill_filter(_type="normal", skipme=True)

    async def _redis_pause(self):
        """The server answers nobody for a while."""
        with self._away():
            self.server.freeze()
            await asyncio.sleep(self.plan.lease * self.random.uniform(0.5, 1.5))
            self.server.thaw()

    async def _redis_restart(self):
        await self._restart_after(self.random.uniform(0, 1))

    async def _redis_outage(self):
        """The server is away for longer than every lease."""
        await self._restart_after(self.plan.lease * self.random.uniform(1.2, 2))

    async def _restart_after(self, seconds):
        with self._away():
            await asyncio.to_thread(self.server.stop)
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.server.start)

    @contextlib.contextmanager
    def _away(self):
        """Nobody hears anything meanwhile, and what was being recovered is not measured any more."""
        since = time.time()
        self.recovery.disturbed()
        yield
        self.recovery.disturbed()
        self.deaf.append((None, since, time.time()))

    # --- the end ------------------------------------------------------------------------------------------------

    async def _judge(self, calm):
        await self._until(lambda: not any(p.stopped for p in self.slots.values() if p.alive), 30, "all are thawed")
        await self.redis.connection_pool.disconnect()  # some of its connections are from before a restart
        await eventually(lambda: rq_is_done(self.redis, TEAM), 60)
        await asyncio.sleep(1.5)  # what a cancelled run may still do, it does now
        for cancel in self.cancels.values():
            self._mark_deaf(cancel)
        story = Story(
            await read_world(self.redis, self.keys, list(self.accepted)),
            read_record(self.folder),
            self.accepted,
            self.cancels,
            self.deaf,
        )
        findings = check(story)
        store = RedisRunStore(self.redis, TEAM)
        left, size = await after_retention(self.redis, store, TEAM, alone=True)
        await store.close()
        findings.expect("memory", not left, f"left after the retention: {left[:10]}")
        figures = {
            "seed": self.plan.seed,
            "seconds": self.plan.seconds,
            "faults": dict(sorted(self.done.items())),
            "processes started": len(self.processes.started),
            **{name: findings.figures[name] for name in sorted(findings.figures)},
            "tried again": sum(tries > 1 for tries in _tries(story.world).values()),
            "leases lost": sum(lost > 0 for lost in _losses(story.world).values()),
            "lost": sum(p in ("run_ends", "message_ends_once") for p, _ in findings.problems),
            "duplicates": sum(
                findings.figures[n] for n in ("model calls repeated", "effects repeated", "reports shown twice")
            ),
            "lease": self.plan.lease,
            **{f"recovery {k}": v for k, v in self.recovery.figures.items()},
            "calm after (s)": round(calm, 1),
            "bytes left in Redis": size,
            "slowest": self.recovery.slowest,
        }
        return Outcome(findings.problems, figures, findings.broken)

    def _mark_deaf(self, cancel):
        for pid, since, end in self.deaf:
            if since - 1 <= cancel.at + 1 and end >= cancel.at:
                cancel.deaf_until[pid] = max(end, cancel.deaf_until.get(pid, 0.0))


def _tries(world):
    """How often each message was claimed, and each run taken."""
    tries = {f"message:{m['id']}": int(m.get("attempt", 0)) for m in world.messages.values()}
    return tries | {f"run:{run_id}": int(run["epoch"]) for run_id, run in world.runs.items()}


def _losses(world):
    """How often each message, or run, was taken from whoever held it: what was given back is no loss."""
    given_back = {f"message:{m['id']}": int(m.get("handedBack", 0)) for m in world.messages.values()}
    return {name: tries - 1 - given_back.get(name, 0) for name, tries in _tries(world).items()}
