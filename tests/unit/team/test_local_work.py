"""How the work items of a run in one process take their turns, and how they end."""

import asyncio

import pytest

from lattice import AbortError, agent_tool, create_memory_mailbox
from lattice.errors import StoreError
from lattice.testing import turn
from tests.teams import ask, brief, collect, echo, handoff, results, said, spec, team_of


class Returning:
    """A host's own agent that ends in an abort without raising it."""

    async def query(self, prompt, **options):
        yield {"type": "result", "subtype": "error_abort", "is_error": True, "result": "", "error": AbortError("mine")}


@pytest.mark.parametrize("member", [[AbortError("mine")], Returning()])
async def test_who_aborts_has_finished_before_the_item_is_cancelled(member):
    """team:EVT-12 team:ABRT-04"""
    team = team_of([turn(handoff("a")), "done"], {"a": member})
    ends = [brief(event) for event in await collect(team.query("go", stream=False))]
    assert [end for end in ends if end in ("finished a", "cancelled squad::a")] == ["finished a", "cancelled squad::a"]


async def test_members_that_ask_the_same_colleague_at_once_take_turns():
    """team:CON-06 team:W-16"""
    now, most = 0, 0
    both = asyncio.Barrier(2)

    async def colleague(request):
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(10):
            await asyncio.sleep(0)
        now -= 1
        return "asked"

    shared = spec("shared", colleague).spawn()

    async def member(request):
        if results(request):
            return results(request)[0]
        await both.wait()
        return turn(ask("shared"))

    members = {name: spec(name, member, tools=[agent_tool("shared", shared)]) for name in "pq"}
    team = team_of([turn(handoff("p"), handoff("q")), "done"], members, runner={"max_concurrent_work_items": 2})
    await team.prompt("go")
    assert [report.content for report in team.mailbox.inbox("manager", "all")] == ["asked", "asked"]
    assert most == 1


async def test_work_that_somebody_else_has_closed_is_not_done():
    """team:W-04"""
    box, asked = [], []

    async def first(request):
        (queued,) = box[0].mailbox.inbox("squad::second")
        box[0].mailbox.update_status(queued.id, "cancelled")
        return "done"

    team = team_of(
        [turn(handoff("first"), handoff("second")), said],
        {"first": first, "second": lambda request: asked.append(request) or "never"},
    )
    box.append(team)
    result = await team.prompt("go")
    assert asked == []
    assert "status: cancelled" in result.result
    assert [m.status for m in team.mailbox.inbox("squad::second", "all")] == ["cancelled"]


async def test_a_member_that_is_asked_is_not_stopped_by_an_interrupt():
    """team:INT-06"""
    box = []

    async def member(request):
        box[0].interrupt()
        await asyncio.sleep(0)
        return "answered"

    lead = spec("lead", [turn(ask("a")), "never"])
    box.append(team_of(lead, {"a": member}))
    result = await box[0].prompt("go")
    assert result.subtype == "interrupted"
    assert [m.status for m in box[0].mailbox.inbox("squad::a", "all")] == ["done"]
    assert [m.content for m in box[0].mailbox.inbox("manager", "all")] == ["answered"]


class Forgetful:
    """A mailbox that finds no message that has ended."""

    def __init__(self):
        self.inner = create_memory_mailbox()

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def get(self, message_id):
        found = self.inner.get(message_id)
        return found if found is None or not found.status.is_terminal else None


async def test_the_end_is_told_even_if_the_mailbox_does_not_find_the_message():
    """team:MBX-16"""
    team = team_of([turn(handoff("a")), "done"], {"a": echo("a")}, mailbox=Forgetful())
    events = await collect(team.query("go", stream=False))
    assert [(e.subtype, e.mailbox) for e in events if e.type == "team_message"][2:] == [
        ("done", "squad::a"),
        ("replied", "manager"),
    ]
    assert events[-1].result == "done"


async def test_a_mailbox_that_loses_what_the_lead_waits_for_is_named():
    team = team_of([turn(handoff("a")), "done"], {"a": [AbortError("mine")]}, mailbox=Forgetful())
    with pytest.raises(StoreError, match="does not find how message 'first' to 'squad::a' ended"):
        await team.prompt("go")
