"""Tests of the leases that a process holds."""

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
