"""Mail that was answered by progress only stays open, in worker processes as in a drain; a later reply ends it."""

import asyncio

from lattice.mailbox import MessageStatus, TeamMessage
from lattice.runs import Outcome
from lattice.team.store_mail import StoreMail
from lattice.testing import tool_use
from tests.cluster import Cluster, until
from tests.contracts.work import LEASE, claim_one, started_run, step
from tests.teams import brief, results, said, spec, team_of

OPEN = Outcome(status=MessageStatus.PROCESSING)


def mail(content="how far?", run_id=None, to="crew::backend"):
    return TeamMessage(id="", from_="manager", to=to, content=content, run_id=run_id)


async def left_open(store, **more):
    sent = await store.send(mail(**more), member="backend", conversation="run-1/backend")
    claim = await claim_one(store)
    assert (await store.settle(claim.lease, OPEN, step(claim.item.conversation))).word == "settled"
    return sent, claim


async def test_it_is_processing_and_nobody_holds_or_claims_it(backend, store):
    sent, claim = await left_open(store)
    assert (await store.get(sent.id)).status == "processing"
    await backend.expire_leases()
    assert await store.reclaim_expired("reaper", LEASE, runs=False) == []
    assert await store.claim("backend", "worker-2", LEASE) == []
    assert await store.append(claim.lease, step(claim.item.conversation)) == "stale"
    assert await store.inbox("manager", "all") == []


async def test_settling_it_twice_is_settling_it_once(store):
    _, claim = await left_open(store)
    assert (await store.settle(claim.lease, OPEN, step(claim.item.conversation))).word == "settled"


async def test_its_conversation_goes_on_with_the_next_message(store):
    await left_open(store)
    await store.send(mail("next"), member="backend", conversation="run-1/backend")
    assert (await claim_one(store)).item.message.content == "next"


async def test_a_later_reply_ends_it(store):
    sent, _ = await left_open(store)
    assert await store.update_status(sent.id, "done")
    assert await store.counts("backend") == {"done": 1}
    assert await store.backlog("backend") == (0, 0)


async def test_the_end_of_its_run_cancels_it(store):
    lease = await started_run(store)
    sent, _ = await left_open(store, run_id=lease.id)
    assert await store.cancel_run(lease.id, "enough") == "cancelled"
    assert (await store.get(sent.id)).status == "cancelled"


async def test_a_member_that_reports_progress_leaves_its_mail_open_and_may_reply_later(backend):
    """team:DRN-09 team:W-22"""
    first_id = []

    def worker(request):
        if results(request) and (len(request.messages) > 3 or results(request)[0].startswith("team_message_followup")):
            return "that is all"
        if not first_id:
            first_id.append(said(request).split("message_id: ")[1].splitlines()[0])
            return tool_use("team_followup", {"message_id": first_id[0], "content": "half way"})
        mine = said(request).split("message_id: ")[1].splitlines()[0]
        if len(request.messages) == 1:
            return tool_use("team_reply", {"message_id": first_id[0], "content": "done at last"})
        return tool_use("team_reply", {"message_id": mine, "content": "see the other"})

    async def lead(request):
        mailbox = StoreMail(cluster.store, team.directory)
        first = await mailbox.send(mail("how far?", "run", "squad::worker"))
        await until(lambda: first_id)
        await _until_status(cluster, first.id, "processing", owner=False)
        seen.append((await cluster.store.get(first.id)).status)
        await mailbox.send(mail("and now?", "run", "squad::worker"))
        await _until_status(cluster, first.id, "done")
        return "end"

    seen = []
    team = team_of(lead, {"worker": spec("worker", worker)})
    cluster = Cluster(backend, team)
    try:
        assert (await asyncio.wait_for(cluster.run(), 10))["status"] == "succeeded"
        told = [brief(event) for event in await cluster.events() if event["type"] == "team_message"]
        assert seen == ["processing"]
        assert "followup squad::worker" in told
        answers = [m.content for m in await cluster.store.inbox("manager", "all")]
        assert answers[:2] == ["half way", "done at last"]
    finally:
        await cluster.close()


async def _until_status(cluster, message_id, status, *, owner=True):
    async def there():
        (state,) = [one for one in await cluster.store.work_items("run") if one.message.id == message_id]
        return state.message.status == status and (owner or not state.owner)

    await until(there)
