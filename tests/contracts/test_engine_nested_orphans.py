"""An outer item that ends without its worker takes the run of the inner team along, whoever has died meanwhile."""

import asyncio

import pytest

from lattice.ids import derive_id
from lattice.runs import RunStatus
from tests.cluster import Cluster, until
from tests.contracts.work import run_record, started_run, step
from tests.teams import handoff, said, team_of

LONG = 600_000
"""Milliseconds of a lease within which a worker looks once by itself: at its start."""


class Scene:
    """A team whose member is a team; the lead inside never answers, and the process that drives it dies."""

    def __init__(self, backend):
        self.at_work = asyncio.Event()
        team = team_of([handoff("inner"), said], {"inner": team_of(self._think, {}, name="inner")})
        self.cluster = Cluster(backend, team, max_attempts=1)
        self.inner = backend.space("squad.inner", max_attempts=1)

    async def _think(self, request):
        self.at_work.set()
        await asyncio.Event().wait()

    async def begin(self):
        """Have the work begun by a worker, which is returned; the run is driven meanwhile."""
        await self.cluster.submit()
        worker = await self.cluster.worker("inner", lease_ms=LONG)
        self.driving = (await self.cluster.coordinator(lease_ms=LONG)).drive("run")
        await asyncio.wait_for(self.at_work.wait(), 5)
        (self.item,) = await self.cluster.store.inbox("inner", "processing")
        self.run_id = derive_id("nested", self.item.id)
        assert await self.inner.nested_runs() == [(self.run_id, self.item.id)]
        return worker

    async def other(self, lease_ms=LONG):
        """Another worker of the member, which has looked once."""
        worker = await self.cluster.worker("inner", lease_ms=lease_ms)
        await until(lambda: "nested_runs" in worker.inner_stores[0].calls)
        assert not await self.is_cancelled()
        return worker

    async def is_cancelled(self):
        return (await self.inner.get_run(self.run_id)).status == "cancelled"

    async def is_over(self):
        """The inner run was cancelled, and nothing is left to look at."""
        await until(self.is_cancelled)
        assert await self.inner.nested_runs() == []


@pytest.fixture
async def scene(backend):
    scene = Scene(backend)
    yield scene
    await scene.cluster.close()


async def test_whoever_gives_the_outer_item_up_cancels_the_inner_run(backend, scene):
    worker = await scene.begin()
    await scene.other()
    await worker.kill()
    await backend.expire_leases()
    await scene.is_over()
    assert (await scene.cluster.store.get(scene.item.id)).status == "failed"


async def test_what_others_gave_up_is_cancelled_by_the_next_worker_of_the_member(scene):
    await (await scene.begin()).kill()
    assert "dead" in [found.word for found in await scene.cluster.expire()]
    assert not await scene.is_cancelled()
    await scene.cluster.worker("inner", lease_ms=LONG)
    await scene.is_over()


@pytest.mark.parametrize("status", ["cancelled", "failed"])
async def test_what_is_ended_while_its_worker_is_dead_is_cancelled_within_a_lease(scene, status):
    worker = await scene.begin()
    await scene.other(lease_ms=800)
    await worker.kill()
    assert await scene.cluster.store.update_status(scene.item.id, status)
    await scene.is_over()


async def test_a_cancelled_outer_run_takes_it_along_too(scene):
    await (await scene.begin()).kill()
    assert await scene.cluster.store.cancel_run("run", "enough") == "cancelled"
    await scene.cluster.worker("inner", lease_ms=LONG)
    await scene.is_over()


async def test_a_look_that_fails_is_made_again(backend, scene):
    worker = await scene.begin()
    other = await scene.other()
    other.inner_stores[0].breaks.append("cancel_run")
    await worker.kill()
    await backend.expire_leases()
    await scene.is_over()
    assert other.inner_stores[0].calls.count("cancel_run") == 2


async def test_the_run_of_an_item_that_is_open_goes_on(scene):
    worker = await scene.begin()
    other = await scene.other(lease_ms=400)
    looks = other.inner_stores[0].calls
    seen = looks.count("nested_runs")
    await until(lambda: looks.count("nested_runs") >= seen + 2)
    assert not await scene.is_cancelled()
    assert "cancel_run" not in looks + worker.inner_stores[0].calls


async def test_a_store_lists_runs_of_outer_items_until_they_end(store):
    await started_run(store, "plain")
    for name in ("one", "two"):
        assert await store.start_run(run_record(name, outer_item=f"outer-{name}")) == "started"
    assert (await store.get_run("one")).outer_item == "outer-one"
    assert sorted(await store.nested_runs()) == [("one", "outer-one"), ("two", "outer-two")]
    taken = await store.take_run("one", "lead-1", LONG)
    assert await store.finish_run(taken.lease, RunStatus.FAILED, {}, step("one"), {"code": "x"}) == "finished"
    assert await store.cancel_run("two", "enough") == "cancelled"
    assert await store.nested_runs() == []
    assert await store.reopen_run("one") == "reopened"
    assert await store.nested_runs() == [("one", "outer-one")]
