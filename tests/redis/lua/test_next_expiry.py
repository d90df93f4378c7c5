from tests.contracts.work import LEASE, handed_off, item


async def test_the_next_lease_to_run_out_counts_and_not_those_that_have(store, redis_client, keys, script):
    assert await script("next_expiry") == -1
    await handed_off(store, item(), item())
    await store.claim("backend", "worker-1", LEASE, count=2)
    assert LEASE - 5_000 < await script("next_expiry") <= LEASE
    first, *_ = await redis_client.zrange(keys.leases, 0, -1)
    await redis_client.zadd(keys.leases, {first: 1})
    assert LEASE - 5_000 < await script("next_expiry") <= LEASE


async def test_in_a_time_of_grace_its_end_counts(store, redis_client, keys, script):
    await handed_off(store, item())
    await redis_client.set(keys.grace, "1", px=2_000)
    assert 0 < await script("next_expiry") <= 2_000
