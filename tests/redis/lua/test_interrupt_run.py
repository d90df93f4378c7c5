from tests.contracts.work import claim_one, handed_off, item, step, work_one


async def test_what_is_queued_leaves_the_stream_and_what_is_begun_keeps_its_lease(store, redis_client, keys):
    await handed_off(store, item("backend"), item("qa"))
    claim = await claim_one(store, "backend")
    assert await store.interrupt_run("run-1") == "interrupted"
    assert await redis_client.zscore(keys.leases, f"message:{claim.item.message.id}") is not None
    assert await redis_client.xlen(keys.mailbox("backend")) == 1
    assert await redis_client.xlen(keys.mailbox("qa")) == 0
    assert await redis_client.hgetall(keys.depths) == {b"backend": b"1", b"qa": b"0"}


async def test_a_batch_of_which_all_is_cancelled_wakes_the_run(store):
    lease, _ = await handed_off(store, item("backend"), item("qa"))
    await store.interrupt_run("run-1")
    signals = list(await store.wait_for_signals("lead-1", 1000))
    assert sorted(signals) == ["batch:batch-1", "interrupt:run-1"]
    word, reports = await store.resume(lease, "batch-1")
    assert (word, [report.status for report in reports]) == ("complete", ["cancelled", "cancelled"])


async def test_mail_of_the_run_is_left_alone(store):
    await handed_off(store, item("backend"))
    mail = item("backend", "by the way").message
    sent = await store.send(mail, member="backend")
    await store.interrupt_run("run-1")
    assert (await store.get(sent.id)).status == "pending"


async def test_a_run_of_which_everything_is_done_goes_on_to_its_end(store):
    lease, _ = await handed_off(store, item("backend"))
    await work_one(store)
    await store.interrupt_run("run-1")
    assert (await store.resume(lease, "batch-1"))[0] == "complete"
    assert await store.append(lease, step()) == "written"
