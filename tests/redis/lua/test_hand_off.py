from tests.contracts.work import batch, handed_off, item, started_run, step


async def test_one_doorbell_token_for_each_message_up_to_a_limit(store, redis_client, keys):
    lease = await started_run(store)
    await handed_off(store, *[item() for _ in range(3)], lease=lease)
    assert await redis_client.llen(keys.doorbell("backend")) == 3
    await handed_off(store, *[item() for _ in range(100)], lease=lease, id="batch-2")
    assert await redis_client.llen(keys.doorbell("backend")) == 64
    assert await redis_client.xlen(keys.mailbox("backend")) == 103


async def test_the_ids_of_a_batch_derive_from_it(store):
    lease = await started_run(store)
    _, sent = await store.hand_off(lease, batch(item(), item("qa")), step())
    other = await started_run(store, "run-2")
    _, again = await store.hand_off(other, batch(item(run_id="run-2"), id="batch-2"), step("run-2"))
    assert len({message.id for message in (*sent, *again)}) == 3
    _, repeated = await store.hand_off(lease, batch(item(), item("qa")), step())
    assert repeated == sent


async def test_the_batch_says_who_waits_for_what(store, redis_client, keys):
    _, (sent,) = await handed_off(store, item())
    record = await redis_client.hgetall(keys.batch("batch-1"))
    assert record[b"parent"] == b"run:run-1"
    assert record[b"waiting"] == b"1"
    assert record[b"items"].decode() == f'["{sent.id}"]'


async def test_a_large_batch_is_one_step(store):
    lease = await started_run(store)
    word, sent = await store.hand_off(lease, batch(*[item(content=str(n)) for n in range(500)]), step())
    assert word == "accepted"
    assert [message.content for message in sent] == [str(n) for n in range(500)]
