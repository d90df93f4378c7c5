"""What never meets on one store: teams with members of the same names, and the runs of one team at once."""

import asyncio
from dataclasses import replace

import pytest

from lattice.testing import tool_use, turn
from tests.cluster import Cluster
from tests.teams import handoff, results, said, spec, task_of, team_of

TEAMS = ("red", "blue")


class Space:
    """One team's part of a backend that several teams share."""

    def __init__(self, backend, team):
        self.backend, self.team = backend, team

    def store(self, **limits):
        return self.backend.space(self.team, **limits)

    def space(self, key, **limits):
        return self.backend.space(key, **limits)


@pytest.fixture
async def start(backend):
    clusters = []

    def begin(team, **limits):
        clusters.append(Cluster(Space(backend, team.key), team, **limits))
        return clusters[-1]

    yield begin
    for cluster in clusters:
        await cluster.close()


@pytest.fixture
def runs(request):
    """How many runs at once; a server in Python is too slow for as many."""
    return 20 if "fakeredis" in request.node.name else 200


def told_by(team):
    """A member that writes to its lead and to its colleague before it answers, each time in its team's colour."""

    def member(name, other):
        def reply(request):
            if results(request):
                return f"{team} {name} did {task_of(replace(request, messages=request.messages[:1]))}"
            notes = [tool_use("team_send", {"to": to, "content": f"{team} {name}"}) for to in ("manager", other)]
            return turn(*notes)

        return reply

    return {"a": member("a", "b"), "b": member("b", "a")}


async def test_two_teams_with_members_of_the_same_names_see_nothing_of_each_other(start):
    """team:W-19"""
    clusters = {}
    for team in TEAMS:
        lead = [turn(handoff("a", f"{team} one"), handoff("b", f"{team} two")), said] * 3
        clusters[team] = start(team_of(lead, told_by(team), name=team))
        await clusters[team].workers()
        await clusters[team].coordinator()
    for number in range(3):
        run_id = f"run-{number}"  # the same ids in both
        outcomes = await asyncio.gather(*(cluster.run("go", run_id) for cluster in clusters.values()))
        for team, outcome in zip(TEAMS, outcomes, strict=True):
            assert f"{team} a did {team} one" in outcome["result"]
            assert f"{team} b did {team} two" in outcome["result"]
    for team, cluster in clusters.items():
        (other,) = set(TEAMS) - {team}
        for mailbox in ("manager", "a", "b"):
            mail = await cluster.store.inbox(mailbox, "all")
            assert mail
            assert [m for m in mail if other in m.content or m.to.startswith(other) or m.from_.startswith(other)] == []
        told = str(await cluster.events("run-0"))
        assert team in told
        assert other not in told


async def test_many_runs_of_one_team_at_once_share_no_conversation(start, runs):
    """Whoever works sees what belongs to its own run, whether it is a template or a live agent that remembers."""
    strangers = []

    def check(request, own):
        """Note every task in a history that is of another run."""
        words = str([message["content"] for message in request.messages]).replace("'", " ").replace("\\n", " ").split()
        strangers.extend({word for word in words if word.startswith("task-")} - {own})

    def member(request):
        own = task_of(request)
        check(request, own)
        return f"did {own}"

    def lead(request):
        own = str(request.messages[0]["content"])
        check(request, own)
        if said(request).startswith("Team runtime update"):
            return f"{own}: {said(request).count(f'did {own}')} of {said(request).count('did task-')}"
        return turn(handoff("live", own), handoff("template", own))

    live = spec("live", member).spawn()
    cluster = start(team_of(spec("lead", lead), {"live": live, "template": member}, name="crowd"))
    await cluster.workers(concurrency=20)
    coordinator = await cluster.coordinator()
    tasks = [f"task-{number}-end" for number in range(runs)]
    for number, task in enumerate(tasks):
        await cluster.submit(task, f"run-{number}")
    outcomes = await asyncio.wait_for(asyncio.gather(*(coordinator.drive(f"run-{n}") for n in range(runs))), 50)
    assert [outcome["result"] for outcome in outcomes] == [f"{task}: 2 of 2" for task in tasks]
    assert strangers == []
