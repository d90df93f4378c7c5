"""taskiq on a Redis stream with its result back end, 100 tasks at a time as by default."""

from taskiq.api import run_receiver_task
from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

from bench.peers.base import URL, AsyncPeer, now, stamp

broker = RedisStreamBroker(URL).with_result_backend(RedisAsyncResultBackend(URL))


@broker.task
async def job(sent_at: int) -> str:
    return stamp(sent_at)


class Peer(AsyncPeer):
    async def a_open(self):
        await broker.startup()

    async def a_send(self):
        await job.kiq(now())

    async def a_work(self):
        broker.is_worker_process = True
        await run_receiver_task(broker, run_startup=True)
