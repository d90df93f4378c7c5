"""The run store's contract: every back end passes the same tests."""

import asyncio

import pytest

from lattice.errors import SizeLimitError, StoreError
from lattice.mailbox import MessageStatus, TeamMessage
from lattice.run_store import RUN_ENDED
from lattice.runs import Outcome, ProcessInfo, RunStatus
from tests.contracts.backends import TEAM
from tests.contracts.work import (
    DONE,
    LEASE,
    batch,
    claim_one,
    handed_off,
    item,
    outcome,
    run_record,
    started_run,
    step,
    work_one,
)


async def statuses(store, *messages):
    return [(await store.get(message.id)).status for message in messages]


# --- runs -----------------------------------------------------------------------------------------------------------


async def test_a_run_starts_queued_and_its_id_is_taken_from_then_on(store):
    assert await store.start_run(run_record(options={"retry": 1}, traceparent="00-aa-bb-01")) == "started"
    assert await store.start_run(run_record(options={"other": 2})) == "exists"
    run = await store.get_run("run-1")
    assert (run.status, run.task, run.options, run.traceparent) == ("queued", "build it", {"retry": 1}, "00-aa-bb-01")
    assert run.created_at > 0
    assert run.epoch == 0


async def test_a_run_that_nobody_started_is_missing(store):
    assert await store.get_run("nope") is None
    assert await store.take_run("nope", "lead-1", LEASE) == "missing"
    assert await store.cancel_run("nope", "why not") == "missing"
    assert await store.reopen_run("nope") == "missing"


async def test_a_task_of_content_blocks_comes_back_as_it_was(store):
    task = [{"type": "text", "text": "héllo 🌍\n"}, {"type": "image", "source": {"data": "aGk="}}]
    await store.start_run(run_record().__class__(id="run-1", team="crew", task=task))
    assert (await store.get_run("run-1")).task == task


async def test_one_process_at_a_time_holds_a_run(store):
    await store.start_run(run_record())
    taken = await store.take_run("run-1", "lead-1", LEASE)
    assert (taken.run.status, taken.run.epoch, taken.lease.token, taken.started) == ("running", 1, 1, False)
    assert await store.take_run("run-1", "lead-2", LEASE) == "held"
    assert await store.take_run("run-1", "lead-1", LEASE) == "held"


async def test_runs_are_listed_newest_first(store):
    for name in ("a", "b", "c"):
        await store.start_run(run_record(name))
    assert [run.id for run in await store.list_runs()] == ["c", "b", "a"]
    assert [run.id for run in await store.list_runs(limit=1)] == ["c"]


async def test_the_holder_finishes_a_run_with_its_result(store):
    lease = await started_run(store)
    await store.append(lease, step(usage={"inputTokens": 3, "outputTokens": 1}))
    word = await store.finish_run(
        lease, RunStatus.SUCCEEDED, {"result": "x"}, step("run-1", b'{"n":1}', usage={"inputTokens": 4})
    )
    assert word == "finished"
    run = await store.get_run("run-1")
    assert (run.status, run.result, run.error) == ("succeeded", {"result": "x"}, None)
    assert run.total_usage == {"inputTokens": 7, "outputTokens": 1}
    assert run.finished_at >= run.started_at >= run.created_at
    assert await store.take_run("run-1", "lead-2", LEASE) == "ended"


async def test_finishing_twice_is_finishing_once(store):
    lease = await started_run(store)
    await store.finish_run(lease, RunStatus.SUCCEEDED, {"result": "x"}, step("run-1", b"1"))
    assert await store.finish_run(lease, RunStatus.SUCCEEDED, {"result": "y"}, step("run-1", b"2")) == "finished"
    assert await store.finish_run(lease, RunStatus.FAILED, {}, step()) == "stale"
    assert (await store.get_run("run-1")).result == {"result": "x"}
    assert (await store.load("run-1")).messages == (b"1",)


async def test_a_finished_run_leaves_nothing_open(store):
    lease, (first, second) = await handed_off(store, item("backend"), item("qa"))
    claim = await claim_one(store, "backend")
    await store.finish_run(lease, RunStatus.FAILED, {}, step(), {"code": "x", "message": "y"})
    assert await statuses(store, first, second) == ["cancelled", "cancelled"]
    assert (await store.settle(claim.lease, DONE, step(first.id))).word == "stale"
    assert await store.claim("qa", "worker-2", LEASE) == []
    assert list(await store.wait_for_signals("worker-1", 1000)) == [f"cancel:{first.id}"]


async def test_a_failed_run_can_be_queued_again_and_goes_on_where_it_was(store):
    lease = await started_run(store)
    await store.append(lease, step("run-1", b'{"role":"user"}'))
    assert await store.reopen_run("run-1") == "refused"
    await store.finish_run(lease, RunStatus.FAILED, {}, step(), {"code": "x"})
    assert await store.reopen_run("run-1") == "reopened"
    run = await store.get_run("run-1")
    assert (run.status, run.error, run.result, run.finished_at) == ("queued", None, None, None)
    taken = await store.take_run("run-1", "lead-2", LEASE)
    assert (taken.run.epoch, taken.started) == (2, True)


# --- handing off and resuming ---------------------------------------------------------------------------------------


async def test_a_batch_is_accepted_with_its_messages_in_order(store):
    """team:HND-19"""
    lease = await started_run(store)
    word, sent = await store.hand_off(lease, batch(item("backend", "a"), item("qa", "b")), step("run-1", b"receipts"))
    assert word == "accepted"
    assert [(m.to, m.content, m.status, m.from_) for m in sent] == [
        ("crew::backend", "a", "pending", "manager"),
        ("crew::qa", "b", "pending", "manager"),
    ]
    for message in sent:
        assert message.thread_id == message.work_item_id == message.upstream_message_id == message.id
        assert message.work_item_role == "delegation"
        assert message.created_at > 0
    run = await store.get_run("run-1")
    assert (run.status, run.batch, run.round) == ("waiting", "batch-1", 1)
    assert (await store.load("run-1")).messages == (b"receipts",)


async def test_accepting_a_batch_twice_is_accepting_it_once(store):
    lease, sent = await handed_off(store, item("backend"))
    word, again = await store.hand_off(lease, batch(item("backend")), step("run-1", b"receipts"))
    assert word == "exists"
    assert [message.id for message in again] == [message.id for message in sent]
    assert len(await store.inbox("backend", "all")) == 1
    assert (await store.load("run-1")).messages == ()


async def test_reports_come_in_the_order_of_the_handoffs(store):
    """team:HND-12"""
    lease, (first, second, third) = await handed_off(store, item("a"), item("b"), item("c"))
    await work_one(store, "c", "from c")
    await work_one(store, "a", "from a")
    assert await store.resume(lease, "batch-1") == ("waiting", ())
    await work_one(store, "b", "from b")
    word, reports = await store.resume(lease, "batch-1")
    assert word == "complete"
    assert [report.content for report in reports] == ["from a", "from b", "from c"]
    assert [report.parent_message_id for report in reports] == [first.id, second.id, third.id]
    assert (await store.get_run("run-1")).status is RunStatus.RUNNING


async def test_a_report_names_what_it_reports_on(store):
    """team:HND-21"""
    lease, (request,) = await handed_off(store, item("backend"))
    claim = await claim_one(store)
    metadata = {"status": "failed", "error": {"code": "api_error", "message": "no", "name": "APIError"}}
    result = Outcome(status=MessageStatus.FAILED, report="no", metadata=metadata, report_id="the-report")
    await store.settle(claim.lease, result, step(request.id))
    _, (report,) = await store.resume(lease, "batch-1")
    assert (report.id, report.from_, report.to, report.status) == ("the-report", "crew::backend", "manager", "pending")
    assert (report.thread_id, report.work_item_id) == (request.thread_id, request.work_item_id)
    assert (report.upstream_message_id, report.work_item_role) == (request.id, "upstream_report")
    assert report.metadata == metadata
    assert report.run_id == "run-1"
    assert (await store.get(request.id)).status is MessageStatus.FAILED
    assert [message.id for message in await store.inbox("manager")] == ["the-report"]


async def test_the_last_settle_of_a_batch_wakes_whoever_waits(store):
    await handed_off(store, item("a"), item("b"))
    await work_one(store, "a")
    assert list(await store.wait_for_signals("lead-1", 1)) == []
    await work_one(store, "b")
    assert list(await store.wait_for_signals("lead-1", 1000)) == ["batch:batch-1"]


async def test_a_cancelled_item_stands_in_for_its_report(store):
    lease, (first, second) = await handed_off(store, item("a"), item("b"))
    await work_one(store, "a", "fine")
    assert await store.update_status(second.id, "cancelled")
    word, (one, two) = await store.resume(lease, "batch-1")
    assert (word, one.content, two.id, two.status) == ("complete", "fine", second.id, "cancelled")


async def test_an_ask_leaves_the_run_running(store):
    lease, (request,) = await handed_off(store, item("backend", mode="ask"), id="ask-1", pauses=False)
    assert (await store.get_run("run-1")).status is RunStatus.RUNNING
    claim = await store.claim_message(request.id, "worker-9", LEASE)
    assert claim.item.mode == "ask"
    await store.settle(claim.lease, outcome("answer"), step(request.id))
    word, (reply,) = await store.resume(lease, "ask-1")
    assert (word, reply.content) == ("complete", "answer")


async def test_with_a_limit_a_batch_releases_its_items_one_by_one(store):
    """team:CON-01"""
    _, (first, second, third) = await handed_off(store, item("a"), item("b"), item("c"), limit=2)
    assert await store.claim("c", "worker-1", LEASE) == []
    assert await store.claim_message(third.id, "worker-1", LEASE) is None
    await work_one(store, "b")
    claim = await claim_one(store, "c")
    assert claim.item.message.id == third.id
    await work_one(store, "a")


async def test_an_item_that_was_cancelled_while_it_was_held_back_is_passed_over(store):
    lease, (first, second, third) = await handed_off(store, item("a"), item("b"), item("c"), limit=1)
    await store.update_status(second.id, "cancelled")
    await work_one(store, "a")
    await work_one(store, "c")
    assert (await store.resume(lease, "batch-1"))[0] == "complete"


async def test_a_member_that_hands_off_is_resumed_like_the_lead(store):
    """team:HND-15"""
    await handed_off(store, item("backend"))
    claim = await claim_one(store)
    nested = batch(item("qa", sender="crew::backend"), id="nested")
    word, (sent,) = await store.hand_off(claim.lease, nested, step(claim.item.conversation, b"receipt"))
    assert word == "accepted"
    assert (await store.get_run("run-1")).batch == "batch-1"
    assert await store.resume(claim.lease, "nested") == ("waiting", ())
    await work_one(store, "qa", "checked", owner="worker-2")
    assert list(await store.wait_for_signals("worker-1", 1000)) == ["batch:nested"]
    word, (report,) = await store.resume(claim.lease, "nested")
    assert (word, report.content, report.to) == ("complete", "checked", "crew::backend")
    assert await store.claim("backend", "worker-3", LEASE) == [], "a report is nobody's task (team:W-03)"


async def test_whoever_claims_a_paused_item_again_knows_what_it_waits_for(store, backend):
    await handed_off(store, item("backend"))
    claim = await claim_one(store)
    assert (claim.batch, claim.delivered) == (None, True)
    await store.hand_off(claim.lease, batch(item("qa", sender="crew::backend"), id="nested"), step("c", b"1"))
    await backend.expire_leases()
    await store.reclaim_expired("reaper", LEASE)
    again = await claim_one(store, owner="worker-2")
    assert (again.batch, again.delivered, again.attempt) == ("nested", False, 2)
    assert await store.resume(claim.lease, "nested") == ("stale", ())
    await store.append(again.lease, step(again.item.conversation, b"reports", once="nested"))
    await store.hand_back(again.lease)
    assert (await claim_one(store)).delivered


async def test_nobody_else_resumes_a_batch(store):
    lease, _ = await handed_off(store, item("a"))
    other = await started_run(store, "run-2", "lead-2")
    await work_one(store, "a")
    assert await store.resume(other, "batch-1") == ("stale", ())
    assert await store.resume(lease, "unknown") == ("stale", ())


# --- claiming and settling ------------------------------------------------------------------------------------------


async def test_a_claim_tells_everything_about_the_work(store):
    work = item(
        "backend", "x", conversation="run-1/backend", shared=True, depth=2, description="d", traceparent="t",
        chain=("run-1", "c2"), mode="handoff",
    )  # fmt: skip
    _, (sent,) = await handed_off(store, work)
    claim = await claim_one(store)
    found = claim.item
    assert (found.member, found.conversation, found.mode, found.batch) == (
        "backend", "run-1/backend", "handoff", "batch-1",
    )  # fmt: skip
    assert (found.depth, found.shared, found.description, found.traceparent) == (2, True, "d", "t")
    assert found.chain == ("run-1", "c2")
    assert (found.message.id, found.message.status, found.message.content) == (sent.id, "processing", "x")
    assert (claim.attempt, claim.lease.token, claim.lease.owner, claim.started) == (1, 1, "worker-1", False)


async def test_messages_are_claimed_in_the_order_they_were_sent(store):
    """team:MBX-12"""
    await handed_off(store, *[item("backend", str(n)) for n in range(5)])
    claims = await store.claim("backend", "worker-1", LEASE, count=3)
    assert [claim.item.message.content for claim in claims] == ["0", "1", "2"]
    claims = await store.claim("backend", "worker-1", LEASE, count=3)
    assert [claim.item.message.content for claim in claims] == ["3", "4"]
    assert await store.claim("backend", "worker-1", LEASE) == []
    assert await store.claim("somebody", "worker-1", LEASE) == []


async def test_many_claimants_never_share_a_message(store):
    await handed_off(store, *[item("backend", str(n)) for n in range(20)])
    claims = await asyncio.gather(*[store.claim("backend", f"worker-{n}", LEASE, count=3) for n in range(10)])
    ids = [claim.item.message.id for some in claims for claim in some]
    assert len(ids) == len(set(ids)) == 20


async def test_settling_hands_out_the_next_message(store):
    await handed_off(store, item("backend", "1"), item("backend", "2"))
    first = await claim_one(store)
    settled = await store.settle(
        first.lease, DONE, step(first.item.conversation), claim_next=("backend", "worker-1", LEASE)
    )
    (second,) = settled.next
    assert (second.item.message.content, second.lease.owner) == ("2", "worker-1")
    settled = await store.settle(second.lease, DONE, step("c"), claim_next=("backend", "worker-1", LEASE))
    assert settled.next == ()


async def test_settling_twice_is_settling_once(store):
    lease, _ = await handed_off(store, item("backend"), item("qa"))
    claim = await claim_one(store)
    assert (await store.settle(claim.lease, outcome("one"), step("c", b"1"))).word == "settled"
    assert (await store.settle(claim.lease, outcome("two"), step("c", b"2"))).word == "settled"
    assert (await store.load("c")).messages == (b"1",)
    assert [report.content for report in await store.inbox("manager")] == ["one"]
    assert await store.resume(lease, "batch-1") == ("waiting", ())


async def test_a_settle_of_nothing_is_missing(store):
    lease = await started_run(store)
    stranger = type(lease)("message", "nope", "worker-1", 1)
    assert (await store.settle(stranger, DONE, step())).word == "missing"


async def test_a_cancelled_item_has_no_report(store):
    """team:ABRT-10"""
    await handed_off(store, item("backend"))
    claim = await claim_one(store)
    await store.settle(claim.lease, Outcome(status=MessageStatus.CANCELLED, report="x"), step("c"))
    assert await store.inbox("manager", "all") == []
    assert await store.counts("backend") == {"cancelled": 1}


async def test_a_backlog_is_what_waits_and_for_how_long(store):
    assert await store.backlog("backend") == (0, 0)
    await handed_off(store, *[item("backend", str(n)) for n in range(3)])
    await claim_one(store)
    waiting, age = await store.backlog("backend")
    assert waiting == 2
    assert 0 <= age < 60_000
    await work_one(store)
    assert (await store.backlog("backend"))[0] == 1
    assert await store.backlog("manager") == (0, 0)


async def test_counts_are_those_of_the_inbox(store):
    await handed_off(store, *[item("backend", str(n)) for n in range(4)])
    await work_one(store)
    await claim_one(store)
    assert await store.counts("backend") == {"pending": 2, "processing": 1, "done": 1}
    assert await store.counts("nobody") == {}
    for status, number in {"pending": 2, "processing": 1, "done": 1, "failed": 0, "all": 4}.items():
        assert len(await store.inbox("backend", status)) == number


async def test_a_message_is_claimed_by_its_id_once(store):
    _, (first, second) = await handed_off(store, item("backend", "1"), item("backend", "2"))
    assert (await store.claim_message(second.id, "worker-1", LEASE)).item.message.content == "2"
    assert await store.claim_message(second.id, "worker-2", LEASE) is None
    assert await store.claim_message("nope", "worker-2", LEASE) is None
    assert [c.item.message.id for c in await store.claim("backend", "worker-1", LEASE, count=5)] == [first.id]


async def test_work_given_back_comes_first_again(store):
    await handed_off(store, item("backend", "1"), item("backend", "2"))
    claim = await claim_one(store)
    assert await store.hand_back(claim.lease, step(claim.item.conversation, b"so far")) == "returned"
    assert (await store.get(claim.item.message.id)).status is MessageStatus.PENDING
    assert (await store.settle(claim.lease, DONE, step("c"))).word == "stale"
    again = await claim_one(store)
    assert (again.item.message.content, again.attempt, again.started) == ("1", 2, True)


async def test_giving_back_twice_is_giving_back_once(store):
    await handed_off(store, item("backend", "1"))
    claim = await claim_one(store)
    assert await store.hand_back(claim.lease) == "returned"
    assert await store.hand_back(claim.lease) == "returned"
    assert await store.counts("backend") == {"pending": 1}
    await claim_one(store, owner="worker-2")
    assert await store.claim("backend", "worker-3", LEASE) == []


async def test_a_run_given_back_may_be_taken_at_once(store):
    lease = await started_run(store)
    assert await store.hand_back(lease) == "returned"
    assert await store.append(lease, step("run-1", b"1")) == "stale"
    taken = await store.take_run("run-1", "lead-2", LEASE)
    assert (taken.run.status, taken.run.epoch) == ("running", 2)


# --- shared conversations -------------------------------------------------------------------------------------------


async def test_one_message_of_a_shared_conversation_is_out_at_a_time(store):
    """team:CON-03"""
    shared = {"conversation": "run-1/backend", "shared": True}
    await handed_off(store, *[item("backend", str(n), **shared) for n in range(3)], item("backend", "other"))
    claims = await store.claim("backend", "worker-1", LEASE, count=10)
    assert [claim.item.message.content for claim in claims] == ["0", "other"]
    settled = await store.settle(claims[0].lease, DONE, step("run-1/backend", b"1"))
    assert settled.word == "settled"
    second = await claim_one(store)
    assert (second.item.message.content, second.started) == ("1", True)
    await store.settle(second.lease, DONE, step("run-1/backend"), claim_next=("backend", "worker-1", LEASE))
    assert await store.claim("backend", "worker-1", LEASE) == []


async def test_a_held_back_message_cannot_be_claimed_by_its_id(store):
    shared = {"conversation": "run-1/backend", "shared": True}
    _, (first, second) = await handed_off(store, item("backend", **shared), item("backend", **shared))
    assert await store.claim_message(second.id, "worker-1", LEASE) is None
    assert await store.claim_message(first.id, "worker-1", LEASE) is not None


async def test_cancelling_the_head_of_a_conversation_frees_the_next(store):
    shared = {"conversation": "run-1/backend", "shared": True}
    _, sent = await handed_off(store, *[item("backend", str(n), **shared) for n in range(3)])
    await store.update_status(sent[1].id, "cancelled")
    await store.update_status(sent[0].id, "cancelled")
    assert (await claim_one(store)).item.message.content == "2"


# --- fencing --------------------------------------------------------------------------------------------------------


async def test_a_worker_that_lost_its_lease_writes_nothing(store, backend):
    """team:W-07"""
    lease, (request,) = await handed_off(store, item("backend"))
    old = await claim_one(store, owner="zombie")
    await backend.expire_leases()
    await store.reclaim_expired("reaper", LEASE, runs=False)
    new = await claim_one(store, owner="worker-2")
    assert new.lease.token == 2
    late = step(request.id, b"late", events=(b'{"type":"late"}',), usage={"inputTokens": 9})
    assert await store.append(old.lease, late) == "stale"
    assert (await store.settle(old.lease, DONE, late)).word == "stale"
    assert await store.hand_back(old.lease, late) == "stale"
    assert await store.hand_off(old.lease, batch(item("qa"), id="late"), late) == ("stale", ())
    assert await store.renew([old.lease, new.lease], LEASE) == [old.lease]
    assert (await store.load(request.id)).messages == ()
    assert (await store.get_run("run-1")).total_usage is None
    assert await store.read_events("run-1") == []
    assert (await store.get(request.id)).status is MessageStatus.PROCESSING


async def test_a_lead_that_lost_its_lease_writes_nothing(store, backend):
    old = await started_run(store, owner="zombie")
    await backend.expire_leases()
    expired = await store.reclaim_expired("lead-2", LEASE)
    assert [(lease.kind, lease.id, lease.word) for lease in expired] == [("run", "run-1", "run")]
    assert await store.append(old, step("run-1", b"late")) == "stale"
    taken = await store.take_run("run-1", "lead-2", LEASE)
    assert taken.lease.token == 2
    assert await store.append(old, step("run-1", b"late")) == "stale"
    assert await store.finish_run(old, RunStatus.SUCCEEDED, {}, step("run-1", b"late")) == "stale"
    assert await store.hand_off(old, batch(item()), step("run-1", b"late")) == ("stale", ())
    assert await store.renew([old], LEASE) == [old]
    assert (await store.load("run-1")).messages == ()


async def test_an_expired_lease_that_nobody_reclaimed_is_still_good(store, backend):
    await handed_off(store, item("backend"))
    claim = await claim_one(store)
    await backend.expire_leases()
    assert await store.renew([claim.lease], LEASE) == []
    assert await store.reclaim_expired("reaper", LEASE, runs=False) == []
    assert (await store.settle(claim.lease, DONE, step("c"))).word == "settled"


# --- lost workers ---------------------------------------------------------------------------------------------------


async def test_lost_work_comes_first_again_in_its_old_order(store, backend):
    await handed_off(store, *[item("backend", str(n)) for n in range(3)])
    await store.claim("backend", "worker-1", LEASE, count=2)
    assert await store.reclaim_expired("reaper", LEASE) == []
    await backend.expire_leases()
    expired = await store.reclaim_expired("reaper", LEASE, runs=False)
    assert [(lease.kind, lease.word, lease.attempt) for lease in expired] == [("message", "returned", 1)] * 2
    claims = await store.claim("backend", "worker-2", LEASE, count=3)
    assert [claim.item.message.content for claim in claims] == ["0", "1", "2"]


async def test_work_that_loses_every_worker_fails_and_is_reported(backend):
    store = backend.store(max_attempts=2)
    lease, (request,) = await handed_off(store, item("backend"))
    words = []
    for _ in range(2):
        await claim_one(store)
        await backend.expire_leases()
        words += [(lost.word, lost.attempt) for lost in await store.reclaim_expired("reaper", LEASE, runs=False)]
    assert words == [("returned", 1), ("dead", 2)]
    assert (await store.get(request.id)).status is MessageStatus.FAILED
    await store.renew([lease], LEASE)
    word, (report,) = await store.resume(lease, "batch-1")
    assert (word, report.metadata["error"]["code"]) == ("complete", "worker_lost")
    assert await store.claim("backend", "worker-1", LEASE) == []


async def test_the_events_tell_of_work_that_lost_every_worker(backend):
    """Every message has one end in the stream of its run, whoever wrote it."""
    store = backend.store(max_attempts=1)
    lease, (request,) = await handed_off(store, item("backend"))
    await claim_one(store)
    await backend.expire_leases()
    await store.reclaim_expired("reaper", LEASE, runs=False)
    await store.renew([lease], LEASE)
    _, (report,) = await store.resume(lease, "batch-1")
    failed, replied = [event for _, event in await store.read_events("run-1") if event["type"] == "team_message"][-2:]
    assert failed == {
        "type": "team_message",
        "subtype": "failed",
        "source": {
            "kind": "team_member",
            "name": "backend",
            "team": TEAM,
            "member": "backend",
            "mailbox": request.to,
        },
        "mailbox": request.to,
        "message": (await store.get(request.id)).to_dict(),
        "error": report.metadata["error"],
    }
    assert (replied["subtype"], replied["mailbox"], replied["error"]) == ("replied", request.from_, failed["error"])
    assert replied["message"] == report.to_dict()
    assert failed["error"]["code"] == "worker_lost"


async def test_nothing_is_told_of_a_run_that_is_over(backend):
    store = backend.store(max_attempts=1)
    await handed_off(store, item("backend"))
    await claim_one(store)
    await store.cancel_run("run-1", "enough")
    told = await store.read_events("run-1")
    await backend.expire_leases()
    await store.reclaim_expired("reaper", LEASE, runs=False)
    assert await store.read_events("run-1") == told


async def test_work_that_was_handed_back_has_not_lost_a_worker(backend):
    store = backend.store(max_attempts=2)
    await handed_off(store, item("backend"))
    for _ in range(3):
        assert await store.hand_back((await claim_one(store)).lease) == "returned"
    claim = await claim_one(store)
    assert claim.attempt == 4
    await backend.expire_leases()
    (lost,) = await store.reclaim_expired("reaper", LEASE, runs=False)
    assert lost.word == "returned"


async def test_an_expired_run_is_kept_for_whoever_found_it(store, backend):
    await started_run(store, owner="lead-1")
    await backend.expire_leases()
    assert await store.reclaim_expired("worker", LEASE, runs=False) == []
    assert [lost.id for lost in await store.reclaim_expired("lead-2", LEASE)] == ["run-1"]
    assert await store.take_run("run-1", "lead-3", LEASE) == "held"
    assert (await store.take_run("run-1", "lead-2", LEASE)).run.owner == "lead-2"


async def test_an_expired_run_whose_finder_died_too_is_found_again(store, backend):
    await started_run(store, owner="lead-1")
    for finder in ("lead-2", "lead-3"):
        await backend.expire_leases()
        assert [lost.id for lost in await store.reclaim_expired(finder, LEASE)] == ["run-1"]
    assert (await store.take_run("run-1", "lead-3", LEASE)).run.epoch == 2


async def test_whoever_takes_a_run_over_knows_what_it_waits_for(store, backend):
    lease, _ = await handed_off(store, item("backend"))
    await work_one(store)
    await backend.expire_leases()
    await store.reclaim_expired("lead-2", LEASE)
    taken = await store.take_run("run-1", "lead-2", LEASE)
    assert (taken.run.status, taken.run.batch, taken.delivered) == ("waiting", "batch-1", False)
    word, (report,) = await store.resume(taken.lease, "batch-1")
    assert word == "complete"
    await store.append(taken.lease, step("run-1", b"update", once="batch-1", reads=(report.id,)))
    await store.hand_back(taken.lease)
    assert (await store.take_run("run-1", "lead-3", LEASE)).delivered


# --- cancelling -----------------------------------------------------------------------------------------------------


async def test_cancelling_a_run_reaches_all_of_it(store):
    """team:ABRT-01"""
    lease, (running, queued) = await handed_off(store, item("backend"), item("qa"))
    claim = await claim_one(store, "backend")
    assert await store.cancel_run("run-1", "not needed any more") == "cancelled"
    run = await store.get_run("run-1")
    assert (run.status, run.error) == ("cancelled", {"code": "cancelled", "message": "not needed any more"})
    assert await statuses(store, running, queued) == ["cancelled", "cancelled"]
    assert list(await store.wait_for_signals("worker-1", 1000)) == [f"cancel:{running.id}"]
    assert "cancel:run:run-1" in list(await store.wait_for_signals("lead-1", 1000))
    assert await store.renew([lease, claim.lease], LEASE) == [lease, claim.lease]
    assert (await store.settle(claim.lease, DONE, step("c"))).word == "stale"
    assert await store.finish_run(lease, RunStatus.SUCCEEDED, {}, step()) == "stale"
    assert await store.claim("qa", "worker-2", LEASE) == []
    assert await store.inbox("manager", "all") == []
    assert await store.cancel_run("run-1", "again") == "ended"


async def test_a_queued_run_is_cancelled_before_anybody_takes_it(store):
    await store.start_run(run_record())
    assert await store.cancel_run("run-1", "no") == "cancelled"
    assert await store.take_run("run-1", "lead-1", LEASE) == "ended"


async def test_cancelling_one_message_tells_its_worker(store):
    _, (request,) = await handed_off(store, item("backend"))
    claim = await claim_one(store)
    assert await store.update_status(request.id, "cancelled") is True
    assert list(await store.wait_for_signals("worker-1", 1000)) == [f"cancel:{request.id}"]
    assert (await store.settle(claim.lease, DONE, step("c"))).word == "stale"


# --- states ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["done", "failed", "cancelled", "read"])
async def test_a_terminal_state_is_final(store, end):
    """team:W-07"""
    _, (request,) = await handed_off(store, item("backend"))
    assert await store.update_status(request.id, end) is True
    for status in MessageStatus:
        assert await store.update_status(request.id, status) is False
    assert (await store.get(request.id)).status == end
    assert await store.claim("backend", "worker-1", LEASE) == []


async def test_moves_that_are_none_are_refused(store):
    _, (request,) = await handed_off(store, item("backend"))
    assert await store.update_status(request.id, "pending") is False
    assert await store.update_status("nope", "done") is False
    assert await store.update_status(request.id, "processing") is True
    assert await store.update_status(request.id, "processing") is False
    assert await store.update_status(request.id, "pending") is False
    assert await store.claim("backend", "worker-1", LEASE) == []
    assert await store.update_status(request.id, "done") is True


async def test_a_status_that_is_none_is_an_error(store):
    with pytest.raises(ValueError, match="finished"):
        await store.update_status("x", "finished")


# --- conversations, journal, events ---------------------------------------------------------------------------------


async def test_a_text_enters_a_conversation_once(store):
    lease = await started_run(store)
    await store.append(lease, step("run-1", b"task", b"answer", once="m1"))
    await store.append(lease, step("run-1", b"task", b"second answer", once="m1"))
    state = await store.load("run-1")
    assert state.messages == (b"task", b"answer", b"second answer")
    assert state.entered == {"m1"}


async def test_compaction_rewrites_a_conversation(store):
    lease = await started_run(store)
    await store.append(lease, step("run-1", b"1", b"2", once="m1"))
    await store.append(lease, step("run-1", b"summary", replace=True))
    state = await store.load("run-1")
    assert (state.messages, state.entered) == ((b"summary",), {"m1"})


async def test_the_journal_keeps_what_started_and_what_finished(store):
    lease = await started_run(store)
    await store.append(lease, step(started=("t1", "t2")))
    await store.append(lease, step(finished=(("t1", b'{"ok":true}'),)))
    assert (await store.load("run-1")).journal == {"t1": b'{"ok":true}', "t2": b""}
    await store.append(lease, step("run-1", b"results", clear_journal=True, started=("t3",)))
    assert (await store.load("run-1")).journal == {"t3": b""}


async def test_settling_empties_the_journal(store):
    await handed_off(store, item("backend"))
    claim = await claim_one(store)
    name = claim.item.conversation
    await store.append(claim.lease, step(name, started=("t1",)))
    await store.settle(claim.lease, DONE, step(name))
    assert (await store.load(name)).journal == {}


async def test_reports_become_read_when_their_text_has_entered(store):
    """team:W-20"""
    lease, _ = await handed_off(store, item("backend"))
    await work_one(store)
    _, (report,) = await store.resume(lease, "batch-1")
    await store.append(lease, step("run-1", b"update", once="batch-1", reads=(report.id,)))
    assert (await store.get(report.id)).status is MessageStatus.READ
    assert await store.counts("manager") == {"read": 1}


async def test_texts_of_any_kind_survive(store):
    lease = await started_run(store)
    raw = '{"text":"\\u0000 🌍 \\ud83c\\udf0d \\"quoted\\" ]]"}'.encode()
    await store.append(lease, step("run-1", raw, b"", finished=(("t {}[]'", raw),)))
    state = await store.load("run-1")
    assert state.messages == (raw, b"")
    assert state.journal == {"t {}[]'": raw}


async def test_signed_blocks_are_kept_byte_for_byte(store):
    lease = await started_run(store)
    raw = b'{ "signature" : "EqQB/+=" ,"n":1.0,  "big":12345678901234567890, "e":[] , "o":{} }'
    await store.append(lease, step("run-1", raw))
    assert (await store.load("run-1")).messages == (raw,)


async def test_an_unknown_conversation_is_empty(store):
    state = await store.load("nope")
    assert (state.messages, state.entered, state.journal) == ((), frozenset(), {})


async def test_events_are_read_from_any_offset_until_the_end(store):
    lease = await started_run(store)
    await store.append(lease, step(events=(b'{"type":"a"}', b'{"type":"b"}')))
    events = await store.read_events("run-1")
    assert [event["type"] for _, event in events] == ["a", "b"]
    await store.finish_run(lease, RunStatus.SUCCEEDED, {}, step(events=(b'{"type":"result"}',)))
    rest = await store.read_events("run-1", events[0][0])
    assert [event["type"] for _, event in rest] == ["b", "result", RUN_ENDED]
    assert rest[-1][1]["status"] == "succeeded"
    assert await store.read_events("run-1", rest[-1][0]) == []
    assert await store.read_events("nope") == []


async def test_a_reader_is_told_of_events_that_are_not_kept_any_more(backend):
    store = backend.store(max_events=50)
    lease = await started_run(store)
    assert await store.lost_events("run-1") == 0
    await store.append(lease, step(events=tuple(b'{"type":"e","n":%d}' % n for n in range(500))))
    kept = await store.read_events("run-1")
    assert 50 <= len(kept) < 500
    assert kept[-1][1]["n"] == 499
    assert await store.lost_events("run-1") == kept[0][1]["n"] == 500 - len(kept)
    assert await store.lost_events("run-1", kept[0][0]) == 0
    assert await store.lost_events("run-1", kept[-1][0]) == 0
    assert await store.lost_events("nope") == 0


async def test_a_member_writes_the_events_of_its_run(store):
    await handed_off(store, item("backend"))
    claim = await claim_one(store)
    await store.settle(claim.lease, DONE, step("c", events=(b'{"type":"x"}',), usage={"inputTokens": 5}))
    assert [event for _, event in await store.read_events("run-1")] == [{"type": "x"}]
    assert (await store.get_run("run-1")).total_usage == {"inputTokens": 5}


async def test_a_follower_waits_for_the_next_event(store):
    lease = await started_run(store)
    waiting = asyncio.create_task(store.read_events("run-1", block_ms=10_000))
    await asyncio.sleep(0)
    await store.append(lease, step(events=(b'{"type":"a"}',)))
    assert [event["type"] for _, event in await waiting] == ["a"]
    assert await store.read_events("run-1", (await store.read_events("run-1"))[-1][0], block_ms=1) == []


async def test_deltas_are_kept_while_somebody_follows(store):
    lease = await started_run(store)
    await store.append(lease, step(deltas=(b'{"type":"delta","n":0}',)))
    assert await store.read_events("run-1", block_ms=1) == []
    await store.append(lease, step(deltas=(b'{"type":"delta","n":1}',), events=(b'{"type":"message"}',)))
    events = await store.read_events("run-1", block_ms=1)
    assert [event["type"] for _, event in events] == ["delta", "message"]
    assert await store.read_events("run-1", events[-1][0], block_ms=1) == []
    assert [event["type"] for _, event in await store.read_events("run-1", events[0][0])] == ["message"]


# --- messages outside batches ---------------------------------------------------------------------------------------


def note(content="hello", **more):
    return TeamMessage(**{"id": "", "from_": "manager", "to": "crew::backend", "content": content, **more})


async def test_a_message_is_sent_with_its_defaults(store):
    """team:MBX-05"""
    sent = await store.send(note(metadata={"n": 1}), member="backend")
    assert sent.id
    assert sent.thread_id == sent.work_item_id == sent.upstream_message_id == sent.id
    assert (sent.work_item_role, sent.status, sent.metadata) == ("upstream_request", "pending", {"n": 1})
    answer = note("fine", from_="crew::backend", to="manager", parent_message_id=sent.id)
    reply = await store.send(answer, member=None)
    assert (reply.thread_id, reply.work_item_id, reply.work_item_role) == (sent.id, sent.id, "upstream_report")
    assert await store.get(reply.id) == reply


async def test_a_message_with_an_id_is_sent_once(store):
    first = await store.send(note("one", id="m-1"), member="backend")
    again = await store.send(note("two", id="m-1"), member="backend")
    assert (first.id, again.content) == ("m-1", "one")
    assert len(await store.inbox("backend", "all")) == 1


async def test_a_message_that_nobody_claims_is_only_kept(store):
    await store.send(note(from_="crew::qa"), member=None)
    assert len(await store.inbox("backend")) == 1
    assert await store.claim("backend", "worker-1", LEASE) == []


async def test_sent_messages_of_one_conversation_are_worked_one_after_another(store):
    for n in range(2):
        await store.send(note(str(n)), member="backend", conversation="member/backend")
    (first,) = await store.claim("backend", "worker-1", LEASE, count=2)
    await store.settle(first.lease, DONE, step("member/backend"))
    assert (await claim_one(store)).item.message.content == "1"


# --- limits ---------------------------------------------------------------------------------------------------------


async def test_a_text_over_the_limit_is_refused_and_nothing_is_sent(backend):
    store = backend.store(max_message_bytes=10)
    with pytest.raises(SizeLimitError, match="crew::backend.*11 bytes, the limit is 10"):
        await store.send(note("x" * 9 + "é"), member="backend")
    lease = await started_run(store)
    with pytest.raises(SizeLimitError):
        await store.hand_off(lease, batch(item("backend", "ok"), item("qa", "x" * 11)), step("run-1", b"1"))
    assert await store.inbox("backend", "all") == []
    assert (await store.load("run-1")).messages == ()


async def test_a_mailbox_has_a_depth(backend):
    store = backend.store(max_mailbox_depth=2)
    lease = await started_run(store)
    word, sent = await store.hand_off(lease, batch(*[item("backend") for _ in range(3)]), step("run-1", b"1"))
    assert (word, sent) == ("full", ())
    assert (await store.load("run-1")).messages == ()
    assert (await store.get_run("run-1")).status is RunStatus.RUNNING
    await handed_off(store, item("backend"), item("backend"), lease=lease, id="batch-2")
    with pytest.raises(StoreError, match="'backend' is full: it holds 2"):
        await store.send(note(), member="backend")
    await store.send(note(), member=None)
    await work_one(store)
    await store.send(note(), member="backend")


async def test_the_event_stream_has_a_length(backend):
    store = backend.store(max_events=100)
    lease = await started_run(store)
    for n in range(10):
        await store.append(lease, step(events=tuple(b'{"type":"e","n":%d}' % (n * 100 + m) for m in range(100))))
    events = await store.read_events("run-1")
    assert 100 <= len(events) <= 300
    assert events[-1][1]["n"] == 999


# --- processes and waiting ------------------------------------------------------------------------------------------


async def test_live_processes_are_those_that_say_so(store):
    info = ProcessInfo(id="w-1", role="worker", host="h", pid=7, member="backend", concurrency=3, started_at=5)
    await store.heartbeat(info, 60_000)
    await store.heartbeat(ProcessInfo(id="c-1", role="coordinator", host="h", pid=8), 60_000)
    (coordinator, worker) = sorted(await store.processes(), key=lambda process: process.id)
    assert coordinator.role == "coordinator"
    assert (worker.member, worker.concurrency, worker.pid, worker.started_at) == ("backend", 3, 7, 5)
    assert worker.seen_at > 0
    await store.forget_process("w-1")
    assert [process.id for process in await store.processes()] == ["c-1"]


def awaited(store, member="backend", timeout_ms=10_000, owner="worker-1", count=1):
    return asyncio.ensure_future(store.await_claims(member, owner, LEASE, count, timeout_ms))


async def test_who_waits_for_mail_gets_it_claimed(store):
    waiting = awaited(store)
    await asyncio.sleep(0)
    sent = await store.send(note(), member="backend")
    (claim,) = await waiting
    assert (claim.item.message.id, claim.lease.owner, claim.attempt) == (sent.id, "worker-1", 1)
    assert (await store.get(sent.id)).status == "processing"
    assert await awaited(store, "qa", timeout_ms=1) == []


async def test_mail_that_was_claimed_already_wakes_nobody(store):
    await handed_off(store, *[item("backend") for _ in range(3)])
    await store.claim("backend", "worker-1", LEASE, count=10)
    assert await awaited(store, timeout_ms=1) == []


async def test_work_given_back_wakes_somebody(store):
    await handed_off(store, item("backend"))
    claim = await claim_one(store)
    assert await store.claim("backend", "worker-1", LEASE) == []
    await store.hand_back(claim.lease)
    (again,) = await awaited(store, timeout_ms=1000)
    assert again.item.message.id == claim.item.message.id


async def test_who_waits_takes_no_more_than_was_asked_for(store):
    await handed_off(store, *[item("backend") for _ in range(3)])
    assert len(await awaited(store, count=2)) == 2
    assert len(await awaited(store, count=2)) == 1


async def test_a_wait_that_is_cancelled_claims_nothing(store):
    for _ in range(20):
        waiting = awaited(store)
        await asyncio.sleep(0)
        sent = asyncio.ensure_future(store.send(note(), member="backend"))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, sent, return_exceptions=True)
        (claim,) = await store.claim("backend", "worker-2", LEASE) if waiting.cancelled() else waiting.result()
        assert claim.item.message.id == sent.result().id
        assert await store.claim("backend", "worker-2", LEASE) == []


# --- forgetting -----------------------------------------------------------------------------------------------------


async def test_an_ended_run_is_forgotten_with_all_that_it_had(store, backend):
    lease, (request,) = await handed_off(store, item("backend", conversation="run-1/backend", shared=True))
    await work_one(store)
    await store.resume(lease, "batch-1")
    await store.finish_run(lease, RunStatus.SUCCEEDED, {}, step("run-1", b"1", events=(b'{"type":"x"}',)))
    other = await started_run(store, "run-2")
    assert await store.forget_runs() == 0
    await backend.end_retention()
    assert await store.forget_runs() == 1
    assert await store.get_run("run-1") is None
    assert await store.get(request.id) is None
    assert await store.inbox("backend", "all") == await store.inbox("manager", "all") == []
    assert await store.counts("backend") == await store.counts("manager") == {}
    assert await store.read_events("run-1") == []
    assert (await store.load("run-1/backend")).messages == ()
    assert [run.id for run in await store.list_runs()] == ["run-2"]
    await store.renew([other], LEASE)
    assert await store.append(other, step("run-2", b"1")) == "written"


async def test_a_members_lasting_conversation_outlives_its_runs(store, backend):
    lease, _ = await handed_off(store, item("backend", conversation="member/backend", shared=True))
    claim = await claim_one(store)
    await store.settle(claim.lease, DONE, step("member/backend", b"1", once=claim.item.message.id))
    await store.finish_run(lease, RunStatus.SUCCEEDED, {}, step())
    await backend.end_retention()
    await store.forget_runs()
    state = await store.load("member/backend")
    assert state.messages == (b"1",)
    assert state.entered == frozenset()


async def test_the_end_of_a_run_tells_what_it_cancels(backend):
    store = backend.store()
    _, (first, second) = await handed_off(store, item("backend"), item("qa"))
    note = await store.send(
        TeamMessage(id="", from_="crew::qa", to="crew::backend", content="a note", run_id="run-1"), member="backend"
    )
    await claim_one(store)
    await store.cancel_run("run-1", "enough")
    events = [event for _, event in await store.read_events("run-1")]
    *_, one, two, end = events
    assert end["type"] == RUN_ENDED
    for event, message in ((one, first), (two, second)):
        assert event["subtype"] == "cancelled"
        assert event["mailbox"] == event["source"]["mailbox"] == message.to
        assert event["message"] == (await store.get(message.id)).to_dict()
        assert event["message"]["status"] == "cancelled"
        assert "error" not in event
    assert note.id not in [event.get("message", {}).get("id") for event in events]
