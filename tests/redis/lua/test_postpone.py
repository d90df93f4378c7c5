from tests.contracts.work import claim_one, handed_off, item


async def test_a_call_whose_reply_was_lost_puts_off_once(store, redis_client, keys, script):
    await handed_off(store, item())
    claim = await claim_one(store)
    lease = ("message", claim.lease.id, "worker-1", claim.lease.token)
    assert await script("postpone", *lease, 60_000, "overload", "") == b"postponed"
    assert await script("postpone", *lease, 60_000, "overload", "") == b"postponed"
    assert await redis_client.hmget(keys.message(claim.lease.id), "retries", "handedBack") == [b"1", b"1"]
    assert await redis_client.zcard(keys.delayed) == 1


async def test_what_waits_for_a_retry_holds_no_lease(store, redis_client, keys):
    await handed_off(store, item())
    claim = await claim_one(store)
    await store.postpone(claim.lease, 60_000, "overload")
    assert await redis_client.zscore(keys.leases, f"message:{claim.lease.id}") is None
    assert await redis_client.hget(keys.message(claim.lease.id), "owner") == b""
    assert await redis_client.hgetall(keys.counts("backend")) == {b"pending": b"1", b"processing": b"0"}
