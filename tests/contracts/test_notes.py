"""The run store's contract on notes: mail for somebody who is at work, read by him or claimed by others, never lost."""

import pytest

from lattice.mailbox import MessageStatus, TeamMessage
from lattice.runs import Outcome
from tests.contracts.work import DONE, LEASE, batch, claim_one, handed_off, item, started_run, step


def note(content="look out", urgency="steer", to="backend", run_id="run-1"):
    metadata = None if urgency is None else {"urgency": urgency}
    return TeamMessage(
        id="", from_="crew::frontend", to=f"crew::{to}", content=content, run_id=run_id, metadata=metadata
    )


async def write(store, message, **more):
    return await store.send(message, member="backend", **more)


async def at_work(store, *, count=1):
    """Hand work off to a member and claim it."""
    lease, _ = await handed_off(store, *[item(content=f"work {n}") for n in range(count)])
    claims = await store.claim("backend", "worker-1", LEASE, count)
    return lease, claims


async def contents(store, lease, **more):
    return [message.content for message in await store.take_notes(lease, "backend", **more)]


async def test_a_note_to_somebody_at_work_is_nobody_elses_task(store):
    _, (claim,) = await at_work(store)
    await write(store, note())
    assert await store.claim("backend", "idle", LEASE, 5) == []
    assert await contents(store, claim.lease) == ["look out"]


async def test_a_note_that_waited_in_the_mailbox_is_kept_for_whoever_is_at_work_by_then(store):
    await handed_off(store, item())
    sent = await write(store, note())
    claims = await store.claim("backend", "worker-1", LEASE, 5)
    assert [claim.item.mode for claim in claims] == ["handoff"]
    assert [taken.id for taken in await store.take_notes(claims[0].lease, "backend")] == [sent.id]


async def test_a_note_is_read_once_its_text_is_written(store):
    _, (claim,) = await at_work(store)
    sent = await write(store, note())
    await store.take_notes(claim.lease, "backend")
    assert (await store.get(sent.id)).status == "pending"
    written = step(claim.item.conversation, b'{"role":"user","content":"note"}', reads=(sent.id,))
    assert await store.append(claim.lease, written) == "written"
    assert (await store.get(sent.id)).status == "read"
    assert await contents(store, claim.lease) == []
    assert await store.counts("backend") == {"processing": 1, "read": 1}
    assert await store.backlog("backend") == (0, 0)


async def test_a_worker_that_dies_before_it_wrote_leaves_the_note_to_whoever_goes_on(backend, store):
    _, (claim,) = await at_work(store)
    await write(store, note())
    await store.take_notes(claim.lease, "backend")
    await backend.expire_leases()
    await store.reclaim_expired("reaper", LEASE, runs=False)
    assert await contents(store, claim.lease) == []
    again = await claim_one(store, owner="worker-2")
    assert again.item.message.id == claim.item.message.id
    assert await store.claim("backend", "idle", LEASE, 5) == []
    assert await contents(store, again.lease) == ["look out"]


async def test_only_the_holder_of_the_lease_makes_it_read(backend, store):
    _, (claim,) = await at_work(store)
    sent = await write(store, note())
    await store.take_notes(claim.lease, "backend")
    await backend.expire_leases()
    await store.reclaim_expired("reaper", LEASE, runs=False)
    assert await store.append(claim.lease, step(claim.item.conversation, reads=(sent.id,))) == "stale"
    assert (await store.get(sent.id)).status == "pending"


@pytest.mark.parametrize("status", [MessageStatus.DONE, MessageStatus.FAILED, MessageStatus.CANCELLED])
async def test_what_was_not_shown_is_claimed_when_the_work_ends(store, status):
    _, (claim,) = await at_work(store)
    sent = await write(store, note())
    await store.take_notes(claim.lease, "backend")
    settled = await store.settle(
        claim.lease, Outcome(status=status), step(claim.item.conversation), claim_next=("backend", "worker-1", LEASE)
    )
    assert [one.item.message.id for one in settled.next] == [sent.id]
    assert settled.next[0].item.mode == "message"


async def test_two_at_work_do_not_share_a_note(store):
    _, (first, second) = await at_work(store, count=2)
    await write(store, note())
    assert await contents(store, second.lease) == []
    assert await contents(store, first.lease) == ["look out"]


async def test_what_one_was_not_shown_goes_to_the_other_at_work(store):
    _, (first, second) = await at_work(store, count=2)
    await write(store, note())
    await store.settle(first.lease, DONE, step(first.item.conversation))
    assert await store.claim("backend", "idle", LEASE) == []
    assert await contents(store, second.lease) == ["look out"]


async def test_a_note_of_another_run_is_another_workers(store):
    _, (claim,) = await at_work(store)
    await started_run(store, "run-2")
    await write(store, note(run_id="run-2"))
    assert await contents(store, claim.lease) == []
    assert (await claim_one(store)).item.message.run_id == "run-2"


async def test_a_note_without_a_run_may_be_taken_by_anybody(store):
    _, (claim,) = await at_work(store)
    await write(store, note(run_id=None))
    assert await contents(store, claim.lease) == ["look out"]
    assert await store.claim("backend", "idle", LEASE) == []


async def test_plain_mail_is_a_task(store):
    await at_work(store)
    await write(store, note(urgency=None))
    assert (await claim_one(store)).item.mode == "message"


async def test_a_note_to_somebody_who_cannot_be_shown_any_is_a_task(store):
    await at_work(store)
    await write(store, note(), listens=False)
    assert (await claim_one(store)).item.mode == "message"


async def test_a_note_in_a_shared_conversation_does_not_wait_in_its_line(store):
    lease = await started_run(store)
    await store.hand_off(lease, _shared("one"), step())
    claim = await claim_one(store)
    sent = await write(store, note(), conversation="run-1/backend")
    assert await contents(store, claim.lease) == ["look out"]
    written = step(claim.item.conversation, reads=(sent.id,))
    settled = await store.settle(claim.lease, DONE, written, claim_next=("backend", "worker-1", LEASE))
    assert settled.next == ()
    assert (await store.get(sent.id)).status == "read"


async def test_a_note_in_a_shared_conversation_that_was_not_shown_is_claimed(store):
    lease = await started_run(store)
    await store.hand_off(lease, _shared("one"), step())
    claim = await claim_one(store)
    sent = await write(store, note(), conversation="run-1/backend")
    await store.settle(claim.lease, DONE, step(claim.item.conversation))
    assert (await claim_one(store)).item.message.id == sent.id


async def test_an_interrupt_tells_the_process_that_is_at_work(store):
    _, (claim,) = await at_work(store)
    await write(store, note(urgency="note"))
    sent = await write(store, note(urgency="interrupt"))
    signals = await store.wait_for_signals("worker-1", 1000)
    assert list(signals) == [f"note:message:{claim.item.message.id}:{sent.id}"]


async def test_an_interrupt_to_the_lead_tells_who_drives_the_run(store):
    lease = await started_run(store)
    sent = await store.send(note(urgency="interrupt").evolve(to="manager"), member=None)
    assert list(await store.wait_for_signals("lead-1", 1000)) == [f"note:run:run-1:{sent.id}"]
    assert [taken.id for taken in await store.take_notes(lease, "manager")] == [sent.id]
    await store.append(lease, step("run-1", reads=(sent.id,)))
    assert (await store.get(sent.id)).status == "read"


async def test_the_end_of_a_run_cancels_its_notes(store):
    lease, _ = await at_work(store)
    sent = await write(store, note())
    assert await store.cancel_run(lease.id, "enough") == "cancelled"
    assert (await store.get(sent.id)).status == "cancelled"
    assert await store.claim("backend", "idle", LEASE, 5) == []


async def test_notes_are_taken_in_send_order_up_to_a_limit(store):
    _, (claim,) = await at_work(store)
    for content in ("one", "two", "three"):
        await write(store, note(content))
    assert await contents(store, claim.lease, limit=2) == ["one", "two"]
    assert await contents(store, claim.lease) == ["one", "two", "three"]


def _shared(content):
    return batch(item(content=content, conversation="run-1/backend", shared=True))
