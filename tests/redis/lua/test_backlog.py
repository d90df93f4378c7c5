from tests.contracts.work import claim_one, handed_off, item


async def test_those_that_are_worked_on_do_not_hide_the_first_in_line(store, redis_client, keys):
    _, messages = await handed_off(store, *[item(content=str(n)) for n in range(30)])
    for _ in range(20):
        await claim_one(store)
    await redis_client.hincrby(keys.message(messages[20].id), "createdAt", -60_000)
    waiting, age = await store.backlog("backend")
    assert waiting == 10
    assert 60_000 <= age < 120_000


async def test_what_was_given_back_is_first_in_line(store, redis_client, keys):
    await handed_off(store, item(content="1"), item(content="2"))
    claim = await claim_one(store)
    await redis_client.hincrby(keys.message(claim.item.message.id), "createdAt", -60_000)
    await store.hand_back(claim.lease)
    assert (await store.backlog("backend"))[1] >= 60_000


async def test_an_unknown_mailbox_leaves_no_key_behind(store, redis_client, keys):
    assert await store.backlog("nobody") == (0, 0)
    assert [key async for key in redis_client.scan_iter(match=f"{keys.prefix}*")] == []
