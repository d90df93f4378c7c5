"""The floor: the same durable work on bare Redis, with nothing around it.

A mailbox is a stream. A claim reads the next entry and notes a lease; a settle checks the lease, removes the entry and
writes a report. Two scripts and two round trips a job, on redis-py's synchronous client.
"""

import os

import redis

from bench.peers.base import URL, BasePeer, now, stamp

CLAIM = """
local got = redis.call('XREADGROUP', 'GROUP', 'workers', ARGV[1], 'COUNT', 1, 'STREAMS', KEYS[1], '>')
if not got then return false end
local entry = got[1][2][1]
redis.call('ZADD', KEYS[2], ARGV[2], entry[1])
return {entry[1], entry[2][2]}
"""

SETTLE = """
if redis.call('ZREM', KEYS[2], ARGV[1]) == 0 then return 0 end
redis.call('XACK', KEYS[1], 'workers', ARGV[1])
redis.call('XDEL', KEYS[1], ARGV[1])
redis.call('XADD', KEYS[3], 'MAXLEN', '~', 1000, '*', 'of', ARGV[1], 'report', ARGV[2])
return 1
"""


class Peer(BasePeer):
    def open(self):
        self.redis = redis.Redis.from_url(URL)
        try:
            self.redis.xgroup_create("mailbox", "workers", id="0", mkstream=True)
        except redis.ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
        self.claim = self.redis.script_load(CLAIM)
        self.settle = self.redis.script_load(SETTLE)

    def send(self):
        self.redis.xadd("mailbox", {"sent": now()})

    def fill(self, count):
        for start in range(0, count, 1000):
            pipeline = self.redis.pipeline(transaction=False)
            for _ in range(min(1000, count - start)):
                pipeline.xadd("mailbox", {"sent": now()})
            pipeline.execute()

    def work(self):
        me, last = f"worker-{os.getpid()}", "0"
        run = self.redis.evalsha
        while True:
            entry = run(self.claim, 2, "mailbox", "leases", me, now() // 1_000_000 + 30_000)
            if entry is None:
                woken = self.redis.xread({"mailbox": last}, count=1, block=1000)
                last = _newest(woken) or last
                continue
            last = entry[0]
            run(self.settle, 3, "mailbox", "leases", "reports", entry[0], stamp(entry[1]))


def _newest(reply):
    """The id of the one entry that XREAD returned, in either protocol version."""
    if not reply:
        return None
    entries = next(iter(reply.values()))[0] if isinstance(reply, dict) else reply[0][1]
    return entries[0][0]
