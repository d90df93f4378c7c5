from lattice.runs import RunStatus
from tests.contracts.work import handed_off, item, step, work_one

WEEK = 7 * 24 * 3600


async def test_everything_of_a_finished_run_expires(store, redis_client, keys):
    lease, _ = await handed_off(store, item("backend", conversation="run-1/backend", shared=True), item("qa"))
    await work_one(store)
    await store.append(lease, step("run-1", b"1", once="x", started=("t",), events=(b"{}",)))
    await store.finish_run(lease, RunStatus.FAILED, {"a": 1}, step(), {"code": "x"})
    lasting = {key async for key in redis_client.scan_iter(match=f"{keys.prefix}*") if await redis_client.ttl(key) < 0}
    shared = {keys.runs, keys.retention, keys.sequence, keys.depths}
    for member in ("backend", "qa", "manager"):
        shared |= {keys.mailbox(member), keys.index(member), keys.counts(member), keys.doorbell(member)}
    assert {key.decode() for key in lasting} <= shared
    assert WEEK < await redis_client.ttl(keys.run("run-1")) <= WEEK + 3600


async def test_the_result_is_readable_json(store, redis_client, keys):
    lease, _ = await handed_off(store, item())
    await store.finish_run(lease, RunStatus.SUCCEEDED, {"result": "héllo"}, step())
    assert await redis_client.hget(keys.run("run-1"), "result") == '{"result":"héllo"}'.encode()
