"""The run store's contract on dead letters, retries, budgets, and where work stands."""

import pytest

from lattice.errors import OptionError, StoreError
from lattice.mailbox import TeamMessage
from lattice.runs import Account, Budget, Lease
from tests.contracts.work import LEASE, claim_one, handed_off, item, outcome, started_run, step, work_one


@pytest.fixture
def store(backend):
    return backend.store(max_attempts=1)


async def dead_letter(backend, store, *items, **more):
    """Hand work off whose worker dies; returns the run's lease and its messages."""
    lease, messages = await handed_off(store, *(items or (item(),)), **more)
    await claim_one(store, owner="worker-7")
    await backend.expire_leases()
    await store.reclaim_expired("reaper", LEASE, runs=False)
    return lease, messages


# --- dead letters ---------------------------------------------------------------------------------------------------


async def test_a_message_out_of_attempts_is_a_dead_letter_and_its_sender_hears_of_it(backend, store):
    _, (sent,) = await dead_letter(backend, store)
    (letter,) = await store.dead_letters()
    assert (letter.message.id, letter.member, letter.attempts) == (sent.id, "backend", 1)
    assert (letter.message.status, letter.message.content) == ("failed", "do it")
    assert "lost" in letter.reason
    assert letter.died_at >= sent.created_at
    (report,) = await store.inbox("manager", "all")
    assert report.metadata["error"]["code"] == "worker_lost"


async def test_dead_letters_are_listed_newest_first(backend, store):
    lease, _ = await dead_letter(backend, store)
    await dead_letter(backend, store, item(content="second"), lease=lease, id="batch-2")
    assert [letter.message.content for letter in await store.dead_letters()] == ["second", "do it"]
    assert [letter.message.content for letter in await store.dead_letters(1)] == ["second"]


async def test_a_requeued_letter_is_a_new_message_outside_its_run(backend, store):
    _, (sent,) = await dead_letter(backend, store)
    again = await store.requeue_dead(sent.id)
    assert again.id != sent.id
    assert (again.to, again.content, again.status, again.from_) == ("crew::backend", "do it", "pending", "manager")
    assert (again.parent_message_id, again.run_id, again.work_item_id) == (sent.id, None, again.id)
    assert await store.dead_letters() == []
    claim = await work_one(store, report="done at last")
    assert (claim.item.message.id, claim.attempt, claim.item.batch, claim.item.mode) == (again.id, 1, None, "handoff")
    reports = await store.inbox("manager", "all")
    assert reports[-1].content == "done at last"
    assert reports[-1].work_item_id == again.id
    assert (await store.get_run("run-1")).status == "waiting"


async def test_requeueing_twice_is_requeueing_once(backend, store):
    _, (sent,) = await dead_letter(backend, store)
    first = await store.requeue_dead(sent.id)
    assert (await store.requeue_dead(sent.id)).id == first.id
    assert await store.counts("backend") == {"failed": 1, "pending": 1}


async def test_a_requeued_letter_can_die_again(backend, store):
    _, (sent,) = await dead_letter(backend, store)
    again = await store.requeue_dead(sent.id)
    await claim_one(store)
    await backend.expire_leases()
    await store.reclaim_expired("reaper", LEASE, runs=False)
    assert [letter.message.id for letter in await store.dead_letters()] == [again.id]


async def test_a_requeued_letter_of_a_lasting_conversation_goes_on_in_it_and_waits_its_turn(backend, store):
    work = item(conversation="member/backend", shared=True)
    _, (sent,) = await dead_letter(backend, store, work)
    draft = TeamMessage(id="mail", from_="manager", to="crew::backend", content="news")
    await store.send(draft, member="backend", conversation="member/backend")
    await store.requeue_dead(sent.id)
    first = await claim_one(store)
    assert first.item.message.id == "mail"
    assert await store.claim("backend", "worker-2", LEASE) == []
    await store.settle(first.lease, outcome("ok"), step("member/backend"))
    assert (await claim_one(store)).item.conversation == "member/backend"


async def test_a_dropped_letter_is_gone_and_what_is_no_letter_cannot_be_dropped_or_requeued(backend, store):
    _, (sent,) = await dead_letter(backend, store)
    assert await store.drop_dead("nope") is False
    assert await store.requeue_dead("nope") is None
    assert await store.drop_dead(sent.id) is True
    assert await store.dead_letters() == []
    assert await store.requeue_dead(sent.id) is None


async def test_a_full_mailbox_takes_no_letter_back(backend):
    store = backend.store(max_attempts=1, max_mailbox_depth=1)
    _, (sent,) = await dead_letter(backend, store)
    await store.send(TeamMessage(id="m", from_="manager", to="crew::backend", content="x"), member="backend")
    with pytest.raises(StoreError, match="'backend' is full"):
        await store.requeue_dead(sent.id)
    assert len(await store.dead_letters()) == 1


async def test_dead_letters_are_forgotten_with_their_run(backend, store):
    await dead_letter(backend, store)
    await store.cancel_run("run-1", "enough")
    await backend.end_retention()
    await store.forget_runs()
    assert await store.dead_letters() == []


# --- retries --------------------------------------------------------------------------------------------------------


async def test_work_that_is_put_off_is_held_by_nobody_until_it_is_due(backend, store):
    _, (sent,) = await handed_off(store, item())
    claim = await claim_one(store)
    assert claim.retries == 0
    word = await store.postpone(claim.lease, 5_000, "overload: busy", step(sent.id, b"kept"))
    assert word == "postponed"
    assert (await store.get(sent.id)).status == "pending"
    assert await store.claim("backend", "worker-2", LEASE) == []
    assert 0 < await store.wake_due() <= 5_000
    assert await store.claim("backend", "worker-2", LEASE) == []
    await backend.pass_time(5_001)
    assert await store.wake_due() is None
    (again,) = await store.await_claims("backend", "worker-2", LEASE, 1, 1_000)
    assert (again.attempt, again.retries, again.started) == (2, 1, True)
    assert (await store.load(sent.id)).messages == (b"kept",)
    assert (await store.settle(again.lease, outcome("ok"), step(sent.id))).word == "settled"
    assert await store.counts("backend") == {"done": 1}


async def test_putting_off_twice_is_putting_off_once_and_only_the_holder_may(store):
    await handed_off(store, item())
    claim = await claim_one(store)
    stranger = Lease("message", claim.lease.id, "worker-9", claim.lease.token)
    assert await store.postpone(stranger, 10, "x") == "stale"
    assert await store.postpone(claim.lease, 10, "x") == "postponed"
    assert await store.postpone(claim.lease, 10, "x") == "postponed"
    (state,) = await store.work_items("run-1")
    assert state.retries == 1
    assert await store.append(claim.lease, step("run-1", b"late")) == "stale"


async def test_retries_are_no_lost_attempts(backend, store):
    await handed_off(store, item())
    for _ in range(3):
        claim = await claim_one(store)
        await store.postpone(claim.lease, 1, "x")
        await backend.pass_time(10)
        await store.wake_due()
    await claim_one(store)
    await backend.expire_leases()
    (lost,) = await store.reclaim_expired("reaper", LEASE, runs=False)
    assert (lost.word, lost.attempt) == ("dead", 4)


async def test_a_shared_conversation_waits_for_the_retry(backend, store):
    lease, _ = await handed_off(store, item("backend", "a", conversation="member/backend", shared=True))
    claim = await claim_one(store)
    await handed_off(store, item("backend", "b", conversation="member/backend", shared=True), lease=lease, id="batch-2")
    await store.postpone(claim.lease, 1, "x")
    assert await store.claim("backend", "worker-2", LEASE) == []
    await backend.pass_time(10)
    await store.wake_due()
    assert (await claim_one(store)).item.message.content == "a"


async def test_a_cancelled_run_takes_its_retries_along(backend, store):
    await handed_off(store, item())
    claim = await claim_one(store)
    await store.postpone(claim.lease, 1, "x")
    await store.cancel_run("run-1", "enough")
    await backend.pass_time(10)
    assert await store.wake_due() is None
    assert await store.claim("backend", "worker-2", LEASE) == []
    assert await store.counts("backend") == {"cancelled": 1}


async def test_many_that_are_due_are_woken_in_parts(backend, store):
    await handed_off(store, item(), item(), item())
    for claim in await store.claim("backend", "worker-1", LEASE, 3):
        await store.postpone(claim.lease, 1, "x")
    await backend.pass_time(10)
    assert await store.wake_due(2) == 0
    assert len(await store.claim("backend", "worker-1", LEASE, 9)) == 2
    assert await store.wake_due(2) is None
    assert len(await store.claim("backend", "worker-1", LEASE, 9)) == 1


# --- budgets --------------------------------------------------------------------------------------------------------


async def test_model_calls_are_granted_up_to_the_budget(store):
    await started_run(store)
    budget = Budget(max_model_calls=2)
    assert [(await store.draw("run-1", budget)).word for _ in range(3)] == ["granted", "granted", "budget_exceeded"]
    looked = await store.draw("run-1", budget, calls=0)
    assert (looked.word, looked.model_calls) == ("granted", 2)
    assert (await store.draw("run-1", Budget(max_model_calls=3))).model_calls == 3


async def test_tokens_that_were_used_are_counted_before_a_call_is_granted(store):
    await started_run(store)
    budget = Budget(max_tokens=100)
    assert (await store.draw("run-1", budget, tokens=99)).word == "granted"
    refused = await store.draw("run-1", budget, tokens=1)
    assert (refused.word, refused.tokens, refused.model_calls) == ("budget_exceeded", 100, 1)


async def test_the_time_of_a_run_counts_from_its_start(backend, store):
    await started_run(store)
    budget = Budget(max_seconds=60)
    assert (await store.draw("run-1", budget)).word == "granted"
    await backend.pass_time(60_000)
    refused = await store.draw("run-1", budget)
    assert refused.word == "deadline_exceeded"
    assert refused.elapsed_ms >= 60_000


async def test_without_limits_everything_is_granted_and_counted(store):
    await started_run(store)
    assert (await store.draw("run-1", Budget(), tokens=7)).tokens == 7
    assert (await store.draw("nope", Budget())).word == "missing"


async def test_an_account_travels_with_the_work(store):
    account = Account("crew", "run-1", Budget(max_tokens=9, max_seconds=1.5))
    await handed_off(store, item(account=account))
    assert (await claim_one(store)).item.account == account


@pytest.mark.parametrize(
    "limits", [{"max_tokens": 0}, {"max_seconds": float("nan")}, {"max_model_calls": True}, {"max_turns": 1}]
)
def test_budgets_that_cannot_be_used_are_refused(limits):
    with pytest.raises(OptionError, match="budget"):
        Budget.read(limits)


def test_the_closer_budget_wins():
    assert Budget(max_tokens=5).or_else(Budget(max_tokens=9, max_seconds=3)) == Budget(max_tokens=5, max_seconds=3)
    assert not Budget()


# --- where work stands ----------------------------------------------------------------------------------------------


async def test_where_the_work_of_a_run_stands(backend, store):
    await handed_off(
        store,
        item("backend"),
        item("qa", conversation="member/qa", shared=True),
        item("qa", conversation="member/qa", shared=True),
    )
    held = await claim_one(store)
    first = await claim_one(store, "qa")
    await store.postpone(first.lease, 60_000, "rate_limit: slow down")
    backend_work, waits, behind = await store.work_items("run-1")
    assert (backend_work.owner, backend_work.attempts) == ("worker-1", 1)
    assert backend_work.lease_until == pytest.approx(held.lease.deadline, abs=1_000)
    assert (waits.owner, waits.retries, waits.retry_reason) == (None, 1, "rate_limit: slow down")
    assert waits.due_at is not None
    assert behind.behind == waits.message.id
    await store.settle(held.lease, outcome("x"), step(held.lease.id))
    assert [state.message.status for state in await store.work_items("run-1")] == ["done", "pending", "pending"]
    assert await store.work_items("nope") == []
