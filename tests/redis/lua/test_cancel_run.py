from lattice.redis.connection import open_redis
from lattice.redis.run_store import RedisRunStore
from lattice.runs import RunStatus
from tests.contracts.work import handed_off, item, run_record, step, work_one
from tests.redis.conftest import TEAM
from tests.redis.proxy import Proxy


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


async def test_a_cancel_whose_reply_was_lost_answers_what_the_first_did(store, redis_url):
    await store.start_run(run_record())
    async with Proxy(redis_url) as proxy:
        client = open_redis(proxy.url)
        shaky = RedisRunStore(client, TEAM)
        assert await shaky.cancel_run("nope", "the server knows the script from now on") == "missing"
        proxy.swallow = 1
        assert await shaky.cancel_run("run-1", "enough") == "cancelled"
        assert proxy.swallow == 0
        assert await shaky.cancel_run("run-1", "once more") == "ended"
        assert (await store.get_run("run-1")).error["message"] == "enough"
        await shaky.close()
        await client.aclose()
