from tests.contracts.work import claim_one, handed_off, item


async def test_what_is_due_rings_at_its_mailbox_and_what_is_gone_is_dropped(store, redis_client, keys, script):
    await handed_off(store, item())
    claim = await claim_one(store)
    assert await store.claim("backend", "worker-2", 1_000) == []  # silences the bell
    await store.postpone(claim.lease, 0, "overload")
    await redis_client.zadd(keys.delayed, {"gone": 1})
    assert await script("wake_due", 100) == -1
    assert await redis_client.lrange(keys.returned("backend"), 0, -1) == [claim.lease.id.encode()]
    assert await redis_client.llen(keys.doorbell("backend")) == 1
    assert await redis_client.exists(keys.delayed) == 0
