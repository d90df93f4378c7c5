"""saq with its default concurrency of ten."""

from saq import Queue, Worker

from bench.peers.base import URL, AsyncPeer, now, stamp


async def job(_context, *, sent_at):
    return stamp(sent_at)


class Peer(AsyncPeer):
    async def a_open(self):
        self.queue = Queue.from_url(URL)
        await self.queue.connect()

    async def a_send(self):
        await self.queue.enqueue("job", sent_at=now())

    async def a_work(self):
        await Worker(self.queue, functions=[job]).start()
