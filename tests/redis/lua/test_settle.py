import pytest

from tests.contracts.work import LEASE, claim_one, handed_off, item, work_one


async def test_a_repeat_of_a_lost_reply_gets_the_claim_that_was_handed_out(store, script):
    await handed_off(store, item(content="1"), item(content="2"), item(content="3"))
    claim = await claim_one(store)
    args = (
        "message", claim.lease.id, "worker-1", 1, "done", "1", "rep", "text", "", 1000, "backend", LEASE, "nonce", "",
    )  # fmt: skip
    first = await script("settle", *args)
    again = await script("settle", *args)
    assert first[0] == again[0] == b"settled"
    assert first[1][0] == again[1][0]
    assert (await store.counts("backend")) == {"done": 1, "processing": 1, "pending": 1}
    assert len(await store.inbox("manager")) == 1


async def test_an_entry_leaves_the_stream_with_its_message(store, redis_client, keys):
    await handed_off(store, item(), item())
    assert await redis_client.xlen(keys.mailbox("backend")) == 2
    await work_one(store)
    assert await redis_client.xlen(keys.mailbox("backend")) == 1
    assert (await redis_client.xpending(keys.mailbox("backend"), "workers"))["pending"] == 0


@pytest.mark.usefixtures("others_look")
async def test_the_signal_goes_to_whoever_holds_the_run_now(store, redis_client, keys):
    await handed_off(store, item())
    await redis_client.zadd(keys.leases, {"run:run-1": 1})
    await store.reclaim_expired("lead-2", LEASE)
    await store.take_run("run-1", "lead-2", LEASE)
    await work_one(store)
    assert await redis_client.lrange(keys.signals("lead-2"), 0, -1) == [b"batch:batch-1"]
    assert await redis_client.exists(keys.signals("lead-1")) == 0
    assert 0 < await redis_client.pttl(keys.signals("lead-2")) <= 600_000


async def test_a_run_that_nobody_holds_is_not_signalled(store, redis_client, keys):
    lease, _ = await handed_off(store, item())
    await store.hand_back(lease)
    await work_one(store)
    assert [key async for key in redis_client.scan_iter(match=f"{keys.prefix}signals:*")] == []
