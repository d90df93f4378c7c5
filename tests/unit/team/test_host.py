"""Tests of the leases that a process holds."""

import asyncio
import time
from dataclasses import replace

import pytest

from lattice.errors import LeaseLostError
from lattice.mailbox import MessageStatus, TeamMessage
from lattice.memory.run_store import MemoryRunStore
from lattice.runs import Batch, Lease, Outcome, RunRecord, Step, WorkItem
from lattice.team.host import Host


@pytest.fixture
async def host():
    store = MemoryRunStore()
    await store.start_run(RunRecord(id="r", team="trio", task="t", conversation="run/r"))
    return Host(store, process_id="p", lease_ms=1_000)


async def test_a_lease_is_valid_from_when_it_was_asked_for_however_late_the_reply_is_read(host):
    """A process that was frozen between the two asks the store before it does anything with the lease."""
    taken = await host.store.take_run("r", "p", 1_000)
    fresh = host.hold(taken.lease)
    await host.check(fresh)
    late = host.hold(Lease("run", "r", "p", taken.lease.token + 7, asked_at=time.monotonic() - 2))
    with pytest.raises(LeaseLostError):
        await host.check(late)
    assert late.lost


async def test_a_step_is_carried_out_even_if_the_work_is_cut_off_meanwhile(host):
    """What a drain cuts off must not take an answer with it that was just being written."""
    taken = await host.store.take_run("r", "p", 1_000)
    held = host.hold(taken.lease)
    written, gate = [], asyncio.Event()

    async def step():
        await gate.wait()
        written.append("answer")

    work = asyncio.create_task(held.guard(step()))
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    gate.set()
    await asyncio.sleep(0)
    assert written == ["answer"]


async def test_two_that_wait_for_one_batch_do_not_end_each_others_wait(host):
    """As when a process that was stopped gets work back while its earlier attempt has not come to its end."""
    taken = await host.store.take_run("r", "p", 1_000)
    work = WorkItem(message=TeamMessage(id="m", from_="lead", to="trio::a", content="x"), member="a", conversation="c")
    word, _ = await host.store.hand_off(taken.lease, Batch(id="b", items=(work,)), Step(conversation="run/r"))
    assert word == "accepted"
    stale = host.hold(replace(taken.lease, token=taken.lease.token - 1))
    ours = host.hold(taken.lease)
    waiting = [asyncio.create_task(host.reports(held, "b")) for held in (ours, stale)]
    await asyncio.sleep(0)
    with pytest.raises(LeaseLostError):
        await waiting[1]
    (claim,) = await host.store.claim("a", "p", 1_000)
    await host.store.settle(claim.lease, Outcome(status=MessageStatus.DONE, report="done"), Step(conversation="c"))
    host._dispatch("batch:b")
    (report,) = await asyncio.wait_for(waiting[0], 5)
    assert report.content == "done"
    assert len(host._waits) == 0


async def test_whoever_held_what_is_held_anew_has_lost_it(host):
    """Nobody else would tell it: only the newest lease on a piece of work is renewed."""
    first = host.hold(Lease("message", "m", "p", 1))
    other = host.hold(Lease("message", "n", "p", 1))
    second = host.hold(Lease("message", "m", "p", 2))
    assert [held.lost for held in (first, other, second)] == [True, False, False]
    host.release(first)
    assert host._leases() == [second.lease, other.lease]


async def test_a_lease_whose_work_is_just_ending_is_not_told_to_be_lost(host):
    """Work that is put off may be claimed again before it has heard that it was put off."""
    first = host.hold(Lease("message", "m", "p", 1))
    first.ending = True
    host.hold(Lease("message", "m", "p", 2))
    assert not first.lost
