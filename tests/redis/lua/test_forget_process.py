from lattice.runs import ProcessInfo


async def test_a_process_goes_with_its_signals(store, redis_client, keys):
    await store.heartbeat(ProcessInfo(id="w-1", role="worker", host="h", pid=1), 60_000)
    await redis_client.rpush(keys.signals("w-1"), "cancel:x")
    await store.forget_process("w-1")
    await store.forget_process("w-1")
    assert [key async for key in redis_client.scan_iter(match=f"{keys.prefix}*")] == []
