"""Lets the retention pass at once, and says what is left of the work in Redis."""

import time

from lattice.redis.keys import Keys
from lattice.redis.run_store import RedisRunStore
from lattice.rq.queue import queue_name
from tests.chaos.world import LASTING_KINDS

FIXED = ("sequence", "depths", "dead")
RQ_FIXED = ("rq:queues", "rq:workers")
MOST_BYTES = 32 * 1024
"""What the keys that stay may take together, the dead letters not counted: nothing of it grows with the work."""


async def after_retention(redis, team, retention):
    """Pass the retention, forget, drop what would have expired; return the keys that should not be there, and bytes."""
    keys = Keys(team)
    for name in await redis.zrange(keys.retention, 0, -1):
        await redis.zadd(keys.retention, {name: 0})
    store = RedisRunStore(redis, team)
    while await store.forget_runs():
        pass
    await store.close()
    await _pass_rq_retention(redis, team, retention)
    left, size = [], 0
    async for key in redis.scan_iter(count=1000):
        if await redis.ttl(key) != -1:
            continue
        name = key.decode()
        if not _may_stay(name.removeprefix(keys.prefix), team):
            left.append(name)
        if name != keys.dead:
            size += await redis.memory_usage(key, samples=0) or 0
    if size > MOST_BYTES:
        left.append(f"{size} bytes in keys that stay")
    return sorted(left), size


async def _pass_rq_retention(redis, team, retention):
    later = int(time.time()) + 2 * retention
    for registry in ("finished", "failed", "canceled"):
        await redis.zremrangebyscore(f"rq:{registry}:{queue_name(team)}", 0, later)


def _may_stay(name, team):
    if name in FIXED or name.partition(":")[0] in LASTING_KINDS:
        return True
    return name.startswith("rq:") and (name in RQ_FIXED or name.startswith(("rq:workers:", "rq:worker:", "rq:clean")))
