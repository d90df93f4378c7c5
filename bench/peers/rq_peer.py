"""RQ with a worker that forks no process per job, its fastest one."""

from redis import Redis
from rq import Queue, SimpleWorker

from bench.peers.base import URL, BasePeer, now, stamp


class Peer(BasePeer):
    def open(self):
        self.redis = Redis.from_url(URL)
        self.queue = Queue("bench", connection=self.redis)

    def send(self):
        self.queue.enqueue(stamp, now())

    def fill(self, count):
        for start in range(0, count, 1000):
            jobs = [Queue.prepare_data(stamp, (now(),)) for _ in range(min(1000, count - start))]
            self.queue.enqueue_many(jobs)

    def work(self):
        SimpleWorker([self.queue], connection=self.redis).work(logging_level="ERROR")
