"""A team's processes inside one test process: each has its own host and its own view of the store, and can die."""

import asyncio
from contextlib import suppress

from lattice.errors import StoreError
from lattice.runs import RunRecord
from lattice.team.coordinator import Coordinator
from lattice.team.host import Host
from lattice.team.worker import MemberWorker


class MortalStore:
    """A store whose process can die: from then on nothing gets through."""

    def __init__(self, store):
        self._store = store
        self.options = store.options
        self.dead = False
        self.calls = []
        self.breaks = []
        self.loses_reply = []

    def __getattr__(self, name):
        method = getattr(self._store, name)

        async def call(*args, **kwargs):
            if self.dead:
                raise StoreError("this process is dead")
            self.calls.append(name)
            if name in self.breaks:
                self.breaks.remove(name)
                raise StoreError("the connection broke")
            result = await method(*args, **kwargs)
            if self.dead:
                raise StoreError("this process is dead")
            if name in self.loses_reply:
                self.loses_reply.remove(name)
                raise StoreError("the reply was lost")
            return result

        return call


class Process:
    """One process: a host, and a worker or a coordinator on it."""

    def __init__(self, backend, team, name, *, member=None, concurrency=1, lease_ms=60_000, limits=None):
        self.backend, self.limits = backend, limits or {}
        self.store = MortalStore(backend.store(**self.limits))
        self.inner_stores = []
        self.host = Host(self.store, process_id=name, lease_ms=lease_ms, open_team=self._open_team)
        self.worker = None if member is None else MemberWorker(self.host, team, member, concurrency=concurrency)
        self.coordinator = Coordinator(self.host, team) if member is None else None
        self.tasks = []

    def _open_team(self, key):
        self.inner_stores.append(MortalStore(self.backend.space(key, **self.limits)))
        return self.inner_stores[-1]

    async def start(self):
        await self.host.start()
        if self.worker is not None:
            self.tasks.append(asyncio.create_task(self.worker.run()))
        return self

    def drive(self, run_id):
        task = asyncio.create_task(self.coordinator.drive(run_id))
        self.tasks.append(task)
        return task

    async def kill(self):
        """Die as by SIGKILL: nothing more is written, nothing is handed back."""
        for store in (self.store, *self.inner_stores):
            store.dead = True
        work = _all_tasks(self.worker) if self.worker is not None else _delegate_tasks(self.coordinator)
        for task in [*self.tasks, *work]:
            task.cancel()
        await asyncio.gather(*self.tasks, *work, return_exceptions=True)
        await self.host.stop()

    async def stop(self):
        if self.store.dead:
            return
        if self.worker is not None:
            await self.worker.stop()
        else:
            await self.coordinator.hand_over()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.host.stop()


def _delegate_tasks(server):
    """What is under way behind the tools that a process serves."""
    tasks = list(server._delegates._tasks)
    for worker in server._delegates._workers:
        tasks += _all_tasks(worker)
    return tasks


def _all_tasks(worker):
    """What is under way in a worker, its inner team included."""
    tasks = [*worker._tasks, *_delegate_tasks(worker)]
    if worker._nested is not None:
        tasks += worker._nested._tasks
        for inner in worker._nested._workers:
            tasks += _all_tasks(inner)
    return tasks


class Cluster:
    """The processes of one team over one backend."""

    def __init__(self, backend, team, **limits):
        self.backend, self.team, self.limits = backend, team, limits
        self.store = backend.store(**limits)
        self.processes = []

    async def worker(self, member, **options):
        name = f"worker-{member}-{len(self.processes)}"
        return await self._start(Process(self.backend, self.team, name, member=member, limits=self.limits, **options))

    async def coordinator(self, **options):
        name = f"coordinator-{len(self.processes)}"
        return await self._start(Process(self.backend, self.team, name, limits=self.limits, **options))

    async def _start(self, process):
        self.processes.append(process)
        return await process.start()

    async def workers(self, **options):
        return [await self.worker(member.key, **options) for member in self.team.members]

    async def submit(self, task="go", run_id="run", **more):
        assert await self.store.start_run(RunRecord(id=run_id, team=self.team.key, task=task, **more)) == "started"
        return run_id

    async def run(self, task="go", run_id="run", **more):
        """Submit a task, start whatever is needed, and return the outcome."""
        await self.submit(task, run_id, **more)
        if not any(process.worker for process in self.processes):
            await self.workers()
        coordinator = next((p for p in self.processes if p.coordinator and not p.store.dead), None)
        coordinator = coordinator or await self.coordinator()
        return await asyncio.wait_for(coordinator.drive(run_id), 10)

    async def events(self, run_id="run"):
        return [event for _, event in await self.store.read_events(run_id)]

    async def expire(self):
        """Let every lease run out, and free what the dead held."""
        await self.backend.expire_leases()
        return await self.store.reclaim_expired("reaper", 1, runs=False)

    async def close(self):
        for process in self.processes:
            with suppress(StoreError):
                await process.stop()


class Gate:
    """Holds whoever comes by until it is opened."""

    def __init__(self):
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        self.visits = 0

    async def __call__(self):
        self.visits += 1
        self.reached.set()
        await self.open.wait()


async def until(condition, seconds=5):
    """Wait for a condition to hold."""
    async with asyncio.timeout(seconds):
        while not (await condition() if asyncio.iscoroutinefunction(condition) else condition()):
            await asyncio.sleep(0.005)
