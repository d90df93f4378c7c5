"""Work inside a nested team whose workers were all lost: the outer run's listeners hear of it as well."""

import asyncio

from lattice.testing import turn
from tests.cluster import Cluster, until
from tests.contracts.work import LEASE
from tests.teams import brief, handoff, said, spec, team_of


async def test_the_loss_of_an_inner_worker_is_told_outside(backend):
    at_work, go_on = asyncio.Event(), asyncio.Event()

    async def inner_member(request):
        at_work.set()
        await asyncio.wait_for(go_on.wait(), 10)
        return "the first is done"

    inner = team_of(
        [turn(handoff("x", "first"), handoff("x", "second")), said], {"x": spec("x", inner_member)}, name="inner"
    )
    team = team_of([handoff("inner"), said], {"inner": inner})
    cluster = Cluster(backend, team, max_attempts=1)
    try:
        running = asyncio.create_task(cluster.run())
        await asyncio.wait_for(at_work.wait(), 5)
        space = backend.space("squad.inner", max_attempts=1)
        (lost,) = await space.claim("x", "a worker that dies", 1)
        await backend.pass_time(10)
        if backend.durable:  # others have looked for expired leases for long
            await backend.client.delete(space.keys.grace)
            await backend.client.set(space.keys.looking, "1", px=600_000)

        async def is_given_up():
            await space.reclaim_expired("reaper", LEASE, runs=False)
            return (await space.get(lost.item.message.id)).status == "failed"

        await until(is_given_up)
        go_on.set()
        outcome = await asyncio.wait_for(running, 10)
        assert outcome["status"] == "succeeded"
        assert "Error code: worker_lost" in outcome["result"]
        told = [brief(event) for event in await cluster.events()]
        assert told.count("failed inner::x") == 1
        assert told.count("done inner::x") == 1
        (error,) = [event["error"] for event in await cluster.events() if brief(event) == "failed inner::x"]
        reason = "its worker was lost 1 times; the last one was a worker that dies"
        assert error == {"code": "worker_lost", "message": reason, "name": "WorkerLostError"}
    finally:
        await cluster.close()
