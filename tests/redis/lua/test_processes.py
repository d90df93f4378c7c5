from lattice.runs import ProcessInfo


async def test_the_silent_are_not_shown(store, redis_client, keys):
    for name in ("w-1", "w-2"):
        await store.heartbeat(ProcessInfo(id=name, role="worker", host="h", pid=1), 60_000)
    await redis_client.zadd(keys.processes, {"w-1": 1})
    assert [process.id for process in await store.processes()] == ["w-2"]


async def test_nobody_is_an_empty_list(store):
    assert await store.processes() == []
