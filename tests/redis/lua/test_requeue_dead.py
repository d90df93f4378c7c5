import pytest

from lattice.redis.run_store import RedisRunStore
from lattice.run_store import StoreOptions
from tests.contracts.work import LEASE, claim_one, handed_off, item


@pytest.mark.usefixtures("others_look")
async def test_only_what_belongs_to_the_work_goes_along(redis_client, keys, script):
    store = RedisRunStore(redis_client, "crew", StoreOptions(max_attempts=1))
    _, (sent,) = await handed_off(store, item(description="the task"))
    await claim_one(store)
    await redis_client.zadd(keys.leases, {f"message:{sent.id}": 1})
    await store.reclaim_expired("reaper", LEASE, runs=False)
    word, flat = await script("requeue_dead", sent.id, "again", 10)
    record = dict(zip(flat[::2], flat[1::2], strict=True))
    assert word == b"requeued"
    assert record[b"description"] == b"the task"
    assert not {b"batch", b"runId", b"attempt", b"owner", b"error", b"dead", b"report"} & record.keys()
    assert await redis_client.xlen(keys.dead) == 0
    assert await script("requeue_dead", sent.id, "other", 10) == [b"missing"]
    await store.close()
