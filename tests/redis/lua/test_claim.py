from tests.contracts.work import DONE, LEASE, claim_one, handed_off, item, started_run, step, work_one


async def test_a_repeat_of_a_lost_reply_gets_what_was_leased(store, script):
    """Not a second message, and no attempt is used up."""
    await handed_off(store, item(content="1"), item(content="2"))
    first = await script("claim", "backend", "worker-1", LEASE, 1, "nonce-1", "")
    again = await script("claim", "backend", "worker-1", LEASE, 1, "nonce-1", "1")
    assert again[0][0] == first[0][0]
    assert (await claim_one(store)).item.message.content == "2"


async def test_a_deleted_group_is_made_again_and_nothing_runs_twice(store, redis_client, keys):
    await handed_off(store, *[item(content=str(n)) for n in range(4)])
    await work_one(store)
    await claim_one(store)
    await redis_client.xgroup_destroy(keys.mailbox("backend"), "workers")
    assert [claim.item.message.content for claim in await store.claim("backend", "w", LEASE, count=9)] == ["2", "3"]
    assert await store.claim("backend", "w", LEASE) == []


async def test_a_deleted_consumer_loses_nothing(store, redis_client, keys):
    await handed_off(store, item(content="1"), item(content="2"))
    claim = await claim_one(store)
    await redis_client.xgroup_delconsumer(keys.mailbox("backend"), "workers", "worker")
    assert (await store.settle(claim.lease, DONE, step("c"))).word == "settled"
    assert (await claim_one(store)).item.message.content == "2"


async def test_a_claim_costs_the_same_in_a_long_mailbox(store, redis_client):
    """Commands are counted, not seconds."""
    lease = await started_run(store)

    async def cost():
        before = (await redis_client.info("commandstats")).items()
        calls = sum(stat["calls"] for name, stat in before if name != "cmdstat_info")
        await claim_one(store)
        after = (await redis_client.info("commandstats")).items()
        return sum(stat["calls"] for name, stat in after if name != "cmdstat_info") - calls

    await handed_off(store, *[item() for _ in range(10)], lease=lease)
    await claim_one(store)
    short = await cost()
    for n in range(10):
        await handed_off(store, *[item() for _ in range(200)], lease=lease, id=f"more-{n}")
    assert await cost() == short


async def test_an_unknown_mailbox_leaves_no_key_behind(store, redis_client, keys):
    assert await store.claim("nobody", "worker-1", LEASE) == []
    assert [key async for key in redis_client.scan_iter(match=f"{keys.prefix}*")] == []


async def test_what_is_claimed_without_a_lease_never_expires(store, redis_client, keys):
    await handed_off(store, item())
    await store.claim("backend", "worker-1", 0)
    assert await redis_client.zrange(keys.leases, 0, -1) == [b"run:run-1"]
