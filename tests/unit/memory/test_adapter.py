"""The memory run store over mailboxes that hosts bring along."""

import functools

import pytest

from lattice.mailbox import MessageStatus
from lattice.memory.run_store import MemoryRunStore
from tests.contracts.work import DONE, LEASE, claim_one, handed_off, item, step, work_one


class DictMailbox:
    """The documentation's sample: plain dicts, five methods, no linking, no ids from outside."""

    def __init__(self):
        self.records = []
        self.options = []

    def send(self, from_, to, content, *, parent_message_id=None, work_item_id=None, thread_id=None, metadata=None):
        record = {
            "id": f"msg_{len(self.records) + 1}", "from": from_, "to": to, "content": content, "status": "pending",
            "createdAt": len(self.records), "threadId": thread_id or f"msg_{len(self.records) + 1}",
            "parentMessageId": parent_message_id, "metadata": metadata,
        }  # fmt: skip
        self.records.append(record)
        return dict(record)

    def inbox(self, mailbox_id, status="pending"):
        return [dict(r) for r in self.records if r["to"] == mailbox_id and status in ("all", r["status"])]

    def get(self, message_id):
        return next((dict(r) for r in self.records if r["id"] == message_id), None)

    def claim_next(self, mailbox_id):
        raise AssertionError("the runtime claims what it sent, not what is oldest")

    def update_status(self, message_id, status):
        for record in self.records:
            if record["id"] == message_id:
                record["status"] = status


class AsyncMailbox(DictMailbox):
    @functools.wraps(DictMailbox.send)
    async def send(self, *args, **options):
        return super().send(*args, **options)

    async def inbox(self, *args, **options):
        return super().inbox(*args, **options)

    async def get(self, *args):
        return super().get(*args)

    async def update_status(self, *args):
        return super().update_status(*args)


@pytest.fixture(params=[DictMailbox, AsyncMailbox])
def mailbox(request):
    return request.param()


async def test_a_hosts_mailbox_sees_the_whole_exchange(mailbox):
    """team:MBX-15 team:W-01"""
    store = MemoryRunStore(mailbox)
    mailbox.records.append(
        {"id": "old", "from": "x", "to": "crew::backend", "content": "leftover", "status": "pending"}
    )
    lease, (sent,) = await handed_off(store, item("backend"))
    claim = await store.claim_message(sent.id, "worker-1", LEASE)
    assert claim.item.message.content == "do it"
    await store.settle(claim.lease, DONE, step("c"))
    word, (report,) = await store.resume(lease, "batch-1")
    assert (word, report.content, report.parent_message_id) == ("complete", "all done", sent.id)
    assert [record["status"] for record in mailbox.records] == ["pending", "done", "pending"]


async def test_mail_that_the_host_put_there_is_claimed_after_the_stores_own(mailbox):
    store = MemoryRunStore(mailbox, mailbox_ids={"backend": "crew::backend"})
    mailbox.records.append({"id": "own", "from": "x", "to": "crew::backend", "content": "by hand", "status": "pending"})
    await handed_off(store, item("backend"))
    assert (await work_one(store)).item.message.content == "do it"
    assert (await work_one(store)).item.message.content == "by hand"
    assert await store.claim("backend", "worker-1", LEASE) == []


async def test_work_given_back_is_claimable_although_the_host_cannot_reopen_it(mailbox):
    store = MemoryRunStore(mailbox)
    await handed_off(store, item("backend"))
    claim = await claim_one(store)
    await store.hand_back(claim.lease)
    again = await claim_one(store)
    assert (again.attempt, again.item.message.status) == (2, MessageStatus.PROCESSING)


async def test_work_that_the_host_ended_by_hand_is_not_claimed_and_counts_as_out_no_more(mailbox):
    store = MemoryRunStore(mailbox)
    lease, (first, _) = await handed_off(store, item("backend", "1"), item("backend", "2"))
    mailbox.records[0]["status"] = "cancelled"
    assert (await work_one(store)).item.message.content == "2"
    word, (one, two) = await store.resume(lease, "batch-1")
    assert (word, one.id, two.content) == ("complete", first.id, "all done")


async def test_a_mailbox_that_breaks_half_way_leaves_no_work_that_nobody_waits_for():
    """team:FAIL-09 team:W-09"""

    class Breaking(DictMailbox):
        @functools.wraps(DictMailbox.send)
        def send(self, from_, to, content, **options):
            if content == "bad":
                raise OSError("disk full")
            return super().send(from_, to, content, **options)

    mailbox = Breaking()
    store = MemoryRunStore(mailbox)
    with pytest.raises(OSError, match="disk full"):
        await handed_off(store, item("backend"), item("qa", "bad"))
    assert [record["status"] for record in mailbox.records] == ["cancelled"]
    assert await store.claim("backend", "worker-1", LEASE) == []
