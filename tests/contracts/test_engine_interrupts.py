"""Interrupting a run over every run store: no further call of its lead, what is under way finished, the rest cancelled."""

import asyncio

import pytest

from lattice import team_member, tool
from lattice.runs import RunStatus
from lattice.testing import tool_use, turn
from tests.cluster import Cluster
from tests.contracts.work import batch, claim_one, handed_off, item, started_run, step
from tests.teams import ask, brief, echo, handoff, model_of, spec, team_of


class Stage:
    """A lead, and a member that is at work until it is told to go on."""

    def __init__(self, backend):
        self.backend = backend
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.cluster = None

    def team(self, lead, **members):
        self.lead = lead if hasattr(lead, "spawn") else spec("lead", lead)
        team = team_of(self.lead, {"a": self.member, **members})
        self.cluster = Cluster(self.backend, team)
        return team

    async def member(self, request):
        self.begun.set()
        await asyncio.wait_for(self.go_on.wait(), 5)
        return "finished all the same"

    async def start(self):
        await self.cluster.workers()
        await self.cluster.submit()
        self.coordinator = await self.cluster.coordinator()
        return self.coordinator.drive("run")

    async def interrupt(self):
        assert await self.cluster.store.interrupt_run("run") == "interrupted"

    async def statuses(self, member):
        return [str(message.status) for message in await self.cluster.store.inbox(member, "all")]

    async def ended(self, running):
        """The outcome of the run, and its record."""
        outcome = await asyncio.wait_for(running, 10)
        return outcome, await self.cluster.store.get_run("run")


@pytest.fixture
async def stage(backend):
    stage = Stage(backend)
    yield stage
    stage.go_on.set()
    await stage.cluster.close()


async def test_while_members_work_they_finish_and_the_lead_is_not_asked_again(stage):
    """team:W-10 team:INT-03"""
    stage.team([turn(handoff("a", "one")), "never"])
    running = await stage.start()
    await asyncio.wait_for(stage.begun.wait(), 5)
    await stage.interrupt()
    stage.go_on.set()
    outcome, run = await stage.ended(running)
    assert (outcome["status"], run.result["subtype"], run.result["is_error"]) == ("succeeded", "interrupted", False)
    assert model_of(stage.lead).calls == 1
    assert await stage.statuses("a") == ["done"]


async def test_what_nobody_has_begun_is_cancelled(stage):
    """team:W-10 team:INT-06"""
    member = team_member(name="b", agent=spec("b", echo("b")))
    team = stage.team([turn(handoff("a"), handoff("b")), "never"], b=member)
    stage.cluster.team = team
    await stage.cluster.worker("a")
    await stage.cluster.submit()
    coordinator = await stage.cluster.coordinator()
    running = coordinator.drive("run")
    await asyncio.wait_for(stage.begun.wait(), 5)
    await stage.interrupt()
    stage.go_on.set()
    _, run = await stage.ended(running)
    assert run.result["subtype"] == "interrupted"
    assert (await stage.statuses("a"), await stage.statuses("b")) == (["done"], ["cancelled"])
    assert [brief(event) for event in await stage.cluster.events()].count("cancelled squad::b") == 1


async def test_a_model_call_of_the_lead_is_cut_off(stage):
    """team:INT-01"""
    asked = asyncio.Event()

    async def lead(request):
        asked.set()
        await asyncio.wait_for(request.signal.wait(), 5)
        return "never"

    stage.team(lead)
    running = await stage.start()
    await asyncio.wait_for(asked.wait(), 5)
    await stage.interrupt()
    _, run = await stage.ended(running)
    assert run.result["subtype"] == "interrupted"
    assert model_of(stage.lead).calls == 1


async def test_a_batch_of_the_lead_is_finished_first(stage):
    """team:INT-05"""
    looking, looked = asyncio.Event(), []

    async def look(value, context):
        looking.set()
        await asyncio.wait_for(context.interrupt.wait(), 5)
        looked.append(context.signal.aborted)
        return "seen"

    tools = [tool("look", "Look.", {"type": "object"}, look)]
    stage.team(spec("lead", [turn(tool_use("look", {})), "never"], tools=tools))
    running = await stage.start()
    await asyncio.wait_for(looking.wait(), 5)
    await stage.interrupt()
    _, run = await stage.ended(running)
    assert (run.result["subtype"], looked) == ("interrupted", [False])
    assert model_of(stage.lead).calls == 1


async def test_a_question_that_is_worked_on_is_answered_first(stage):
    stage.team([ask("a"), "never"])
    running = await stage.start()
    await asyncio.wait_for(stage.begun.wait(), 5)
    await stage.interrupt()
    stage.go_on.set()
    _, run = await stage.ended(running)
    assert run.result["subtype"] == "interrupted"
    assert await stage.statuses("a") == ["done"]


async def test_what_is_handed_off_in_the_response_under_way_is_not_begun(stage):
    """team:INT-04"""
    stopping = asyncio.Event()

    async def stop(value, context):
        stopping.set()
        await asyncio.wait_for(context.interrupt.wait(), 5)
        return "stopped"

    tools = [tool("stop", "Stop.", {"type": "object"}, stop)]
    stage.team(spec("lead", [turn(handoff("a"), tool_use("stop", {})), "never"], tools=tools))
    await stage.cluster.submit()  # without a worker: nobody is fast enough to begin it
    stage.coordinator = await stage.cluster.coordinator()
    running = stage.coordinator.drive("run")
    await asyncio.wait_for(stopping.wait(), 5)
    await stage.interrupt()
    _, run = await stage.ended(running)
    assert run.result["subtype"] == "interrupted"
    assert await stage.statuses("a") == ["cancelled"]


async def test_it_outlives_the_coordinator(stage):
    stage.team([turn(handoff("a")), "never"])
    await stage.start()
    await asyncio.wait_for(stage.begun.wait(), 5)
    await stage.coordinator.kill()
    await stage.interrupt()
    await stage.cluster.expire()
    other = await stage.cluster.coordinator()
    running = other.drive("run")
    stage.go_on.set()
    _, run = await stage.ended(running)
    assert run.result["subtype"] == "interrupted"
    assert model_of(stage.lead).calls == 1


async def test_a_run_that_is_still_queued_ends_before_its_first_call(stage):
    stage.team(["never"])
    await stage.cluster.submit()
    await stage.interrupt()
    coordinator = await stage.cluster.coordinator()
    outcome, run = await stage.ended(coordinator.drive("run"))
    assert (outcome["status"], run.result["subtype"]) == ("succeeded", "interrupted")
    assert model_of(stage.lead).calls == 0


# --- the step of the store ------------------------------------------------------------------------------------------


async def test_the_words(store):
    assert await store.interrupt_run("nope") == "missing"
    lease = await started_run(store)
    assert await store.interrupt_run("run-1") == "interrupted"
    assert (await store.get_run("run-1")).interrupted
    assert list(await store.wait_for_signals("lead-1", 1000)) == ["interrupt:run-1"]
    assert await store.interrupt_run("run-1") == "interrupted"
    assert list(await store.wait_for_signals("lead-1", 1)) == []
    await store.finish_run(lease, RunStatus.SUCCEEDED, {}, step())
    assert await store.interrupt_run("run-1") == "ended"


async def test_what_was_begun_goes_on_and_the_rest_ends(store):
    await handed_off(store, item(content="begun"), item(content="queued"))
    claim = await claim_one(store)
    await store.interrupt_run("run-1")
    assert [message.status for message in await store.inbox("backend", "all")] == ["processing", "cancelled"]
    assert await store.append(claim.lease, step(claim.item.conversation)) == "written"
    assert await store.claim("backend", "worker-2", 1000) == []


async def test_what_came_back_from_a_worker_counts_as_begun(store):
    await handed_off(store, item())
    claim = await claim_one(store)
    await store.hand_back(claim.lease)
    await store.interrupt_run("run-1")
    assert (await claim_one(store)).item.message.id == claim.item.message.id


async def test_a_repeat_cancels_what_was_queued_since(store):
    lease = await started_run(store)
    await store.interrupt_run("run-1")
    _, (sent,) = await store.hand_off(lease, batch(item()), step())
    await store.interrupt_run("run-1")
    assert (await store.get(sent.id)).status == "cancelled"
    assert (await store.resume(lease, "batch-1"))[0] == "complete"


async def test_a_run_that_is_tried_again_is_not_interrupted_any_more(store):
    lease = await started_run(store)
    await store.interrupt_run("run-1")
    await store.finish_run(lease, RunStatus.FAILED, {}, step(), {"code": "api_error"})
    assert await store.reopen_run("run-1") == "reopened"
    assert not (await store.get_run("run-1")).interrupted
