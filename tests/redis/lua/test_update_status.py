from tests.contracts.work import handed_off, item


async def test_words(store, script):
    _, (sent,) = await handed_off(store, item())
    assert await script("update_status", "nope", "done", 1000) == b"missing"
    assert await script("update_status", sent.id, "done", 1000) == b"moved"
    assert await script("update_status", sent.id, "done", 1000) == b"refused"


async def test_ending_a_message_by_hand_counts_its_batch_down(store, redis_client, keys):
    _, (sent,) = await handed_off(store, item())
    await store.update_status(sent.id, "done")
    assert await redis_client.hget(keys.batch("batch-1"), "waiting") == b"0"
    assert await redis_client.lrange(keys.signals("lead-1"), 0, -1) == [b"batch:batch-1"]
    assert await redis_client.xlen(keys.mailbox("backend")) == 0
