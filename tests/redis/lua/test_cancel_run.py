from lattice.runs import RunStatus
from tests.contracts.work import handed_off, item, step, work_one


async def test_a_cancelled_run_leaves_no_lease_and_no_claimable_entry(store, redis_client, keys):
    await handed_off(store, item("backend"), item("qa"))
    await store.claim("backend", "worker-1", 30_000)
    await store.cancel_run("run-1", "no")
    assert await redis_client.zcard(keys.leases) == 0
    assert await redis_client.xlen(keys.mailbox("backend")) == await redis_client.xlen(keys.mailbox("qa")) == 0
    assert await redis_client.hgetall(keys.depths) == {b"backend": b"0", b"qa": b"0"}
    assert await store.counts("backend") == await store.counts("qa") == {"cancelled": 1}


async def test_work_that_was_done_keeps_its_state_and_report(store):
    lease, (sent,) = await handed_off(store, item("backend"))
    await work_one(store)
    await store.cancel_run("run-1", "no")
    assert (await store.get(sent.id)).status == "done"
    assert len(await store.inbox("manager")) == 1
    assert (await store.get_run("run-1")).status is RunStatus.CANCELLED
    assert await store.append(lease, step()) == "stale"
