"""Notes to members that worker processes work for: shown to the session at work, by whichever process goes on with it."""

import asyncio

import pytest

from lattice import tool
from lattice.mailbox import TeamMessage
from lattice.team.store_mail import StoreMail
from lattice.testing import tool_use, turn
from tests.cluster import Cluster, until
from tests.teams import handoff, model_of, said, spec, team_of


class Stage:
    """A worker in the middle of a tool call, and somebody who writes to it meanwhile."""

    def __init__(self, backend, **limits):
        self.looking, self.go_on = asyncio.Event(), asyncio.Event()
        tools = [tool("look", "Look.", {"type": "object"}, self._look, on_recovery="rerun")]
        self.worker = spec("worker", self._reply, tools=tools)
        self.team = team_of([handoff("worker"), "end"], {"worker": self.worker})
        self.cluster = Cluster(backend, self.team, **limits)

    def _reply(self, request):
        looked = any(block["type"] == "tool_result" for message in request.messages[1:] for block in message["content"])
        return "done" if looked or "message is waiting" in said(request) else turn(tool_use("look", {}))

    async def _look(self, value):
        self.looking.set()
        await asyncio.wait_for(self.go_on.wait(), 5)
        return "seen"

    async def write(self, urgency="steer"):
        metadata = {"urgency": urgency}
        note = TeamMessage(
            id="", from_="manager", to="squad::worker", content="look out", run_id="run", metadata=metadata
        )
        return await StoreMail(self.cluster.store, self.team.directory).send(note)

    @property
    def shown(self):
        """How often the text of the note stands in what each model call was sent."""
        return [str(request.messages).count("look out") for request in model_of(self.worker).requests]


@pytest.fixture
async def stage(backend):
    stage = Stage(backend)
    yield stage
    await stage.cluster.close()


async def test_idle_places_of_the_same_member_leave_a_note_to_the_one_at_work(stage):
    cluster = stage.cluster
    await cluster.worker("worker", concurrency=5)
    running = asyncio.create_task(cluster.run())
    await asyncio.wait_for(stage.looking.wait(), 5)
    note = await stage.write()
    idle = await cluster.worker("worker", concurrency=5)
    await until(lambda: "claim" in idle.store.calls)
    stage.go_on.set()
    assert (await running)["status"] == "succeeded"
    assert stage.shown == [0, 1]
    assert (await cluster.store.get(note.id)).status == "read"


@pytest.mark.parametrize("step", ["take_notes", "append"])
async def test_a_note_survives_a_store_that_breaks_before_it_is_written(stage, step):
    cluster = stage.cluster
    worker = await cluster.worker("worker")
    running = asyncio.create_task(cluster.run())
    await asyncio.wait_for(stage.looking.wait(), 5)
    note = await stage.write()
    (worker.store.loses_reply if step == "take_notes" else worker.store.breaks).append(step)
    stage.go_on.set()
    assert (await running)["status"] == "succeeded"
    assert stage.shown[-1] == 1
    assert (await cluster.store.get(note.id)).status == "read"


async def test_a_note_survives_the_death_of_the_worker(stage):
    cluster = stage.cluster
    first = await cluster.worker("worker")
    running = asyncio.create_task(cluster.run())
    await asyncio.wait_for(stage.looking.wait(), 5)
    note = await stage.write()
    await first.kill()
    stage.go_on.set()
    await cluster.expire()
    await cluster.worker("worker")
    assert (await running)["status"] == "succeeded"
    assert stage.shown[-1] == 1
    assert (await cluster.store.get(note.id)).status == "read"


async def test_a_note_that_comes_too_late_is_a_task_of_its_own(backend):
    thinking, go_on = asyncio.Event(), asyncio.Event()

    async def worker(request):
        if said(request).startswith("A message is waiting"):
            return "read as mail"
        thinking.set()
        await asyncio.wait_for(go_on.wait(), 5)
        return "done"

    async def lead(request):
        if not thinking.is_set():
            return handoff("worker")
        await until(lambda: model_of(member).calls == 2)
        return "end"

    member = spec("worker", worker)
    team = team_of(lead, {"worker": member})
    cluster = Cluster(backend, team)
    await cluster.workers(concurrency=2)
    running = asyncio.create_task(cluster.run())
    await asyncio.wait_for(thinking.wait(), 5)
    note = TeamMessage(
        id="", from_="manager", to="squad::worker", content="late", run_id="run", metadata={"urgency": "note"}
    )
    await StoreMail(cluster.store, team.directory).send(note)
    go_on.set()
    assert (await running)["status"] == "succeeded"
    await cluster.close()
