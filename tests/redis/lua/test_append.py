from lattice.redis.codec import lease_args, step_args
from lattice.run_store import StoreOptions
from tests.contracts.work import started_run, step


async def test_a_repeat_writes_nothing_again(store, script):
    lease = await started_run(store)
    added = step("run-1", b"1", events=(b'{"type":"x"}',), usage={"inputTokens": 5})
    args = (*lease_args(lease), "nonce-1", *step_args(added, StoreOptions()))
    assert await script("append", *args) == await script("append", *args) == b"written"
    assert (await store.load("run-1")).messages == (b"1",)
    assert len(await store.read_events("run-1")) == 1
    assert (await store.get_run("run-1")).total_usage == {"inputTokens": 5}


async def test_a_repeat_that_arrives_after_later_writes_writes_nothing_either(store, script):
    lease = await started_run(store)
    limits = StoreOptions()
    late = (*lease_args(lease), "nonce-1", *step_args(step("run-1", b"1"), limits))
    await script("append", *late)
    for n in range(8):
        await store.append(lease, step("run-1", b"more %d" % n))
    await script("append", *late)
    assert (await store.load("run-1")).messages.count(b"1") == 1


async def test_deltas_expire_and_need_a_follower(store, redis_client, keys):
    lease = await started_run(store)
    await store.append(lease, step(deltas=(b"{}",)))
    assert await redis_client.exists(keys.deltas("run-1")) == 0
    await redis_client.set(keys.followers("run-1"), "1", px=10_000)
    await store.append(lease, step(deltas=(b"{}",) * 5000))
    assert 1000 <= await redis_client.xlen(keys.deltas("run-1")) <= 1200
    assert await redis_client.pttl(keys.deltas("run-1")) > 0
