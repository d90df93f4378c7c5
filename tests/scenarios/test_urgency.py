"""Urgent mail: an ``interrupt`` breaks a model call off, and mail for a conversation at work is nobody else's task."""

import asyncio

from lattice import tool
from lattice.mailbox import TeamMessage
from lattice.team.store_mail import StoreMail
from lattice.testing import tool_use, turn
from tests.scenarios.worlds import TEAM
from tests.teams import handoff, model_of, said, spec


class Thinking:
    """A worker whose first model call ends only when it is broken off, and a colleague that writes to it meanwhile."""

    def __init__(self, urgency="interrupt"):
        self.urgency = urgency
        self.thinking, self.written = asyncio.Event(), asyncio.Event()
        self.cut = False

    async def worker(self, request):
        if "new mail" in said(request):
            return "dealt with it"
        self.thinking.set()
        try:
            await asyncio.wait_for(self.written.wait(), 5)
            if self.urgency == "interrupt":
                await asyncio.wait_for(request.signal.wait(), 5)
        finally:
            self.cut = request.signal.aborted
        return "the long thought"

    async def colleague(self, request):
        await asyncio.wait_for(self.thinking.wait(), 5)
        if said(request).startswith("This is"):
            return tool_use("team_send", {"to": "worker", "content": "the API has changed", "urgency": self.urgency})
        self.written.set()
        return "told"


async def write(world, team, from_, to, content, urgency="interrupt"):
    """Send a note from outside of any agent."""
    note = TeamMessage(id="", from_=from_, to=to, content=content, metadata={"urgency": urgency}, run_id="run-1")
    if world.is_local:
        await team.send(from_, to, content, metadata=note.metadata)
    else:
        (cluster,) = world._clusters.values()
        await StoreMail(cluster.store, team.directory).send(note)


def stage(world, script, worker, **options):
    members = {"worker": worker, "colleague": script.colleague}
    lead = [turn(handoff("worker"), handoff("colleague")), said]
    return world.team(lead, members, runner={"max_concurrent_work_items": 2}, **options)


async def test_an_interrupt_breaks_the_model_call_off_and_is_shown_at_once(world):
    script = Thinking()
    worker = spec("worker", script.worker)
    outcome = await world.run(stage(world, script, worker))
    assert outcome.status == "succeeded"
    assert script.cut
    first, second = model_of(worker).requests
    assert [message["role"] for message in second.messages] == ["user", "user"]
    assert second.messages[0] == first.messages[0]
    assert "urgency: interrupt\n" in said(second)
    assert said(second).endswith("the API has changed")
    assert "dealt with it" in outcome.text
    assert [str(m.status) for m in outcome.mail["worker"] if m.metadata] == ["read"]


async def test_a_steering_note_waits_for_the_end_of_the_model_call(world):
    script = Thinking("steer")
    worker = spec("worker", script.worker)
    outcome = await world.run(stage(world, script, worker))
    assert not script.cut
    assert "the long thought" in outcome.text


async def test_a_broken_off_call_is_no_turn(world):
    script = Thinking()
    worker = spec("worker", script.worker, max_turns=1)
    outcome = await world.run(stage(world, script, worker))
    assert "dealt with it" in outcome.text


async def test_an_interrupt_during_tools_lets_them_end(world):
    looking, written = asyncio.Event(), asyncio.Event()
    ended = []

    async def look(value, context):
        looking.set()
        await asyncio.wait_for(written.wait(), 5)
        ended.append(context.signal.aborted)
        return "seen"

    async def colleague(request):
        await asyncio.wait_for(looking.wait(), 5)
        if said(request).startswith("This is"):
            return tool_use("team_send", {"to": "worker", "content": "stop", "urgency": "interrupt"})
        written.set()
        return "told"

    tools = [tool("look", "Look.", {"type": "object"}, look)]
    worker = spec("worker", [turn(tool_use("look", {})), "done"], tools=tools)
    lead = [turn(handoff("worker"), handoff("colleague")), "end"]
    members = {"worker": worker, "colleague": colleague}
    outcome = await world.run(world.team(lead, members, runner={"max_concurrent_work_items": 2}))
    assert outcome.status == "succeeded"
    assert ended == [False]
    assert model_of(worker).calls == 2
    content = model_of(worker).requests[1].messages[-1]["content"]
    assert [block["type"] for block in content] == ["tool_result", "text"]
    assert content[1]["text"].endswith("stop")


async def test_an_interrupt_to_the_lead_breaks_its_call_off(world):
    asked, calls = asyncio.Event(), []

    async def lead(request):
        calls.append(said(request))
        if len(calls) == 1:
            return tool_use("a", {"mode": "handoff", "task": "work"})
        if "new mail" in said(request):
            return "heard you"
        if not asked.is_set():
            asked.set()
            await asyncio.wait_for(request.signal.wait(), 5)
        return "not broken off"

    async def watcher():
        await asyncio.wait_for(asked.wait(), 5)
        await write(world, team, f"{TEAM}::a", "manager", "stop")

    team = world.team(lead, {"a": ["done"]})
    watching = asyncio.create_task(watcher())
    outcome = await world.run(team)
    await watching
    assert outcome.text == "heard you"
    assert [str(m.status) for m in outcome.mail["manager"] if m.metadata] == ["read"]
