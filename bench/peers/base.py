"""One queue as the benchmarks see it: send jobs, or work on them; standard library only, so that it runs anywhere."""

import asyncio
import os
import struct
import time

RECORD = struct.Struct("<qq")
_log = os.open(os.environ["BENCH_LOG"], os.O_WRONLY | os.O_APPEND) if "BENCH_LOG" in os.environ else None
URL = os.environ.get("BENCH_URL", "redis://127.0.0.1:1/0")


def now():
    return time.monotonic_ns()


def stamp(sent_at):
    """The job of every peer: note when it was sent and when it started."""
    os.write(_log, RECORD.pack(int(sent_at), now()))
    return "done"


class BasePeer:
    """A queue with a synchronous client."""

    def open(self):
        raise NotImplementedError

    def send(self):
        """Enqueue one job ``stamp(now())`` by the public call and wait until Redis has it."""
        raise NotImplementedError

    def work(self):
        """Work on jobs for ever, at the default settings, results stored."""
        raise NotImplementedError

    def fill(self, count):
        """Enqueue many as fast as it goes; never timed."""
        for _ in range(count):
            self.send()

    def pace(self, count, interval):
        """Enqueue one job every ``interval`` seconds."""
        due = time.monotonic()
        for _ in range(count):
            due += interval
            time.sleep(max(0.0, due - time.monotonic()))
            self.send()


class AsyncPeer(BasePeer):
    """A queue with an asyncio client; the coroutines ``a_open``, ``a_send``, ``a_work`` are what a peer writes."""

    def __init__(self):
        try:
            import uvloop
        except ImportError:
            self.loop = asyncio.new_event_loop()
        else:
            self.loop = uvloop.new_event_loop()
        asyncio.set_event_loop(self.loop)

    def open(self):
        self.loop.run_until_complete(self.a_open())

    def send(self):
        self.loop.run_until_complete(self.a_send())

    def work(self):
        self.loop.run_until_complete(self.a_work())

    def fill(self, count):
        self.loop.run_until_complete(self._fill(count))

    def pace(self, count, interval):
        self.loop.run_until_complete(self._pace(count, interval))

    async def _fill(self, count, lanes=50):
        async def lane(jobs):
            for _ in range(jobs):
                await self.a_send()

        await asyncio.gather(*(lane(count // lanes + (index < count % lanes)) for index in range(lanes)))

    async def _pace(self, count, interval):
        due = time.monotonic()
        for _ in range(count):
            due += interval
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            await self.a_send()
