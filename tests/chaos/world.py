"""What a team left in Redis, read raw: run records, messages, batches, conversations, and the keys themselves."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property

from lattice.encoding import decode
from lattice.runs import is_lasting

LASTING = ("sequence", "depths", "retention", "runs", "leases", "dead", "processes", "processes:info")
"""Keys of a team that stay: their number does not grow with the work."""

LASTING_KINDS = ("mailbox", "index", "counts")
"""Kinds of keys of which each member has one that stays."""

AT_ONCE = 32
"""Runs that are read side by side."""


@dataclass
class World:
    """Everything of a set of runs, by id; values are decoded texts."""

    runs: dict[str, dict] = field(default_factory=dict)
    messages: dict[str, dict] = field(default_factory=dict)
    batches: dict[str, dict] = field(default_factory=dict)
    conversations: dict[str, list] = field(default_factory=dict)
    events: dict[str, list] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    without_expiry: list[str] = field(default_factory=list)
    open_leases: list[str] = field(default_factory=list)
    depths: dict[str, str] = field(default_factory=dict)

    @cached_property
    def _work(self):
        """The claimable messages of each run, in send order."""
        work = defaultdict(list)
        for message in sorted(self.messages.values(), key=lambda m: int(m["sequence"])):
            if message.get("claimable") == "1":
                work[message.get("runId")].append(message)
        return work

    @cached_property
    def _pauses(self):
        """The batches that each parent waited for, in the order in which it handed them off."""
        pauses = defaultdict(list)
        for batch in sorted(self.batches.values(), key=lambda b: int(self.messages[b["items"][0]]["sequence"])):
            if batch["pauses"] == "1":
                pauses[batch["parent"]].append(batch)
        return pauses

    def work_of(self, run_id):
        """Return the messages of a run that members worked on, in send order."""
        return self._work[run_id]

    def handed_off(self, parent):
        """Return the ids of what ``run:<id>`` or ``message:<id>`` handed off and was to be told of, in order."""
        return [item for batch in self._pauses[parent] for item in batch["items"]]


def _texts(record):
    return {key.decode(): value.decode("utf-8", "replace") for key, value in record.items()}


async def read_world(redis, keys, run_ids):
    """Read everything that belongs to these runs."""
    world = World()
    for start in range(0, len(run_ids), AT_ONCE):
        some = run_ids[start : start + AT_ONCE]
        await asyncio.gather(*(_read_run(redis, keys, world, run_id) for run_id in some))
    world.dead = {e[b"id"].decode() for _, e in await redis.xrange(keys.dead)}
    world.open_leases = [name.decode() for name in await redis.zrange(keys.leases, 0, -1)]
    world.depths = _texts(await redis.hgetall(keys.depths))
    world.without_expiry = await keys_without_expiry(redis, keys)
    return world


async def _read_run(redis, keys, world, run_id):
    record = _texts(await redis.hgetall(keys.run(run_id)))
    if not record:
        return
    world.runs[run_id] = record
    world.events[run_id] = [decode(e[b"event"]) for _, e in await redis.xrange(keys.events(run_id))]
    await _read_conversation(redis, keys, world, record["conversation"])
    for name in await redis.lrange(keys.run_messages(run_id), 0, -1):
        await _read_message(redis, keys, world, name.decode())


async def _read_message(redis, keys, world, message_id):
    message = _texts(await redis.hgetall(keys.message(message_id)))
    world.messages[message_id] = message
    if message.get("claimable") == "1":
        await _read_conversation(redis, keys, world, message["conversation"])
    batch = message.get("batch")
    if batch and batch not in world.batches:
        record = _texts(await redis.hgetall(keys.batch(batch)))
        world.batches[batch] = {**record, "items": decode(record["items"])}


async def _read_conversation(redis, keys, world, name):
    if name not in world.conversations:
        world.conversations[name] = [decode(m) for m in await redis.lrange(keys.conversation(name), 0, -1)]


async def keys_without_expiry(redis, keys):
    """Return the team's keys that would stay for ever, without those of which there is a fixed number."""
    found = []
    async for key in redis.scan_iter(match=f"{keys.prefix}*", count=1000):
        name = key.decode().removeprefix(keys.prefix)
        kind, _, rest = name.partition(":")
        lasting = name in LASTING or kind in LASTING_KINDS or (kind == "conversation" and is_lasting(rest))
        if not lasting and await redis.ttl(key) == -1:
            found.append(name)
    return sorted(found)
