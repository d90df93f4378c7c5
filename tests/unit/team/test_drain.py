import asyncio

import pytest

from lattice import AbortController, AbortError, agent_tool, create_bare_agent
from lattice.errors import APIError, OptionError
from lattice.testing import ScriptedModel, tool_use, turn
from tests.teams import ask, handoff, results, said, spec, team_of


def id_in(request):
    return said(request).split("message_id: ")[1].splitlines()[0]


def answering(tool, content="answer"):
    def reply(request):
        if results(request):
            return "end"
        return tool_use(tool, {"message_id": id_in(request), "content": content})

    return reply


async def test_each_member_works_its_own_mail():
    """team:DRN-01 team:DRN-03 team:DRN-04 team:DRN-12"""
    team = team_of(["never"], {"a": answering("team_reply", "from a"), "b": answering("team_reply", "from b")})
    first, second = await team.send("manager", "a", "one"), await team.send("manager", "b", "two")
    result = await team.drain()
    assert (result.processed, result.failed, result.rounds) == (2, 0, 2)
    assert {team.mailbox.get(m.id).status for m in (first, second)} == {"done"}
    assert [m.content for m in team.mailbox.inbox("manager")] == ["from a", "from b"]


async def test_the_limits_hold():
    """team:DRN-02 team:DRN-04"""
    team = team_of(["never"], {"a": answering("team_reply"), "b": answering("team_reply")})
    for _ in range(3):
        await team.send("manager", "a", "x")
        await team.send("manager", "b", "x")
    assert (await team.drain(max_rounds=1)).processed == 2
    assert (await team.drain({"maxMessages": 1})).processed == 1
    result = await team.drain()
    assert (result.processed, result.rounds) == (3, 3)
    with pytest.raises(OptionError, match="max_rounds must be"):
        await team.drain(max_rounds=0)


async def test_the_leads_mail_stays_where_it_is():
    """team:DRN-05"""
    team = team_of(["never"], {"a": ["x"]})
    await team.send("a", "manager", "for the lead")
    assert (await team.drain()).processed == 0
    assert len(team.mailbox.inbox("manager")) == 1


async def test_ending_without_an_answer_fails_the_message_and_tells_the_sender():
    """team:DRN-07 team:DRN-08"""
    team = team_of(["never"], {"a": ["plain words"]})
    message = await team.send("manager", "a", "one")
    result = await team.drain()
    assert (result.processed, result.failed) == (1, 1)
    assert team.mailbox.get(message.id).status == "failed"
    (note,) = team.mailbox.inbox("manager")
    assert (note.from_, note.work_item_role, note.parent_message_id) == ("squad::a", "followup", message.id)
    assert note.content == "a ended without team_reply or team_followup. Reason: plain words"


async def test_a_followup_keeps_the_message_open_and_is_no_failure():
    """team:DRN-09 team:W-22"""
    team = team_of(["never"], {"a": answering("team_followup", "half way")})
    message = await team.send("manager", "a", "one")
    result = await team.drain()
    assert (result.processed, result.failed) == (1, 0)
    assert team.mailbox.get(message.id).status == "processing"
    assert [m.content for m in team.mailbox.inbox("manager")] == ["half way"]


@pytest.mark.parametrize("error", [APIError("down"), ValueError("broken")])
async def test_a_failing_member_fails_its_message_and_the_drain_goes_on(error):
    """team:DRN-11 team:DRN-14"""
    team = team_of(["never"], {"a": [error], "b": answering("team_reply")})
    await team.send("manager", "a", "one")
    await team.send("manager", "b", "two")
    result = await team.drain()
    assert (result.processed, result.failed) == (2, 1)
    assert f"Reason: {error}" in team.mailbox.inbox("manager", "all")[0].content


async def test_a_failure_after_the_reply_leaves_it_done():
    """team:DRN-11"""

    def reply(request):
        if results(request):
            raise APIError("down")
        return tool_use("team_reply", {"message_id": id_in(request), "content": "in time"})

    team = team_of(["never"], {"a": reply})
    message = await team.send("manager", "a", "one")
    assert (await team.drain()).failed == 1
    assert team.mailbox.get(message.id).status == "done"


async def test_a_nested_team_closes_by_its_plain_result():
    """team:DRN-13 team:NEST-08"""
    inner = team_of(["the inner answer"], {}, name="inner")
    team = team_of(["never"], {"inner": inner})
    message = await team.send("manager", "inner", "one")
    assert (await team.drain()).failed == 0
    assert team.mailbox.get(message.id).status == "done"
    (reply,) = team.mailbox.inbox("manager")
    assert (reply.content, reply.work_item_role) == ("the inner answer", "upstream_report")


async def test_an_abort_ends_the_drain():
    """team:DRN-10 team:ABRT-14"""
    controller = AbortController()

    async def reply(request):
        controller.abort()
        await request.signal.wait()

    team = team_of(["never"], {"a": reply})
    message = await team.send("manager", "a", "one")
    with pytest.raises(AbortError):
        await team.drain(signal=controller.signal)
    assert team.mailbox.get(message.id).status == "cancelled"
    with pytest.raises(AbortError):
        await team.drain(signal=controller.signal)


async def test_a_drained_member_may_ask_but_not_hand_off():
    """team:DRN-06"""
    seen = []

    def reply(request):
        if not results(request):
            return turn(ask("helper"), handoff("helper"))
        seen.extend(results(request))
        return "end"

    helper = create_bare_agent(model="m", model_client=ScriptedModel(["helped"]))
    team = team_of(["never"], {"a": spec("a", reply, tools=[agent_tool("helper", helper)])})
    await team.send("manager", "a", "one")
    await team.drain()
    assert seen[0] == "helped"
    assert "mode=handoff requires an AgentRuntime" in seen[1]


async def test_grants_in_a_message_grant_nothing():
    """team:W-24 team:DRN-15"""
    granted = []

    class Member:
        def query(self, prompt, **options):
            raise NotImplementedError

        async def prompt(self, prompt, **options):
            granted.append((options, "Workspace access" in prompt))
            return {"type": "result", "result": "x"}

    team = team_of(["never"], {"a": Member()})
    await team.send("squad::b", "a", "one", metadata={"workspaceGrants": [{"root": "/"}]})
    await team.drain()
    assert granted == [({}, False)]


async def test_a_message_is_claimed_by_one_drain_only():
    started = asyncio.Event()

    def reply(request):
        started.set()
        return answering("team_reply")(request)

    team = team_of(["never"], {"a": reply})
    for _ in range(4):
        await team.send("manager", "a", "x")
    one, two = await asyncio.gather(team.drain(), team.drain())
    assert one.processed + two.processed == 4
    assert one.failed + two.failed == 0


async def test_mail_of_every_kind_is_worked_off():
    """team:DRN-16"""
    roles = ["delegation", "upstream_request", "upstream_report", "followup", None]
    team = team_of(["never"], {"a": answering("team_reply")})
    sent = [await team.send("squad::b", "a", "x", work_item_role=role) for role in roles]
    assert (await team.drain()).processed == len(roles)
    assert {team.mailbox.get(message.id).status for message in sent} == {"done"}
