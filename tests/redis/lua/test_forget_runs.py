from lattice.mailbox import TeamMessage
from lattice.runs import RunStatus
from tests.contracts.work import DONE, claim_one, handed_off, item, started_run, step, work_one

PERMANENT = {"sequence", "depths"}
"""What a team keeps for ever, besides a stream with its group for each mailbox, and zeroes in counters."""


async def end_retention(redis_client, keys):
    for name in await redis_client.zrange(keys.retention, 0, -1):
        await redis_client.zadd(keys.retention, {name: 1})


async def one_run(store, run_id):
    lease = await started_run(store, run_id)
    items = [item(name, run_id=run_id) for name in ("backend", "qa")]
    shared = item("backend", run_id=run_id, conversation=f"{run_id}/backend", shared=True)
    await handed_off(store, *items, shared, lease=lease, id=f"{run_id}-batch")
    await work_one(store, "backend")
    await work_one(store, "backend")
    claim = await claim_one(store, "qa", "worker-2")
    nested = item("ops", sender="crew::qa", run_id=run_id)
    await handed_off(store, nested, lease=claim.lease, id=f"{run_id}-nested")
    await work_one(store, "ops")
    await store.resume(claim.lease, f"{run_id}-nested")
    await store.settle(claim.lease, DONE, step(claim.item.conversation, b"x", once=claim.lease.id, events=(b"{}",)))
    _, reports = await store.resume(lease, f"{run_id}-batch")
    await store.append(lease, step(run_id, b"1", once=f"{run_id}-batch", reads=tuple(r.id for r in reports)))
    await store.finish_run(lease, RunStatus.SUCCEEDED, {}, step(run_id, b"2", started=("t",), deltas=(b"{}",)))


async def left(redis_client, keys):
    names = set()
    async for key in redis_client.scan_iter(match=f"{keys.prefix}*"):
        names.add(key.decode().removeprefix(keys.prefix))
    return names


async def test_a_team_keeps_only_its_counters_and_empty_streams(store, redis_client, keys):
    await one_run(store, "warm-up")
    await end_retention(redis_client, keys)
    await store.forget_runs()
    for process in ("lead-1", "worker-1", "worker-2"):
        await store.forget_process(process)
    before = await left(redis_client, keys)
    for name in before:
        if name.startswith("mailbox:") and name.count(":") == 1:
            assert await redis_client.xlen(keys.prefix + name) == 0
        elif name.startswith("counts:"):
            assert set(await redis_client.hvals(keys.prefix + name)) <= {b"0"}
        elif not name.endswith(":doorbell"):
            assert name in PERMANENT
    used = (await redis_client.info("memory"))["used_memory"]
    for n in range(30):
        await one_run(store, f"run-{n}")
    await end_retention(redis_client, keys)
    assert await store.forget_runs() == 30
    for process in ("lead-1", "worker-1", "worker-2"):
        await store.forget_process(process)
    assert await left(redis_client, keys) == before
    assert (await redis_client.info("memory"))["used_memory"] - used < 200_000


async def test_a_large_run_is_forgotten_over_several_calls(store, redis_client, keys):
    lease, _ = await handed_off(store, *[item() for _ in range(50)])
    await store.finish_run(lease, RunStatus.FAILED, {}, step())
    await end_retention(redis_client, keys)
    calls = 0
    while await store.get_run("run-1") is not None:
        await store.forget_runs(limit=1)
        calls += 1
    assert calls == 3
    assert await store.inbox("backend", "all") == []


async def test_a_message_without_a_run_is_forgotten_too(store, redis_client, keys):
    sent = await store.send(TeamMessage(id="", from_="manager", to="crew::backend", content="x"), member="backend")
    await store.update_status(sent.id, "cancelled")
    assert await store.forget_runs() == 0
    await end_retention(redis_client, keys)
    assert await store.forget_runs() == 1
    assert await store.inbox("backend", "all") == []
