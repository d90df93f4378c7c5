"""What is lost inside a nested team, workers and events: the outer run's listeners hear of it as well."""

import asyncio

from lattice.runs import Lease, Step
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


async def test_events_that_are_not_kept_inside_are_told_of_outside(backend):
    space = backend.space("squad.inner", max_events=50)
    may_read = asyncio.Event()

    async def inner_lead(request):
        (run,) = await space.list_runs()
        events = tuple(b'{"type":"assistant","n":%d}' % n for n in range(500))
        lease = Lease("run", run.id, run.owner, run.epoch, 0)
        assert await space.append(lease, Step(conversation=run.conversation, events=events)) == "written"
        may_read.set()
        return "done inside"

    team = team_of([handoff("inner"), said], {"inner": team_of(inner_lead, {}, name="inner")})
    cluster = Cluster(backend, team)
    try:
        worker = await cluster.worker("inner")
        (inner_store,) = worker.inner_stores
        read_events = inner_store.read_events

        async def read_late(*args, **more):
            await may_read.wait()
            return await read_events(*args, **more)

        inner_store.read_events = read_late
        assert (await cluster.run())["status"] == "succeeded"
        events = await cluster.events()
        (gap,) = [place for place, event in enumerate(events) if event["type"] == "events_dropped"]
        copies = [event["message"] for event in events[gap:] if event["type"] == "agent_message"]
        kept = [message["n"] for message in copies if "n" in message]
        assert kept == list(range(kept[0], 500))
        assert events[gap]["dropped"] >= kept[0] > 0
        assert not any("n" in event.get("message", {}) for event in events[:gap])
    finally:
        await cluster.close()
