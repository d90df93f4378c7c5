"""Tests of the leases that a process holds."""

import asyncio
import time

import pytest

from lattice.errors import LeaseLostError
from lattice.memory.run_store import MemoryRunStore
from lattice.runs import Lease, RunRecord
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
