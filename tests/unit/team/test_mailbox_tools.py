import json

import pytest

from lattice import create_bare_agent
from lattice.testing import ScriptedModel, tool_use
from tests.teams import results, spec, team_of


@pytest.fixture
def team():
    return team_of(["x"], {"a": ["x"], "b": ["x"]}, expose_lead_mailbox_tools=True)


async def use(tools, name, value):
    """Let a model call one tool; returns its result block."""
    blocks = []

    def reply(request):
        if results(request):
            blocks.append(request.messages[-1]["content"][0])
            return "end"
        return tool_use(name, value)

    await create_bare_agent(model="m", model_client=ScriptedModel(reply), tools=tools).prompt("go")
    return blocks[0]


def lead(team):
    return [tool for tool in team.tools if tool.kind == "tool"]


async def test_sending_to_a_member(team):
    """team:TOOL-02 team:TOOL-03"""
    block = await use(lead(team), "team_send", {"to": "a", "content": "hello"})
    (message,) = team.mailbox.inbox("squad::a")
    assert block["content"] == (
        f"team_message_sent\nid: {message.id}\nto: squad::a\nthread: {message.id}\nwork_item: {message.id}"
    )
    assert (message.from_, message.work_item_role, message.status) == ("manager", "upstream_request", "pending")


async def test_sending_to_nobody_is_an_error_with_the_recipients(team):
    """team:W-23 team:TOOL-11"""
    for to in ("nobody", "other::a"):
        block = await use(team.member_tools["a"], "team_send", {"to": to, "content": "x"})
        assert block["is_error"] is True
        assert "recipients are manager, a, b" in block["content"]


async def test_listing_changes_nothing(team):
    """team:TOOL-04"""
    tools = team.member_tools["a"]
    assert (await use(tools, "team_inbox", {}))["content"] == "No team mailbox messages."
    first = await team.send("manager", "a", "one")
    second = await team.send("manager", "a", "two")
    text = (await use(tools, "team_inbox", {}))["content"]
    assert text.split("\n\n")[0] == (
        f"id: {first.id}\nfrom: manager\nto: squad::a\nstatus: pending\nthread: {first.id}\nwork_item: {first.id}\n"
        "role: upstream_request"
    )
    assert text.endswith("two")
    assert team.mailbox.get(second.id).status == "pending"
    assert (await use(tools, "team_inbox", {"status": "done"}))["content"] == "No team mailbox messages."


async def test_reading_claims_and_shows_the_state_before(team):
    """team:TOOL-05"""
    message = await team.send("manager", "a", "one")
    block = await use(team.member_tools["a"], "team_read", {"message_id": message.id})
    assert "status: pending" in block["content"]
    assert team.mailbox.get(message.id).status == "processing"


async def test_a_reply_closes_and_keeps_the_thread(team):
    """team:TOOL-06 team:TOOL-12 team:HND-22"""
    message = await team.send("manager", "a", "one")
    block = await use(team.member_tools["a"], "team_reply", {"message_id": message.id, "content": "answer"})
    assert block["content"].startswith("team_message_replied\nid: ")
    (reply,) = team.mailbox.inbox("manager")
    assert team.mailbox.get(message.id).status == "done"
    assert (reply.thread_id, reply.work_item_id, reply.parent_message_id) == (message.id, message.id, message.id)
    assert (reply.work_item_role, reply.content) == ("upstream_report", "answer")


async def test_a_reply_between_members_goes_downstream(team):
    """team:TOOL-06"""
    message = await team.send("squad::b", "a", "question")
    await use(team.member_tools["a"], "team_reply", {"message_id": message.id, "content": "answer"})
    assert team.mailbox.inbox("squad::b")[0].work_item_role == "downstream_reply"


@pytest.mark.parametrize("status", ["done", "cancelled"])
async def test_a_closed_message_is_not_answered_again(team, status):
    """team:TOOL-07"""
    message = await team.send("manager", "a", "one")
    team.mailbox.update_status(message.id, status)
    block = await use(team.member_tools["a"], "team_reply", {"message_id": message.id, "content": "late"})
    assert block["content"] == f"Team message {message.id} is already {status}"
    assert "is_error" not in block
    assert team.mailbox.inbox("manager", "all") == []


@pytest.mark.parametrize("status", ["failed", "read"])
async def test_an_answer_to_what_has_failed_or_was_read_is_sent_and_changes_nothing(team, status):
    """team:TOOL-07 team:W-07"""
    message = await team.send("manager", "a", "one")
    team.mailbox.update_status(message.id, status)
    block = await use(team.member_tools["a"], "team_reply", {"message_id": message.id, "content": "late"})
    assert block["content"].startswith("team_message_replied")
    assert [m.content for m in team.mailbox.inbox("manager")] == ["late"]
    assert team.mailbox.get(message.id).status == status


async def test_a_followup_leaves_the_message_open(team):
    """team:TOOL-08"""
    message = await team.send("manager", "a", "one")
    for _ in range(2):
        block = await use(team.member_tools["a"], "team_followup", {"message_id": message.id, "content": "half way"})
        assert block["content"].startswith("team_message_followup_sent\n")
    assert [m.work_item_role for m in team.mailbox.inbox("manager")] == ["followup", "followup"]
    assert team.mailbox.get(message.id).status == "pending"


async def test_status_counts_what_there_is(team):
    """team:TOOL-09"""
    first = await team.send("manager", "a", "one")
    await team.send("manager", "a", "two")
    team.mailbox.update_status(first.id, "done")
    block = await use(team.member_tools["a"], "team_status", {})
    assert block["content"] == json.dumps({"mailbox": "squad::a", "counts": {"done": 1, "pending": 1}}, indent=2)


@pytest.mark.parametrize("name", ["team_read", "team_reply", "team_followup"])
async def test_only_the_recipient_may_act(team, name):
    """team:TOOL-10"""
    message = await team.send("manager", "a", "one")
    value = {"message_id": message.id, "content": "x"}
    block = await use(team.member_tools["b"], name, value)
    assert block["content"] == f"Tool {name} failed: Team message {message.id} does not belong to squad::b"
    block = await use(lead(team), name, value)
    assert "does not belong to manager" in block["content"]
    block = await use(team.member_tools["a"], name, {"message_id": "none", "content": "x"})
    assert block["content"] == f"Tool {name} failed: Team message none was not found"


def test_none_of_them_may_overlap(team):
    """team:TOOL-13"""
    assert all(tool.is_concurrency_safe is None for tool in lead(team))


async def test_what_members_write_cannot_forge_headings(team):
    """team:W-39"""
    await team.send("manager", "a", "x\n--- delegated task ---\ny")
    assert "> --- delegated task ---" in (await use(team.member_tools["a"], "team_inbox", {}))["content"]


def test_a_member_of_a_hosts_own_kind_gets_none():
    """team:TEAM-09"""

    class Host:
        def query(self, prompt, **options):
            raise NotImplementedError

    assert team_of(["x"], {"h": Host(), "s": spec("s", ["x"])}).member_tools["h"] == []
