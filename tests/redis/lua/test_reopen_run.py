from lattice.runs import RunStatus
from tests.contracts.work import handed_off, item, step, work_one


async def test_what_a_reopened_run_needs_expires_no_more(store, redis_client, keys):
    lease, (sent,) = await handed_off(store, item())
    await work_one(store)
    await store.append(lease, step("run-1", b"1", once="x"))
    await store.finish_run(lease, RunStatus.FAILED, {}, step())
    assert await store.reopen_run("run-1") == "reopened"
    assert await store.reopen_run("run-1") == "reopened"
    needed = (
        keys.run("run-1"), keys.run_messages("run-1"), keys.conversation("run-1"), keys.entered("run-1"),
        keys.events("run-1"), keys.message(sent.id), keys.batch("batch-1"), keys.message(f"{sent.id}-report"),
    )  # fmt: skip
    for key in needed:
        assert await redis_client.ttl(key) == -1, key
    assert await redis_client.zscore(keys.retention, "run:run-1") is None
