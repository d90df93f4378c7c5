"""Deadlines of questions over every run store: they count from the question, whoever dies meanwhile."""

import asyncio

import pytest

from lattice import team_member
from lattice.mailbox import MessageStatus
from lattice.runs import Batch, Outcome
from tests.cluster import Cluster, until
from tests.contracts.work import batch, claim_one, handed_off, item, started_run, step
from tests.teams import ask, brief, model_of, results, spec, team_of

HOUR_MS = 3_600_000


class Stage:
    """A lead that asks a member with a deadline of an hour, and a member that is at it until it is told to go on."""

    def __init__(self, backend):
        self.backend = backend
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()
        self.cut = False
        member = team_member(name="a", agent=spec("a", self._reply), ask_timeout_ms=HOUR_MS)
        self.team = team_of([ask("a"), lambda request: results(request)[0]] * 2, {"a": member})
        self.cluster = Cluster(backend, self.team)

    async def _reply(self, request):
        self.asked.set()
        going = asyncio.ensure_future(self.go_on.wait())
        stopped = asyncio.ensure_future(request.signal.wait())
        await asyncio.wait({going, stopped}, timeout=10, return_when=asyncio.FIRST_COMPLETED)
        self.cut = request.signal.aborted
        return "answered"

    async def asking(self):
        """Start a worker and a coordinator; returns it when the question is being worked on."""
        await self.cluster.workers()
        await self.cluster.submit()
        coordinator = await self.cluster.coordinator()
        coordinator.drive("run")
        await asyncio.wait_for(self.asked.wait(), 5)
        return coordinator

    async def question(self):
        (message,) = await self.cluster.store.inbox("a", "all")
        return message

    async def go_on_after(self, hours):
        """Another coordinator takes the run over, so many hours after the question."""
        message = await self.question()
        await age(self.backend, message.id, int(hours * HOUR_MS))
        await self.cluster.expire()
        coordinator = await self.cluster.coordinator()
        return asyncio.ensure_future(coordinator.drive("run"))


async def age(backend, message_id, ms):
    """As if a message had been sent so much earlier, by the clock of the store."""
    if backend.durable:
        await backend.client.hincrby(backend.keys.message(message_id), "createdAt", -ms)
    else:
        backend.now += ms


@pytest.fixture
async def stage(backend):
    stage = Stage(backend)
    yield stage
    stage.go_on.set()
    await stage.cluster.close()


async def test_an_asker_that_was_dead_for_longer_than_the_deadline_is_told_so_at_once(stage):
    await (await stage.asking()).kill()
    outcome = await asyncio.wait_for(await stage.go_on_after(2), 10)
    assert "Error code: timeout\nReason: a has not answered within 3600 s" in outcome["result"]
    assert (await stage.question()).status == "cancelled"
    told = [brief(event) for event in await stage.cluster.events()]
    assert told.count("cancelled squad::a") == 1
    assert model_of(stage.team.directory.require("a").agent).calls == 1


async def test_an_asker_that_comes_back_in_time_waits_on(stage):
    await (await stage.asking()).kill()
    running = await stage.go_on_after(0.5)
    await until(lambda: "hand_off" in stage.cluster.processes[-1].store.calls)
    stage.go_on.set()
    outcome = await asyncio.wait_for(running, 10)
    assert outcome["result"] == "answered"


async def test_an_answer_that_came_while_the_asker_was_dead_counts(stage):
    await (await stage.asking()).kill()
    stage.go_on.set()

    async def answered():
        return (await stage.question()).status.is_terminal

    await until(answered)
    outcome = await asyncio.wait_for(await stage.go_on_after(2), 10)
    assert outcome["result"] == "answered"


# --- the step that it needs of a store ------------------------------------------------------------------------------


async def test_cancelled_work_takes_along_what_was_asked_for_it(store):
    _, (sent,) = await handed_off(store, item("middle"))
    middle = await claim_one(store, "middle", "worker-m")
    inner = batch(item("backend", sender="crew::middle"), id="ask-1", pauses=False)
    _, (asked,) = await store.hand_off(middle.lease, inner, step())
    await claim_one(store, "backend", "worker-b")
    assert await store.update_status(sent.id, "cancelled")
    assert [(await store.get(one.id)).status for one in (sent, asked)] == ["cancelled", "cancelled"]
    assert list(await store.wait_for_signals("worker-b", 1000)) == [f"cancel:{asked.id}"]
    events = [event for _, event in await store.read_events("run-1")]
    assert [(e["subtype"], e["message"]["id"]) for e in events] == [("cancelled", sent.id), ("cancelled", asked.id)]


async def test_work_that_ends_otherwise_takes_nothing_along(store):
    _, (sent,) = await handed_off(store, item("middle"))
    middle = await claim_one(store, "middle", "worker-m")
    inner = batch(item("backend", sender="crew::middle"), id="ask-1", pauses=False)
    _, (asked,) = await store.hand_off(middle.lease, inner, step())
    outcome = Outcome(status=MessageStatus.FAILED, report="no")
    assert (await store.settle(middle.lease, outcome, step(middle.item.conversation))).word == "settled"
    assert (await store.get(asked.id)).status == "pending"


async def test_the_clock_is_that_of_the_messages(store):
    lease = await started_run(store)
    before = await store.now()
    _, (sent,) = await store.hand_off(lease, Batch(id="batch-1", items=(item(),)), step())
    assert before <= sent.created_at <= await store.now()
