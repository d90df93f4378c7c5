from tests.contracts.work import handed_off, item, work_one


async def test_a_repeat_gets_the_same_reports(store):
    lease, _ = await handed_off(store, item("a"), item("b"))
    await work_one(store, "b")
    await work_one(store, "a")
    assert await store.resume(lease, "batch-1") == await store.resume(lease, "batch-1")


async def test_a_batch_that_lost_its_record_is_stale(store, redis_client, keys):
    lease, _ = await handed_off(store, item("a"))
    await redis_client.delete(keys.batch("batch-1"))
    assert await store.resume(lease, "batch-1") == ("stale", ())
