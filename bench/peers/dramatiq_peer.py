"""dramatiq with its default eight worker threads, results stored."""

import threading

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends.redis import RedisBackend

from bench.peers.base import URL, BasePeer, now, stamp

broker = RedisBroker(url=URL)
broker.add_middleware(Results(backend=RedisBackend(url=URL)))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def job(sent_at):
    return stamp(sent_at)


class Peer(BasePeer):
    def open(self):
        pass

    def send(self):
        job.send(now())

    def work(self):
        dramatiq.Worker(broker, worker_threads=8).start()
        threading.Event().wait()
