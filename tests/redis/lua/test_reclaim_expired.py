from lattice.redis.run_store import RedisRunStore
from lattice.run_store import StoreOptions
from tests.contracts.work import LEASE, claim_one, handed_off, item, run_record


async def expire(redis_client, keys):
    for name in await redis_client.zrange(keys.leases, 0, -1):
        await redis_client.zadd(keys.leases, {name: 1})


async def test_a_dead_letter_says_what_happened(redis_client, keys):
    store = RedisRunStore(redis_client, "crew", StoreOptions(max_attempts=1))
    _, (sent,) = await handed_off(store, item())
    await claim_one(store, owner="worker-7")
    await expire(redis_client, keys)
    await store.reclaim_expired("reaper", LEASE, runs=False)
    ((_, letter),) = await redis_client.xrange(keys.dead)
    assert letter[b"id"] == sent.id.encode()
    assert letter[b"member"] == b"backend"
    assert letter[b"attempt"] == b"1"
    assert b"worker-7" in letter[b"reason"]
    assert await redis_client.xlen(keys.mailbox("backend")) == 0
    await store.close()


async def test_leases_of_what_is_gone_are_dropped(store, redis_client, keys):
    await redis_client.zadd(keys.leases, {"message:gone": 1, "run:gone": 1})
    assert await store.reclaim_expired("reaper", LEASE) == []
    assert await redis_client.zcard(keys.leases) == 0


async def test_a_call_reclaims_no_more_than_its_limit(store, redis_client, keys):
    await handed_off(store, *[item() for _ in range(5)])
    await store.claim("backend", "worker-1", LEASE, count=5)
    await expire(redis_client, keys)
    assert len(await store.reclaim_expired("reaper", LEASE, limit=3)) == 3
    assert len(await store.reclaim_expired("reaper", LEASE, limit=100, runs=False)) >= 2


async def test_expired_runs_do_not_keep_workers_from_expired_messages(store, redis_client, keys):
    for n in range(5):
        await store.start_run(run_record(f"r-{n}"))
        await store.take_run(f"r-{n}", "lead", LEASE)
    await handed_off(store, item())
    claim = await claim_one(store)
    await expire(redis_client, keys)
    await redis_client.zadd(keys.leases, {f"message:{claim.lease.id}": 2})
    found = await store.reclaim_expired("worker", LEASE, limit=2, runs=False)
    assert [lost.kind for lost in found] == ["message"]
