"""Shorthand for the records that the suites send through a store."""

from lattice.mailbox import LEAD_MAILBOX, MessageStatus, TeamMessage
from lattice.runs import Batch, Outcome, RunRecord, Step, WorkItem

LEASE = 30_000
DONE = Outcome(status=MessageStatus.DONE, report="all done")


def outcome(text):
    return Outcome(status=MessageStatus.DONE, report=text)


def run_record(run_id="run-1", **more):
    return RunRecord(id=run_id, team="crew", task="build it", **more)


def item(member="backend", content="do it", *, run_id="run-1", sender=LEAD_MAILBOX, **more):
    message = TeamMessage(
        id="", from_=sender, to=f"crew::{member}", content=content, work_item_role="delegation", run_id=run_id
    )
    return WorkItem(message=message, member=member, conversation=more.pop("conversation", ""), **more)


def batch(*items, id="batch-1", **more):  # noqa: A002 - the name that the record has
    return Batch(id=id, items=items, **more)


def step(conversation="run-1", *messages, **more):
    return Step(conversation=conversation, messages=messages, **more)


async def started_run(store, run_id="run-1", owner="lead-1"):
    """Start a run and take it; returns its lease."""
    assert await store.start_run(run_record(run_id)) == "started"
    taken = await store.take_run(run_id, owner, LEASE)
    return taken.lease


async def handed_off(store, *items, lease=None, **more):
    """Hand off a batch of a new run; returns the run's lease and the messages."""
    lease = lease or await started_run(store)
    word, messages = await store.hand_off(lease, batch(*items, **more), step())
    assert word == "accepted"
    return lease, messages


async def claim_one(store, member="backend", owner="worker-1"):
    claims = await store.claim(member, owner, LEASE)
    assert len(claims) == 1, f"nothing to claim for {member}"
    return claims[0]


async def work_one(store, member="backend", report="all done", owner="worker-1"):
    """Claim the next message of a member and settle it."""
    claim = await claim_one(store, member, owner)
    settled = await store.settle(claim.lease, outcome(report), step(claim.item.conversation))
    assert settled.word == "settled"
    return claim
