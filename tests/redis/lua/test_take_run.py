import pytest

from tests.contracts.work import LEASE, run_record


async def test_a_repeat_of_a_lost_reply_gets_the_same_lease(store, script):
    await store.start_run(run_record())
    first = await script("take_run", "run-1", "lead-1", LEASE, "nonce-1")
    again = await script("take_run", "run-1", "lead-1", LEASE, "nonce-1")
    assert first[0] == again[0] == b"taken"
    assert first[1] == again[1]
    assert await script("take_run", "run-1", "lead-1", LEASE, "nonce-2") == [b"held"]


async def test_the_lease_ends_by_the_clock_of_redis(store, redis_client, keys):
    await store.start_run(run_record())
    taken = await store.take_run("run-1", "lead-1", LEASE)
    assert await redis_client.zscore(keys.leases, "run:run-1") == taken.lease.deadline
    seconds, _ = await redis_client.time()
    assert abs(taken.lease.deadline - LEASE - seconds * 1000) < 5_000


@pytest.mark.usefixtures("others_look")
async def test_a_lease_that_ran_out_can_be_taken_without_a_reaper(store, redis_client, keys):
    await store.start_run(run_record())
    old = await store.take_run("run-1", "lead-1", LEASE)
    await redis_client.zadd(keys.leases, {"run:run-1": 1})
    new = await store.take_run("run-1", "lead-2", LEASE)
    assert (new.lease.token, new.run.owner) == (old.lease.token + 1, "lead-2")
