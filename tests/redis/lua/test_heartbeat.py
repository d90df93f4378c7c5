from lattice.runs import ProcessInfo


def process(name):
    return ProcessInfo(id=name, role="worker", host="h", pid=1, member="backend")


async def test_the_silent_are_forgotten_by_the_next_heartbeat(store, redis_client, keys):
    await store.heartbeat(process("w-1"), 60_000)
    await redis_client.zadd(keys.processes, {"w-1": 1})
    await store.heartbeat(process("w-2"), 60_000)
    assert await redis_client.zrange(keys.processes, 0, -1) == [b"w-2"]
    assert set(await redis_client.hkeys(f"{keys.processes}:info")) == {b"w-2", b"w-2:seenAt"}


async def test_nothing_is_left_when_all_are_silent(store, redis_client, keys):
    await store.heartbeat(process("w-1"), 1_000)
    for key in (keys.processes, f"{keys.processes}:info"):
        assert 0 < await redis_client.pttl(key) <= 2_000
