"""Agents that would wait for each other, through any number of others, runs and teams: an error, never a standstill."""

import asyncio

import pytest

from lattice import agent_tool, team_member
from lattice.testing import turn
from tests.cluster import Cluster
from tests.contracts.work import batch, claim_one, item, started_run, step
from tests.teams import ask, handoff, results, said, spec, task_of, team_of


def ring(names, conversation, *, meet):
    """Members that each ask the next as soon as all are at work, and say what came of it; whoever is asked answers."""

    def make(name, other):
        async def reply(request):
            if results(request):
                return f"{name} heard: {results(request)[0]}"
            if task_of(request) == "question":
                return f"{name} answers"
            await meet(name)
            return ask(other)

        agent = spec(name, reply)
        return agent if conversation == "work_item" else agent.spawn()

    agents = {name: make(name, other) for name, other in zip(names, [*names[1:], names[0]], strict=True)}
    for name, other in zip(names, [*names[1:], names[0]], strict=True):
        agents[name].add_tools([agent_tool(other, agents[other], target_mailbox_id=f"squad::{other}")])
    return {name: team_member(name=name, agent=agent, conversation=conversation) for name, agent in agents.items()}


class Meeting:
    """A place where everybody waits until all have come."""

    def __init__(self, count):
        self.count, self.here, self.all = count, 0, asyncio.Event()

    async def __call__(self, _name):
        self.here += 1
        if self.here >= self.count:
            self.all.set()
        await asyncio.wait_for(self.all.wait(), 5)


@pytest.mark.parametrize("conversation", ["run", "member"])
@pytest.mark.parametrize("names", [["a", "b"], ["a", "b", "c"]])
async def test_members_that_ask_each_other_crosswise(backend, names, conversation):
    members = ring(names, conversation, meet=Meeting(len(names)))
    team = team_of([turn(*(handoff(name) for name in names)), said], members)
    cluster = Cluster(backend, team)
    try:
        outcome = await cluster.run()
        assert outcome["status"] == "succeeded"
        assert outcome["result"].count("would never end") == 1
        assert outcome["result"].count(" answers") == len(names) - 1
    finally:
        await cluster.close()


async def test_two_runs_that_wait_for_each_other_crosswise(backend):
    """team:CON-06"""
    names, waiting = ["a", "b"], Meeting(2)
    members = ring(names, "member", meet=waiting)
    team = team_of(lambda request: said(request) if results_of_run(request) else handoff(said(request)), members)
    cluster = Cluster(backend, team)
    try:
        await cluster.workers()
        coordinator = await cluster.coordinator()
        running = [coordinator.drive(await cluster.submit(name, f"run-{name}")) for name in names]
        outcomes = await asyncio.wait_for(asyncio.gather(*running), 10)
        texts = [outcome["result"] for outcome in outcomes]
        assert [outcome["status"] for outcome in outcomes] == ["succeeded", "succeeded"]
        assert sum("would never end" in text for text in texts) == 1
        assert sum(" answers" in text for text in texts) == 1
    finally:
        await cluster.close()


def results_of_run(request):
    return "Team runtime update" in said(request)


async def test_who_waits_in_line_without_a_circle_is_answered(backend):
    """Two members ask a third one that is busy."""
    busy, go_on = asyncio.Event(), asyncio.Event()

    async def third(request):
        if task_of(request) == "first":
            busy.set()
            await asyncio.wait_for(go_on.wait(), 5)
        return f"third did {task_of(request)}"

    third_agent = spec("third", third).spawn()
    tool = agent_tool("third", third_agent, target_mailbox_id="squad::third")

    def asker(name):
        async def reply(request):
            if results(request):
                return f"{name} heard: {results(request)[0]}"
            await asyncio.wait_for(busy.wait(), 5)
            asyncio.get_running_loop().call_later(0.05, go_on.set)
            return ask("third")

        return team_member(name=name, agent=spec(name, reply, tools=[tool]), conversation="run")

    members = {
        "a": asker("a"),
        "b": asker("b"),
        "third": team_member(name="third", agent=third_agent, conversation="member"),
    }
    team = team_of([turn(handoff("third", "first"), handoff("a"), handoff("b")), said], members)
    cluster = Cluster(backend, team)
    try:
        outcome = await cluster.run()
        assert "would never end" not in outcome["result"]
        assert outcome["result"].count("third did question") == 2
    finally:
        await cluster.close()


# --- the step of the store ------------------------------------------------------------------------------------------


def shared(member, conversation, *chain, content="do it"):
    return item(member, content, conversation=conversation, shared=True, chain=chain)


async def test_a_batch_that_would_wait_for_itself_is_refused_as_a_whole(store):
    lease = await started_run(store)
    first = batch(shared("a", "conv-a", "run-1"), shared("b", "conv-b", "run-1"), id="batch-1")
    await store.hand_off(lease, first, step())
    a, b = await claim_one(store, "a", "worker-a"), await claim_one(store, "b", "worker-b")
    asks = batch(shared("b", "conv-b", "run-1", "conv-a"), id="ask-1", pauses=False)
    assert (await store.hand_off(a.lease, asks, step()))[0] == "accepted"
    circle = batch(item("c"), shared("a", "conv-a", "run-1", "conv-b"), id="ask-2", pauses=False)
    assert await store.hand_off(b.lease, circle, step()) == ("circle", ())
    assert await store.inbox("c", "all") == []
    assert await store.counts("a") == {"processing": 1}


async def test_a_line_that_got_shorter_is_no_circle_any_more(store):
    lease = await started_run(store)
    first = batch(shared("a", "conv-a", "run-1"), shared("b", "conv-b", "run-1"), id="batch-1")
    await store.hand_off(lease, first, step())
    a, b = await claim_one(store, "a", "worker-a"), await claim_one(store, "b", "worker-b")
    _, (question,) = await store.hand_off(
        a.lease, batch(shared("b", "conv-b", "run-1", "conv-a"), id="ask-1", pauses=False), step()
    )
    assert await store.update_status(question.id, "cancelled")
    back = batch(shared("a", "conv-a", "run-1", "conv-b"), id="ask-2", pauses=False)
    assert (await store.hand_off(b.lease, back, step()))[0] == "accepted"


async def test_a_handoff_that_would_wait_for_itself_is_reported_as_failed(backend):
    """What a member hands off crosswise comes back as a failure with a code."""
    met = Meeting(2)

    def make(name, other):
        async def reply(request):
            if results_of_run(request):
                return f"{name} heard: {said(request)}"
            if task_of(request) == "more":
                return f"{name} did more"
            await met(name)
            return handoff(other, "more")

        return spec(name, reply).spawn()

    agents = {name: make(name, other) for name, other in (("a", "b"), ("b", "a"))}
    agents["a"].add_tools([agent_tool("b", agents["b"], target_mailbox_id="squad::b")])
    agents["b"].add_tools([agent_tool("a", agents["a"], target_mailbox_id="squad::a")])
    members = {name: team_member(name=name, agent=agent, conversation="run") for name, agent in agents.items()}
    cluster = Cluster(backend, team_of([turn(handoff("a"), handoff("b")), said], members))
    try:
        outcome = await cluster.run()
        assert outcome["status"] == "succeeded"
        assert outcome["result"].count("Error code: circular_wait") == 1
        assert outcome["result"].count(" did more") == 1
    finally:
        await cluster.close()


async def test_a_circle_through_a_team_inside_a_team_in_one_process():
    """The inner team's member is the very agent that waits for the inner team."""
    outer_member = spec("a", lambda request: results(request)[0] if results(request) else ask("inner")).spawn()
    inner_member = team_member(name="a", agent=outer_member)
    inner = team_of([ask("a"), lambda request: results(request)[0]], {"a": inner_member}, name="inner")
    outer_member.add_tools([agent_tool("inner", inner)])
    team = team_of([ask("a"), lambda request: results(request)[0]], {"a": team_member(name="a", agent=outer_member)})
    result = await asyncio.wait_for(team.prompt("go"), 10)
    assert "would never end" in result.result
