"""What a Redis server is like for a team's work, in plain words: for people who want to know before it matters."""

import time
from dataclasses import asdict, dataclass
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from lattice.errors import StoreError
from lattice.redis.connection import check_server, redact_url
from lattice.redis.keys import Keys

__all__ = ["OK", "WARNING", "WRONG", "Finding", "examine_server"]

OK, WARNING, WRONG = "ok", "warning", "wrong"

_SLOW = 0.05
"""Seconds of a round trip from which on work is felt to be slow."""

_SKEW = 2.0
_FULL = 0.9

_RIGHTS = """
local key = KEYS[1]
local tried = {
  {'SET', key, '1'}, {'GET', key}, {'PEXPIRE', key, '60000'}, {'PTTL', key}, {'PERSIST', key}, {'EXISTS', key},
  {'DEL', key}, {'INCR', key}, {'DEL', key},
  {'HSET', key, 'f', '1'}, {'HGET', key, 'f'}, {'HMGET', key, 'f'}, {'HGETALL', key}, {'HINCRBY', key, 'f', '1'},
  {'HDEL', key, 'f'}, {'DEL', key},
  {'RPUSH', key, '1'}, {'LPUSH', key, '1'}, {'LLEN', key}, {'LRANGE', key, '0', '-1'}, {'LREM', key, '0', '9'},
  {'LPOP', key}, {'DEL', key},
  {'SADD', key, '1'}, {'SISMEMBER', key, '1'}, {'SMEMBERS', key}, {'SREM', key, '1'}, {'DEL', key},
  {'ZADD', key, '1', 'm'}, {'ZSCORE', key, 'm'}, {'ZRANGE', key, '0', '-1'}, {'ZRANGEBYSCORE', key, '-inf', '0'},
  {'ZREM', key, 'm'}, {'DEL', key},
  {'XADD', key, '1-1', 'f', '1'}, {'XGROUP', 'CREATE', key, 'workers', '0'},
  {'XREADGROUP', 'GROUP', 'workers', 'w', 'COUNT', '1', 'NOACK', 'STREAMS', key, '>'}, {'XRANGE', key, '-', '+'},
  {'XREVRANGE', key, '+', '-'}, {'XDEL', key, '1-1'}, {'DEL', key}, {'TIME'},
}
local refused = {}
for _, command in ipairs(tried) do
  local reply = redis.pcall(unpack(command))
  local why = type(reply) == 'table' and reply.err and tostring(reply.err) or ''
  if string.find(why, 'permission', 1, true) or string.find(why, "can't run", 1, true) then
    refused[#refused + 1] = string.lower(command[1])
  end
end
return refused
"""
"""Tries what the scripts need, on a key of its own that is gone when it ends."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: ``status`` is ok, warning or wrong; ``do`` is what helps."""

    check: str
    status: str
    says: str
    do: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the form of ``--json``."""
        return asdict(self)


async def examine_server(redis: Redis, url: str, team: str) -> list[Finding]:
    """Look at a server; the last finding is the first that makes all others pointless."""
    try:
        facts = await check_server(redis, url)
    except StoreError as error:
        return [Finding("redis", WRONG, error.message)]
    client: Any = redis
    info = await _info(client)
    found = [Finding("redis", OK, f"{facts.name} {facts.version} at {redact_url(url)}")]
    if info is None:
        found.append(Finding("persistence", WARNING, "the user may not ask (INFO); nobody knows what a crash loses"))
    else:
        found += [await _persistence(client, info), _memory(info)]
    return [*found, await _rights(client, Keys(team).doctor), *await _times(client)]


async def _info(client: Any) -> dict[str, Any] | None:
    try:
        facts: dict[str, Any] = await client.info()
    except ResponseError:
        return None
    return facts


async def _config(client: Any, name: str) -> str | None:
    try:
        found = await client.config_get(name)
    except ResponseError:
        return None
    value = found.get(name, found.get(name.encode()))
    return value.decode() if isinstance(value, bytes) else value


async def _persistence(client: Any, info: dict[str, Any]) -> Finding:
    """Say what a crash may lose."""
    name = "persistence"
    if str(info.get("aof_enabled", 0)) == "1":
        if str(info.get("aof_last_write_status", "ok")) != "ok":
            return Finding(
                name, WRONG, "the append-only file cannot be written", "look at the disk and the log of Redis"
            )
        policy = await _config(client, "appendfsync")
        lost = {
            "always": "every write is on disk before it is answered: nothing that was accepted is lost",
            "no": "the system decides when to write: a crash of the machine may lose some 30 seconds",
        }.get(policy or "", "a crash of the machine may lose about the last second; one of Redis alone loses nothing")
        return Finding(name, OK, f"append-only file, fsync {policy or 'everysec?'}: {lost}")
    on = "redis-cli CONFIG SET appendonly yes"
    if str(info.get("rdb_last_bgsave_status", "ok")) != "ok":
        return Finding(name, WRONG, "the last snapshot failed, and there is no append-only file", on)
    save = await _config(client, "save")
    if save == "" or (save is None and not info.get("rdb_last_save_time")):
        return Finding(name, WARNING, "none: when Redis ends, all runs and messages are lost", on)
    age = max(0, int(time.time()) - int(info.get("rdb_last_save_time", 0) or 0))
    says = f"snapshots only: a crash of Redis loses everything since the last one, {age} s ago now"
    return Finding(name, WARNING, says, on)


def _memory(info: dict[str, Any]) -> Finding:
    limit, used = int(info.get("maxmemory", 0) or 0), int(info.get("used_memory", 0) or 0)
    shown = f"{used / 1024**2:.0f} MiB"
    if not limit:
        return Finding("memory", OK, f"{shown} used, no limit; nothing is evicted")
    says = f"{shown} of {limit / 1024**2:.0f} MiB used, nothing is evicted"
    if used > _FULL * limit:
        return Finding("memory", WARNING, f"{says}: nearly full, then new work is refused", "raise maxmemory")
    return Finding("memory", OK, says)


async def _rights(client: Any, key: str) -> Finding:
    """Say whether this user may do what the processes of a team do."""
    try:
        refused = await client.eval(_RIGHTS, 1, key)
    except RedisError as error:
        return Finding("rights", WARNING, f"this user may not run scripts on the team's keys: {error}")
    if not refused:
        return Finding("rights", OK, "this user may do all that a worker does")
    names = ", ".join(sorted({name.decode() if isinstance(name, bytes) else str(name) for name in refused}))
    return Finding(
        "rights",
        WARNING,
        f"this user may not: {names}. To look it is enough; a worker or coordinator needs them",
        "deploy/redis.acl names the rights of each role",
    )


async def _times(client: Any) -> list[Finding]:
    trips, skews = [], []
    for _ in range(10):
        sent = time.time()
        started = time.perf_counter()
        try:
            seconds, microseconds = await client.time()
        except RedisError as error:
            return [Finding("clock", WARNING, f"the clock of Redis cannot be read: {error}")]
        trip = time.perf_counter() - started
        trips.append(trip)
        skews.append(seconds + microseconds / 1e6 - sent - trip / 2)
    trip, skew = sorted(trips)[len(trips) // 2], min(skews, key=abs)
    says = f"round trip {trip * 1000:.1f} ms (longest of 10: {max(trips) * 1000:.1f} ms)"
    slow = Finding("latency", WARNING, f"{says}: every step of the work waits for it", "move closer to Redis")
    clock = f"differs by {abs(skew):.1f} s from this machine"
    return [
        Finding("latency", OK, says) if trip < _SLOW else slow,
        Finding("clock", OK, clock)
        if abs(skew) < _SKEW
        else Finding("clock", WARNING, f"{clock}; leases keep to the clock of Redis, logs do not", "check NTP"),
    ]
