"""Measures recovery: from the loss of a process until what it held is free, and until somebody else holds it."""

import asyncio
import time

from redis.exceptions import RedisError

ENDED = (b"succeeded", b"failed", b"cancelled", b"done")
LOOK = 0.05
QUANTILES = {"p50": 0.5, "p99": 0.99, "max": 1.0}


class Recovery:
    """Notes what a process holds when it is lost, and how many seconds later it was taken by somebody else."""

    def __init__(self, redis, keys):
        self._redis = redis
        self._keys = keys
        self._open = {}
        self.times = []
        self.freed = []
        self._bound = set()

    async def lost(self, pid):
        """A process has just been killed or frozen."""
        now = time.monotonic()
        for name, (owner, token, status) in (await self._held()).items():
            if owner and f"-{pid}-" in owner.decode() and status not in ENDED:
                self._open.setdefault(name, (now, token))
                self._bound.add(name)

    async def _held(self, names=None):
        if names is None:
            names = [name.decode() for name in await self._redis.zrange(self._keys.leases, 0, -1)]
        async with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                token = "epoch" if name.startswith("run:") else "attempt"
                pipe.hmget(f"{self._keys.prefix}{name}", "owner", token, "status")
            return dict(zip(names, await pipe.execute(), strict=True))

    async def watch(self):
        """Look until cancelled."""
        while True:
            try:
                if self._open:
                    self._note(await self._held(list(self._open)))
            except (RedisError, OSError):
                pass  # a server that is away is part of the test
            await asyncio.sleep(LOOK)

    def _note(self, held):
        now = time.monotonic()
        for name, (owner, token, status) in held.items():
            if name not in self._open:
                continue  # the server was away meanwhile
            lost_at, before = self._open[name]
            if name in self._bound and (token != before or not owner):
                self.freed.append((now - lost_at, time.time() - (now - lost_at), name))
                self._bound.discard(name)
            if status in ENDED or status is None:
                del self._open[name]  # it had ended just then, or was cancelled: nothing to recover
            elif token != before:
                self.times.append(now - lost_at)
                del self._open[name]

    @property
    def slowest(self):
        """The leases that were free last: name, when their holder was lost (epoch seconds), how long it took."""
        return [f"{name} lost at {at:.1f}: {took:.1f} s" for took, at, name in sorted(self.freed, reverse=True)[:5]]

    def disturbed(self):
        """Forget what is open: the server itself was away, so the times would say nothing of leases."""
        self._open.clear()
        self._bound.clear()

    @property
    def figures(self):
        """How many leases were recovered, after how many seconds they were freed, and held by somebody else again."""
        shown = {"recovered": len(self.times)}
        for what, times in (("freed", sorted(took for took, *_ in self.freed)), ("taken", sorted(self.times))):
            for name, share in QUANTILES.items():
                if times:
                    shown[f"{what} {name} (s)"] = round(times[min(len(times) - 1, int(share * len(times)))], 2)
        return shown
