from tests.contracts.work import claim_one, handed_off, item, started_run


async def test_a_run_that_nobody_takes_is_looked_for_soon(store, redis_client, keys):
    lease = await started_run(store)
    await store.hand_back(lease)
    seconds, _ = await redis_client.time()
    assert (await redis_client.zscore(keys.leases, "run:run-1")) / 1000 - seconds <= 6
    assert await redis_client.hget(keys.run("run-1"), "owner") == b""


async def test_no_lease_is_left_on_a_message_given_back(store, redis_client, keys):
    await handed_off(store, item())
    claim = await claim_one(store)
    await store.hand_back(claim.lease)
    assert await redis_client.zscore(keys.leases, f"message:{claim.lease.id}") is None
    assert await redis_client.lrange(keys.returned("backend"), 0, -1) == [claim.lease.id.encode()]
