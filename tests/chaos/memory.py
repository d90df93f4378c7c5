"""Lets the retention pass at once, and says what is left of the work in Redis."""

from lattice.redis.keys import Keys
from lattice.rq.queue import queue_name
from tests.chaos.world import LASTING_KINDS

FIXED = ("sequence", "depths", "dead")
RQ_FIXED = ("rq:queues", "rq:workers")
MOST_BYTES = 32 * 1024
"""What the keys that stay may take together, the dead letters not counted: nothing of it grows with the work."""


async def rq_is_done(redis, team):
    """Whether RQ, too, knows of every end: it is told after the run has ended, and by another if that one died."""
    return await redis.zcard(f"rq:wip:{queue_name(team)}") == 0


async def after_retention(redis, store, team, *, alone=False):
    """Pass the retention and forget; return the keys that neither expire nor may stay, and how many bytes stay.

    ``alone`` says that the server has no other team.
    """
    keys = Keys(team)
    for name in await redis.zrange(keys.retention, 0, -1):
        await redis.zadd(keys.retention, {name: 0})
    while await store.forget_runs():
        pass
    await _pass_rq_retention(redis, team)
    left, size = [], 0
    for pattern in (f"{keys.prefix}*", "rq:*" if alone else f"rq:*{queue_name(team)}*"):
        async for key in redis.scan_iter(match=pattern, count=1000):
            if await redis.ttl(key) != -1:
                continue
            name = key.decode()
            if not _may_stay(name.removeprefix(keys.prefix)):
                left.append(name)
            if name != keys.dead:
                size += await redis.memory_usage(key, samples=0) or 0
    if size > MOST_BYTES:
        left.append(f"{size} bytes in keys that stay")
    return sorted(left), size


async def _pass_rq_retention(redis, team):
    for registry in ("finished", "failed", "canceled"):
        await redis.zremrangebyscore(f"rq:{registry}:{queue_name(team)}", 0, "(+inf")  # the scores are when they expire


def _may_stay(name):
    if name in FIXED or name.partition(":")[0] in LASTING_KINDS:
        return True
    return name.startswith("rq:") and (name in RQ_FIXED or name.startswith(("rq:workers:", "rq:worker:", "rq:clean")))
