"""A queue with its two clients and workers on it, and waiting for conditions."""

import asyncio

import redis as blocking
from redis.asyncio import Redis
from rq.job import Job

from lattice.rq.jobs import context_of
from lattice.rq.queue import make_job, queue_of
from lattice.rq.worker import AsyncWorker


async def until(condition, timeout=10.0):
    deadline = asyncio.get_running_loop().time() + timeout
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        assert asyncio.get_running_loop().time() < deadline, f"not within {timeout} s: {condition}"
        await asyncio.sleep(0.01)


class House:
    """A queue with its two clients, and workers on it."""

    def __init__(self, url):
        self.blocking = blocking.Redis.from_url(url)
        self.redis = Redis.from_url(url, socket_timeout=20)
        self.queue = queue_of("trio", self.blocking)
        self.engine = Engine()
        self.workers = []

    def enqueue(self, run_id, **options):
        job = make_job(self.queue, run_id, description="a task", keep=600, **options)
        return self.queue.enqueue_job(job)

    def job(self, run_id):
        return Job.fetch(run_id, connection=self.blocking, serializer=self.queue.serializer)

    async def worker(self, *, concurrency=10, burst=False, name=None, engine=True):
        name = name or f"worker-{len(self.workers)}"
        worker = await asyncio.to_thread(
            AsyncWorker,
            self.queue,
            self.redis,
            name=name,
            concurrency=concurrency,
            keep=600,
            context=context_of(self.engine) if engine else None,
        )
        await worker.open()
        worker.taking = asyncio.create_task(worker.take_jobs(burst=burst))
        self.workers.append(worker)
        return worker

    async def close(self):
        for worker in self.workers:
            await worker.stop_taking()
            worker.taking.cancel()
            for task in list(worker._tasks.values()):
                task.cancel()
        await asyncio.gather(*[w.taking for w in self.workers], return_exceptions=True)
        for worker in self.workers:
            await worker.close()
        await self.redis.aclose()
        self.blocking.close()


class Engine:
    """Ends each run with what the test says; a run without an answer waits."""

    def __init__(self):
        self.answers = {}
        self.driven = []
        self.again = []

    async def drive(self, run_id, *, again=False):
        self.driven.append(run_id)
        self.again.append(again)
        answer = self.answers.get(run_id)
        if answer is None:
            answer = self.answers[run_id] = asyncio.get_running_loop().create_future()
        if isinstance(answer, asyncio.Future):
            answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        return {"run_id": run_id, "status": answer, "result": f"result of {run_id}", "usage": None, "error": None}
