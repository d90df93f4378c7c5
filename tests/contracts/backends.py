"""Run stores to test, and the two things that tests do to their clocks."""

from lattice.memory.run_store import MemoryRunStore
from lattice.redis.run_store import RedisRunStore
from lattice.run_store import StoreOptions

TEAM = "crew"


class MemoryBackend:
    """One process: every store of a test is the same one."""

    durable = False

    def __init__(self):
        self.now = 1_000_000
        self.one = None
        self.spaces = {}

    def store(self, **limits):
        if self.one is None:
            self.one = MemoryRunStore(options=StoreOptions(**limits), clock=lambda: self.now, expire_leases=True)
        return self.one

    def space(self, key, **limits):
        """The store of another key space."""
        if key not in self.spaces:
            self.spaces[key] = MemoryRunStore(
                options=StoreOptions(**limits), clock=lambda: self.now, expire_leases=True
            )
        return self.spaces[key]

    async def expire_leases(self):
        self.now += 10 * 60_000

    async def end_retention(self):
        self.now += 8 * 24 * 3_600_000

    async def pass_time(self, ms):
        self.now += ms

    async def close(self):
        pass


class RedisBackend:
    """A server, real or not: each store is another process's view of it."""

    kind = RedisRunStore

    durable = True

    def __init__(self, client):
        self.client = client
        self.stores = []

    def store(self, **limits):
        self.stores.append(self.kind(self.client, TEAM, StoreOptions(**limits)))
        return self.stores[-1]

    def space(self, key, **limits):
        """The store of another key space."""
        self.stores.append(self.kind(self.client, key, StoreOptions(**limits)))
        return self.stores[-1]

    @property
    def keys(self):
        return self.stores[0].keys

    async def expire_leases(self):
        """As if a long time had passed while others looked for expired leases; the order of the deadlines stays."""
        for keys in {store.keys.prefix: store.keys for store in self.stores}.values():
            await self._to_the_past(keys.leases)
            await self.client.delete(keys.grace)
            await self.client.set(keys.looking, "1", px=600_000)

    async def end_retention(self):
        await self._to_the_past(self.keys.retention)

    async def pass_time(self, ms):
        """As if so much time had passed for retries and for the deadlines of runs."""
        for message_id, due in await self.client.zrange(self.keys.delayed, 0, -1, withscores=True):
            await self.client.zadd(self.keys.delayed, {message_id: due - ms})
        for run_id in await self.client.zrange(self.keys.runs, 0, -1):
            if await self.client.hexists(self.keys.run(run_id.decode()), "startedAt"):
                await self.client.hincrby(self.keys.run(run_id.decode()), "startedAt", -ms)

    async def _to_the_past(self, key):
        for score, name in enumerate(await self.client.zrange(key, 0, -1), 1):
            await self.client.zadd(key, {name: score})

    async def close(self):
        for store in self.stores:
            await store.close()


class OneByOne(RedisRunStore):
    """fakeredis, other than a server, carries out what comes behind a blocking command before that is done."""

    async def _block(self, block_ms, *commands):
        return [(await super(OneByOne, self)._block(block_ms, command))[0] for command in commands]


class FakeRedisBackend(RedisBackend):
    """The store on fakeredis."""

    kind = OneByOne
