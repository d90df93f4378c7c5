import pytest

from lattice.redis.run_store import RedisRunStore
from lattice.run_store import StoreOptions
from tests.contracts.work import LEASE, claim_one, handed_off, item, run_record


async def expire(redis_client, keys):
    for name in await redis_client.zrange(keys.leases, 0, -1):
        await redis_client.zadd(keys.leases, {name: 1})


@pytest.mark.usefixtures("others_look")
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


@pytest.mark.usefixtures("others_look")
async def test_leases_of_what_is_gone_are_dropped(store, redis_client, keys):
    await redis_client.zadd(keys.leases, {"message:gone": 1, "run:gone": 1})
    assert await store.reclaim_expired("reaper", LEASE) == []
    assert await redis_client.zcard(keys.leases) == 0


@pytest.mark.usefixtures("others_look")
async def test_a_call_reclaims_no_more_than_its_limit(store, redis_client, keys):
    await handed_off(store, *[item() for _ in range(5)])
    await store.claim("backend", "worker-1", LEASE, count=5)
    await expire(redis_client, keys)
    assert len(await store.reclaim_expired("reaper", LEASE, limit=3)) == 3
    assert len(await store.reclaim_expired("reaper", LEASE, limit=100, runs=False)) >= 2


@pytest.mark.usefixtures("others_look")
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


async def test_when_nobody_has_looked_for_long_those_who_live_get_one_lease_to_renew_theirs(store, redis_client, keys):
    await handed_off(store, item(), item())
    dead, alive = await store.claim("backend", "worker-1", LEASE, count=2)
    await expire(redis_client, keys)
    assert await store.reclaim_expired("reaper", LEASE) == []
    assert LEASE - 5_000 < await redis_client.pttl(keys.grace) <= LEASE
    assert await store.take_run("run-1", "lead-2", LEASE) == "held"
    assert await store.renew([alive.lease], LEASE) == []
    assert await store.reclaim_expired("reaper", LEASE) == []
    await redis_client.delete(keys.grace)  # it is over
    found = await store.reclaim_expired("lead-2", LEASE)
    assert sorted((lost.kind, lost.id) for lost in found) == [("message", dead.lease.id), ("run", "run-1")]
    assert (await store.take_run("run-1", "lead-2", LEASE)).run.epoch == 2


async def test_whoever_finds_an_expired_run_first_after_an_outage_does_not_take_it(store, redis_client, keys):
    await store.start_run(run_record())
    old = await store.take_run("run-1", "lead-1", LEASE)
    await expire(redis_client, keys)
    assert await store.take_run("run-1", "lead-2", LEASE) == "held"
    assert await store.reclaim_expired("lead-2", LEASE) == []
    assert await store.renew([old.lease], LEASE) == []


async def test_those_who_look_all_the_time_need_no_grace(store, redis_client, keys):
    for _ in range(2):
        await store.reclaim_expired("reaper", LEASE)
        await redis_client.delete(keys.grace)  # the one of the first look, when nothing was leased yet
    assert LEASE / 2 - 5_000 < await redis_client.pttl(keys.looking) <= LEASE / 2
    await store.start_run(run_record())
    await store.take_run("run-1", "lead", LEASE)
    await expire(redis_client, keys)
    assert len(await store.reclaim_expired("reaper", LEASE)) == 1


async def test_a_run_is_reserved_for_a_third_of_a_lease_and_named_again_to_who_lost_the_reply(
    store, redis_client, keys, script
):
    await redis_client.set(keys.looking, "1")
    await store.start_run(run_record())
    taken = await store.take_run("run-1", "lead", LEASE)
    await expire(redis_client, keys)
    call = ("lead-2", LEASE, 100, "1", 3, 1000, 10, 10)
    assert await script("reclaim_expired", *call, "") == [[b"run", b"run-1", b"run", 0]]
    assert await script("reclaim_expired", *call, "") == []
    assert await script("reclaim_expired", "lead-3", *call[1:], "1") == []
    assert await script("reclaim_expired", *call, "1") == [[b"run", b"run-1", b"run", 0]]
    left = await redis_client.zscore(keys.leases, "run:run-1") - taken.lease.deadline
    assert -LEASE * 2 / 3 - 5_000 < left < -LEASE * 2 / 3 + 5_000
