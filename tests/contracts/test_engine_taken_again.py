"""Work that a process takes again while its earlier attempt, which has lost it, has not come to its end."""

import asyncio

import pytest

from lattice import agent_tool
from lattice.errors import LeaseLostError, RunParkedError
from tests.cluster import Gate, until
from tests.contracts.backends import TEAM
from tests.teams import brief, echo, handoff, model_of, said, spec, team_of


async def test_a_member_gets_its_reports_though_an_earlier_attempt_waited_for_them_here_too(start):
    helper = spec("helper", echo("helper"))
    tools = [agent_tool("helper", helper, target_mailbox_id=f"{TEAM}::helper")]
    middle = spec("middle", [[handoff("helper")], said], tools=tools)
    team = team_of([handoff("middle"), said], {"middle": middle, "helper": helper}, name=TEAM)
    cluster = start(team)
    worker, coordinator = await cluster.worker("middle"), await cluster.coordinator()
    await cluster.submit()
    driving = coordinator.drive("run")
    await until(lambda: "hand_off" in worker.store.calls)
    (first,) = worker.host._held.values()
    looked = asyncio.Event()
    resume = worker.store.resume

    async def resume_once_the_first_is_gone(lease, batch_id):
        if lease != first.lease:
            worker.host._dispatch(f"batch:{batch_id}")  # as when the listener connects anew: everybody looks
            await until(lambda: worker.worker.busy == 1)
            looked.set()
        return await resume(lease, batch_id)

    worker.store.resume = resume_once_the_first_is_gone
    await cluster.backend.expire_leases()
    await cluster.store.renew(coordinator.host._leases(), 10**12)
    await cluster.store.reclaim_expired("reaper", 1, runs=False)
    await asyncio.wait_for(looked.wait(), 5)
    await cluster.worker("helper")
    assert "helper did work" in (await asyncio.wait_for(driving, 10))["result"]
    assert model_of(middle).calls == 2
    assert [m.status for m in await cluster.store.inbox("middle", "all")] == ["done", "read"], "the item, its report"
    assert len(worker.host._waits) == 0


class TwoLegs:
    """A coordinator that drives a run while an earlier leg of it, which lost the run, is still about to end there."""

    def __init__(self, start):
        self.member, self.ending = Gate(), Gate()
        self.cluster = start(team_of([handoff("a"), said], {"a": self._report}, name=TEAM))

    async def _report(self, request):
        await self.member()
        return "the report"

    async def begin(self):
        self.process = process = await self.cluster.coordinator()
        worker = await self.cluster.worker("a")
        await self.cluster.submit()
        first = process.drive("run")
        await asyncio.wait_for(self.member.reached.wait(), 5)
        get_run = process.store.get_run

        async def slow_get_run(run_id):
            await self.ending()
            return await get_run(run_id)

        process.store.get_run = slow_get_run
        (held,) = process.host._held.values()
        held.lose(LeaseLostError())
        await asyncio.wait_for(self.ending.reached.wait(), 5)
        await self.cluster.backend.expire_leases()
        await self.cluster.store.renew(worker.host._leases(), 10**12)
        self.second = process.drive("run")
        await until(lambda: process.coordinator.busy == 2)
        self.ending.open.set()
        with pytest.raises(RunParkedError):
            await first
        assert process.coordinator.busy == 1


@pytest.fixture
async def legs(start):
    legs = TwoLegs(start)
    await legs.begin()
    yield legs
    legs.member.open.set()


async def test_a_leg_goes_on_when_an_earlier_one_ends(legs):
    legs.member.open.set()
    assert (await asyncio.wait_for(legs.second, 10))["result"].endswith("the report")
    told = [brief(event) for event in await legs.cluster.events()]
    assert [told.count(once) for once in ("sent crew::a", "replied manager", "result", "run_ended")] == [1, 1, 1, 1]


async def test_a_leg_is_handed_over_when_an_earlier_one_has_ended(legs):
    await legs.process.coordinator.hand_over()
    with pytest.raises(RunParkedError):
        await legs.second
    other = (await legs.cluster.coordinator()).drive("run")
    legs.member.open.set()
    assert (await asyncio.wait_for(other, 10))["result"].endswith("the report")
