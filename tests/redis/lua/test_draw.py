from tests.contracts.work import started_run


async def test_a_call_whose_reply_was_lost_counts_once(store, redis_client, keys, script):
    await started_run(store)
    first = await script("draw", "run-1", "nonce-1", 1, 10, 1, "", "")
    assert first[:3] == [b"granted", 1, 10]
    assert (await script("draw", "run-1", "nonce-1", 1, 10, 1, "", ""))[:3] == [b"granted", 1, 10]
    assert (await script("draw", "run-1", "nonce-2", 1, 0, 1, "", ""))[0] == b"budget_exceeded"
    assert await redis_client.hmget(keys.run("run-1"), "modelCalls", "tokens") == [b"1", b"10"]
