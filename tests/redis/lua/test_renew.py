from tests.contracts.work import LEASE, claim_one, handed_off, item


async def test_leases_end_later_by_the_clock_of_redis(store, redis_client, keys):
    lease, _ = await handed_off(store, item())
    claim = await claim_one(store)
    assert await store.renew([lease, claim.lease], 10 * LEASE) == []
    for name in ("run:run-1", f"message:{claim.lease.id}"):
        assert await redis_client.zscore(keys.leases, name) > claim.lease.deadline + 8 * LEASE


async def test_thousands_of_leases_are_renewed_in_a_few_calls(store, redis_client):
    await handed_off(store, *[item() for _ in range(1200)])
    claims = await store.claim("backend", "worker-1", LEASE, count=1200)
    before = (await redis_client.info("commandstats"))["cmdstat_evalsha"]["calls"]
    assert await store.renew([claim.lease for claim in claims], LEASE) == []
    assert (await redis_client.info("commandstats"))["cmdstat_evalsha"]["calls"] - before <= 4
    assert await store.renew([], LEASE) == []
