"""A team in one process, as its host sees it."""

import asyncio
import json

import pytest

from lattice import AbortController, AbortError, create_memory_mailbox, team_member
from lattice.errors import APIError, ConcurrentQueryError, MaxTurnsError, OptionError
from lattice.testing import turn
from tests.teams import ask, brief, collect, echo, handoff, model_of, results, said, spec, team_of


def lead_of(*first, then="done"):
    """A lead that makes some calls and then answers with ``then``, a text or a function of the request."""
    return [turn(*first), then]


async def test_a_handoff_pauses_the_lead_and_its_report_resumes_it():
    """team:HND-04 team:HND-10 team:HND-14 team:RUN-06"""
    team = team_of(lead_of(handoff("a", "count"), then=lambda request: f"lead saw: {said(request)}"), {"a": echo("a")})
    result = await team.prompt("go")
    assert result.subtype == "success"
    assert result.result.startswith("lead saw: Team runtime update:")
    assert result.result.endswith("a did count")


async def test_the_receipt_is_json_in_the_documented_order():
    """team:HND-01 team:HND-02 team:EVT-18"""
    team = team_of(lead_of(handoff("a")), {"a": echo("a")})
    events = await collect(team.query("go", stream=False))
    receipt = next(e for e in events if e.type == "user").tool_use_result
    body = json.loads(receipt)
    assert list(body) == [
        "status",
        "phase",
        "completion_pending",
        "message_id",
        "work_item_id",
        "thread_id",
        "to",
    ]
    assert body["status"] == "accepted"
    assert body["phase"] == "queued"
    assert body["completion_pending"] is True
    assert body["to"] == "squad::a"
    assert receipt == json.dumps(body, indent=2)
    assert team.mailbox.get(body["message_id"]).content == "work"


async def test_the_events_of_one_handoff_in_order():
    """team:EVT-01 team:EVT-09 team:EVT-15 team:EVT-16 team:HND-06 team:EVT-03 team:EVT-04"""
    team = team_of(lead_of(handoff("a")), {"a": echo("a")})
    events = await collect(team.query("go", stream=False))
    assert [brief(event) for event in events] == [
        "system",
        "assistant",
        "sent squad::a",
        "user",
        "lead:result",
        "claimed squad::a",
        "started a",
        "a:system",
        "a:assistant",
        "a:result",
        "finished a",
        "done squad::a",
        "replied manager",
        "system",
        "assistant",
        "result",
    ]
    paused = events[4]
    assert paused.source == {"kind": "root", "name": "squad", "team": "squad", "mailbox": "manager"}
    assert paused.message.result == "Delegated work was queued. Waiting for team runtime reports before continuing."


async def test_the_events_of_one_question_in_order():
    """team:EVT-10 team:RASK-01"""
    team = team_of(lead_of(ask("a")), {"a": echo("a")})
    events = await collect(team.query("go", stream=False))
    assert [brief(event) for event in events] == [
        "system",
        "assistant",
        "sent squad::a",
        "claimed squad::a",
        "started a",
        "a:system",
        "a:assistant",
        "a:result",
        "finished a",
        "done squad::a",
        "replied manager",
        "user",
        "assistant",
        "result",
    ]
    assert events[11].tool_use_result == "a did question"


async def test_who_an_event_is_about_and_how_its_message_stands():
    """team:EVT-02 team:EVT-06 team:EVT-07 team:EVT-08"""
    team = team_of(lead_of(handoff("a")), {"a": echo("a")})
    events = [e for e in await collect(team.query("go")) if e.type == "team_message"]
    lead = {"kind": "root", "name": "squad", "team": "squad", "mailbox": "manager"}
    member = {"kind": "team_member", "name": "a", "team": "squad", "member": "a", "mailbox": "squad::a"}
    assert [(e.subtype, e.source, e.mailbox, e.message["status"]) for e in events] == [
        ("sent", lead, "squad::a", "pending"),
        ("claimed", lead, "squad::a", "processing"),
        ("done", member, "squad::a", "done"),
        ("replied", member, "manager", "pending"),
    ]


async def test_stream_events_of_members_name_their_source():
    """team:EVT-05"""
    team = team_of(lead_of(handoff("a")), {"a": echo("a")})
    streamed = [e for e in await collect(team.query("go")) if e.type == "stream_event"]
    assert {e.source["member"] if e.source else None for e in streamed} == {None, "a"}
    assert not [e for e in await collect(team_of(["x"], {}).query("go", stream=False)) if e.type == "stream_event"]


async def test_messages_and_reports_are_linked():
    """team:HND-19 team:HND-20 team:HND-21"""
    team = team_of(lead_of(handoff("a", "count")), {"a": echo("a")})
    await team.prompt("go")
    (task,) = team.mailbox.inbox("squad::a", "all")
    (report,) = team.mailbox.inbox("manager", "all")
    assert (task.from_, task.status, task.work_item_role) == ("manager", "done", "delegation")
    assert task.id == task.thread_id == task.work_item_id == task.upstream_message_id
    assert (report.from_, report.content, report.work_item_role) == ("squad::a", "a did count", "upstream_report")
    assert (report.thread_id, report.work_item_id, report.parent_message_id) == (task.id, task.id, task.id)


async def test_reports_are_read_once_they_stand_in_the_conversation():
    """team:W-20 team:RASK-03 team:HND-21 team:MBX-02"""
    team = team_of([turn(handoff("a"), ask("a")), "done"], {"a": echo("a")})
    await team.prompt("go")
    assert [m.status for m in team.mailbox.inbox("manager", "all")] == ["read", "read"]


async def test_reports_come_in_the_order_of_the_handoffs():
    """team:HND-12 team:EVT-14 team:CON-08"""
    late = asyncio.Event()

    async def slow(request):
        await late.wait()
        return "slow"

    def fast(request):
        late.set()
        return "fast"

    lead = lead_of(handoff("slow"), handoff("fast"), then=said)
    team = team_of(lead, {"slow": slow, "fast": fast}, runner={"max_concurrent_work_items": 2})
    events = await collect(team.query("go", stream=False))
    finished = [e.source["member"] for e in events if e.type == "team_agent" and e.subtype == "finished"]
    assert finished == ["fast", "slow"]
    assert events[-1].result.index("\n\nslow") < events[-1].result.index("\n\nfast")


class Meter:
    """Members that count how many of them are at work at once."""

    def __init__(self):
        self.now = self.most = 0
        self.order = []

    def member(self, name):
        async def reply(request):
            self.now += 1
            self.most = max(self.most, self.now)
            self.order.append(name)
            for _ in range(5):
                await asyncio.sleep(0)
            self.now -= 1
            return name

        return reply


@pytest.mark.parametrize(("limit", "most"), [(None, 1), (2, 2), (3, 3)])
async def test_as_many_members_work_at_once_as_the_limit_says(limit, most):
    """team:CON-01 team:CON-02"""
    meter = Meter()
    members = {name: meter.member(name) for name in "abc"}
    team = team_of(
        lead_of(*map(handoff, "abc")), members, runner={} if limit is None else {"max_concurrent_work_items": limit}
    )
    await team.prompt("go")
    assert meter.most == most
    assert meter.order == ["a", "b", "c"]


async def test_work_for_one_member_is_serial_and_in_order():
    """team:CON-03 team:SPEC-13"""
    meter = Meter()
    tasks = []

    async def reply(request):
        tasks.append(said(request).rpartition("\n")[2])
        return await meter.member("a")(request)

    team = team_of(
        lead_of(handoff("a", "one"), handoff("a", "two"), handoff("a", "three")),
        {"a": reply},
        runner={"max_concurrent_work_items": 3},
    )
    await team.prompt("go")
    assert meter.most == 1
    assert tasks == ["one", "two", "three"]


async def test_a_question_and_a_handoff_to_one_member_do_not_swap():
    """team:W-01 team:W-02 team:RASK-06"""
    team = team_of(
        [turn(handoff("a", "first"), ask("a", "second")), lambda request: said(request)],
        {"a": echo("a")},
    )
    events = await collect(team.query("go", stream=False))
    user = next(e for e in events if e.type == "user")
    assert user.tool_use_result[1]["content"] == "a did second"
    assert events[-1].result.endswith("a did first")


async def test_mail_that_waits_is_not_taken_for_the_task():
    """team:W-01"""
    team = team_of(lead_of(handoff("a", "the task"), then=said), {"a": echo("a")})
    note = await team.send("manager", "a", "just a note")
    result = await team.prompt("go")
    assert result.result.endswith("a did the task")
    assert team.mailbox.get(note.id).status == "pending"


# --- failure and abort ------------------------------------------------------------------------------------------


async def test_a_failed_member_fails_alone():
    """team:FAIL-01 team:FAIL-02 team:FAIL-03 team:FAIL-10 team:EVT-11"""
    team = team_of(
        lead_of(handoff("bad"), handoff("good"), then=said),
        {"bad": [APIError("provider is down")], "good": echo("good")},
    )
    events = await collect(team.query("go", stream=False))
    text = events[-1].result
    assert "Delegated work assigned to bad failed.\nError code: api_error\nReason: provider is down" in text
    assert text.endswith("good did work")
    failed = next(e for e in events if e.type == "team_message" and e.subtype == "failed")
    error = {"code": "api_error", "message": "provider is down", "name": "APIError"}
    assert failed.error == error
    first, second = team.mailbox.inbox("manager", "all")
    assert first.metadata == {"status": "failed", "error": error}
    assert second.metadata is None
    assert team.mailbox.get(failed.message["id"]).status == "failed"


async def test_a_member_that_raises_or_ends_without_a_result_fails():
    """team:FAIL-07 team:FAIL-08"""

    class Raising:
        async def query(self, prompt, **options):
            raise MaxTurnsError("enough")
            yield

    class Silent:
        async def query(self, prompt, **options):
            yield {"type": "note"}

    team = team_of(
        lead_of(handoff("raising"), handoff("silent"), then=said), {"raising": Raising(), "silent": Silent()}
    )
    text = (await team.prompt("go")).result
    assert "Error code: max_turns_exceeded\nReason: enough" in text
    assert "completed without a result" in text


async def test_a_failed_question_is_an_error_of_the_tool():
    """team:W-12 team:RASK-04"""
    team = team_of(lead_of(ask("bad"), then="went on"), {"bad": [APIError("down")]})
    events = await collect(team.query("go", stream=False))
    user = next(e for e in events if e.type == "user")
    assert user.message["content"][0]["is_error"] is True
    assert "Error code: api_error" in user.tool_use_result
    assert events[-1].result == "went on"


async def test_a_failing_lead_is_the_result_and_not_an_exception():
    """team:FAIL-11"""
    result = await team_of([APIError("down")], {}).prompt("go")
    assert (result.subtype, result.is_error) == ("error", True)


async def test_an_abort_while_members_work_cancels_everything_and_is_raised():
    """team:ABRT-01 team:ABRT-02 team:ABRT-10 team:EVT-13"""
    controller = AbortController()

    async def hang(request):
        controller.abort()
        await request.signal.wait()
        raise AbortError

    team = team_of(lead_of(handoff("a"), handoff("b")), {"a": hang, "b": echo("b")})
    seen = []
    with pytest.raises(AbortError):
        async for event in team.query("go", stream=False, signal=controller.signal):
            seen.append(brief(event))
    assert [m.status for m in team.mailbox.inbox("squad::a", "all")] == ["cancelled"]
    assert [m.status for m in team.mailbox.inbox("squad::b", "all")] == ["cancelled"]
    assert team.mailbox.inbox("manager", "all") == []
    assert "cancelled squad::b" in seen
    assert "claimed squad::b" not in seen
    assert "result" not in seen


@pytest.mark.parametrize("phase", ["before", "lead", "question"])
async def test_an_abort_is_raised_in_every_phase(phase):
    """team:W-15 team:ABRT-05 team:ABRT-03"""
    controller = AbortController()
    if phase == "before":
        controller.abort()

    async def lead(request):
        if phase == "lead":
            controller.abort()
        return turn(ask("a"))

    async def member(request):
        controller.abort()
        await request.signal.wait()
        raise AbortError

    team = team_of(lead, {"a": member})
    with pytest.raises(AbortError):
        await team.prompt("go", signal=controller.signal)
    assert all(m.status == "cancelled" for m in team.mailbox.inbox("squad::a", "all"))


async def test_work_that_was_finished_before_an_abort_stays_done():
    """team:ABRT-08 team:W-34"""
    controller = AbortController()

    async def hang(request):
        controller.abort()
        await request.signal.wait()
        raise AbortError

    team = team_of(lead_of(handoff("a"), handoff("b")), {"a": echo("a"), "b": hang})
    with pytest.raises(AbortError):
        await team.prompt("go", signal=controller.signal)
    assert team.mailbox.inbox("squad::a", "all")[0].status == "done"
    assert [m.content for m in team.mailbox.inbox("manager", "all")] == ["a did work"]


async def test_one_members_own_abort_does_not_stop_the_others():
    """team:W-14 team:ABRT-04"""
    team = team_of(lead_of(handoff("a"), handoff("b"), then=said), {"a": [AbortError("mine")], "b": echo("b")})
    text = (await team.prompt("go")).result
    assert "status: cancelled" in text
    assert text.endswith("b did work")


async def test_giving_up_the_stream_stops_the_run():
    """team:W-11 team:RUN-08"""
    gone = asyncio.Event()

    async def hang(request):
        try:
            await request.signal.wait()
        finally:
            gone.set()
        raise AbortError

    team = team_of(lead_of(handoff("a")), {"a": hang})
    stream = team.query("go", stream=False)
    async for event in stream:
        if event.type == "team_agent":
            break
    await stream.aclose()
    await asyncio.wait_for(gone.wait(), 5)
    assert team.mailbox.inbox("squad::a", "all")[0].status == "cancelled"


async def test_cancelling_the_task_cancels_the_work():
    started = asyncio.Event()

    async def hang(request):
        started.set()
        await request.signal.wait()
        raise AbortError

    team = team_of(lead_of(handoff("a")), {"a": hang})
    task = asyncio.create_task(team.prompt("go"))
    await asyncio.wait_for(started.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert team.mailbox.inbox("squad::a", "all")[0].status == "cancelled"


async def test_an_interrupt_while_members_work_ends_the_run_after_them():
    """team:W-10 team:INT-03 team:INT-06"""
    box = []

    async def member(request):
        assert box[0].interrupt() is True
        return "finished all the same"

    lead = spec("lead", lead_of(handoff("a"), handoff("b")))
    team = team_of(lead, {"a": member, "b": echo("b")})
    box.append(team)
    result = await team.prompt("go")
    assert (result.subtype, result.is_error, result.result) == ("interrupted", False, "")
    assert model_of(lead).calls == 1
    assert team.mailbox.inbox("squad::a", "all")[0].status == "done"
    assert team.mailbox.inbox("squad::b", "all")[0].status == "cancelled"


async def test_an_interrupt_of_the_lead_is_its_result():
    """team:INT-01 team:INT-02"""
    box = []

    async def lead(request):
        assert box[0].interrupt() is True
        await request.signal.wait()
        raise AbortError

    team = team_of(lead, {})
    box.append(team)
    assert (await team.prompt("go")).subtype == "interrupted"
    assert team.interrupt() is False


# --- depth, nesting, conversations --------------------------------------------------------------------------------


async def test_members_hand_off_too():
    """team:HND-15 team:DLG-07 team:W-32 team:HND-19"""
    inner = spec("inner", echo("inner"))
    from lattice import agent_tool

    outer = spec(
        "outer",
        [turn(handoff("inner", "deeper")), lambda request: f"outer: {said(request).rpartition(chr(10))[2]}"],
        tools=[agent_tool("inner", inner)],
    )
    team = team_of(lead_of(handoff("outer"), then=said), {"outer": outer})
    events = await collect(team.query("go", stream=False))
    assert events[-1].result.endswith("outer: inner did deeper")
    nested = next(e for e in events if e.type == "team_message" and e.mailbox == "inner").message
    assert nested["from"] == "squad::outer"
    assert nested["parentWorkItemId"] == team.mailbox.inbox("squad::outer", "all")[0].work_item_id


async def test_the_depth_limit_is_a_tool_error_and_nothing_is_sent():
    """team:DEP-01 team:DEP-02 team:DEP-03 team:EVT-19"""
    from lattice import agent_tool

    outer = spec(
        "outer",
        [turn(ask("inner")), lambda request: results(request)[0]],
        tools=[agent_tool("inner", spec("inner", echo("inner")))],
    )
    team = team_of(
        lead_of(ask("outer"), then=lambda r: results(r)[0]), {"outer": outer}, runner={"max_delegate_depth": 1}
    )
    result = await team.prompt("go")
    assert "Reached maximum delegate depth (1)" in result.result
    assert team.mailbox.inbox("inner", "all") == []


async def test_a_team_can_be_a_member():
    """team:NEST-01 team:NEST-03 team:NEST-05 team:TEAM-09"""
    inner = team_of(lead_of(handoff("backend", "build"), then=said), {"backend": echo("backend")}, name="engineering")
    outer = team_of(lead_of(ask("engineering"), then="shipped"), {"engineering": inner}, name="company")
    assert outer.member_tools == {"engineering": []}
    events = await collect(outer.query("go", stream=False))
    assert events[-1].result == "shipped"
    members = {e.source.get("member") for e in events if e.type == "agent_message"}
    assert members == {"engineering", "backend", None}
    user = next(e for e in events if e.type == "user")
    assert user.tool_use_result.endswith("backend did build")
    assert len(inner.mailbox.inbox("engineering::backend", "all")) == 1


async def test_nested_teams_share_the_depth_of_the_outermost():
    """team:W-18 team:DEP-04"""
    inner = team_of(lead_of(ask("backend"), then=lambda r: results(r)[0]), {"backend": echo("backend")}, name="inner")
    outer = team_of(
        lead_of(ask("inner"), then=lambda r: results(r)[0]),
        {"inner": inner},
        name="outer",
        runner={"max_delegate_depth": 1},
    )
    assert "Reached maximum delegate depth (1)" in (await outer.prompt("go")).result


async def test_a_live_member_keeps_its_conversation_and_a_template_does_not():
    """team:RUN-20 team:HND-11"""
    lengths = []

    def reply(request):
        lengths.append(len(request.messages))
        return "ok"

    live, template = spec("live", reply).spawn(), spec("template", reply)
    lead = spec("lead", [turn(handoff("live"), handoff("template")), "x"] * 2).spawn()
    team = team_of(lead, {"live": live, "template": template})
    await team.prompt("one")
    await team.prompt("two")
    assert lengths == [1, 1, 3, 1]
    roles = [message["role"] for message in await lead.get_history()]
    assert roles == ["user", "assistant", "user", "user", "assistant"] * 2


async def test_a_second_call_while_a_live_lead_works_is_refused():
    """team:RUN-17"""
    started = asyncio.Event()

    async def lead(request):
        started.set()
        await request.signal.wait()
        raise AbortError

    team = team_of(spec("lead", lead).spawn(), {})
    controller = AbortController()
    first = asyncio.create_task(team.prompt("one", signal=controller.signal))
    await asyncio.wait_for(started.wait(), 5)
    with pytest.raises(ConcurrentQueryError):
        await team.prompt("two")
    controller.abort()
    with pytest.raises(AbortError):
        await first


async def test_an_agent_that_waits_for_its_caller_gets_an_error_not_a_deadlock():
    from lattice import agent_tool

    a = spec("a", [turn(ask("b")), lambda request: results(request)[0]]).spawn()
    b = spec("b", [turn(ask("a")), lambda request: results(request)[0]]).spawn()
    a.add_tools([agent_tool("b", b)])
    b.add_tools([agent_tool("a", a)])
    team = team_of(lead_of(ask("a"), then=lambda r: results(r)[0]), {"a": a, "b": spec("other", echo("b"))})
    result = await asyncio.wait_for(team.prompt("go"), 5)
    assert "would never end" in result.result


# --- assembly -----------------------------------------------------------------------------------------------------


def test_the_lead_gets_a_tool_per_member_and_nobody_is_changed():
    """team:TEAM-06 team:TEAM-07 team:TEAM-08 team:W-28 team:TEAM-10 team:WSP-03"""
    lead, worker = spec("lead", ["x"]).spawn(), spec("worker", ["x"]).spawn()
    team = team_of(lead, {"b": worker, "a": spec("a", ["x"])}, expose_lead_mailbox_tools=True)
    names = [tool.name for tool in team.tools]
    assert names == ["b", "a", "team_send", "team_inbox", "team_read", "team_reply", "team_followup", "team_status"]
    assert [tool.name for tool in team.member_tools["b"]] == names[2:]
    assert lead.toolset.names == []
    assert worker.toolset.names == []
    assert "workspace paths" in team.tools[0].description
    assert "natural language" in team.tools[0].description
    assert "long-lived session that retains conversation history" in team.tools[0].description
    assert "fresh session with no memory of previous calls" in team.tools[1].description


async def test_the_model_of_a_member_sees_the_mailbox_tools():
    """team:TEAM-09 team:TOOL-01"""
    worker = spec("worker", echo("w"))
    team = team_of(lead_of(ask("worker")), {"worker": worker})
    await team.prompt("go")
    offered = [tool["name"] for tool in model_of(worker).requests[0].tools]
    assert offered == ["team_send", "team_inbox", "team_read", "team_reply", "team_followup", "team_status"]


@pytest.mark.parametrize("value", [0, 1.5, -1, True, "2"])
def test_a_limit_that_is_no_positive_integer_is_refused_when_the_team_is_made(value):
    """team:RUN-03 team:RUN-04"""
    with pytest.raises(OptionError, match="must be a positive integer"):
        team_of(["x"], {}, runner={"max_concurrent_work_items": value})


def test_a_team_needs_a_name_and_a_lead():
    """team:TEAM-01"""
    with pytest.raises(OptionError, match="Team name is required"):
        team_of(["x"], {}, name=" ")
    with pytest.raises(OptionError, match="lead must be"):
        team_of_object()


def team_of_object():
    from lattice import create_team

    return create_team(name="x", lead=object(), members=[])


async def test_a_team_without_members_is_its_lead():
    """team:TEAM-17"""
    assert (await team_of(["hello"], {}).prompt("go")).result == "hello"


async def test_what_a_member_replies_by_tool_is_its_only_report():
    """team:HND-22 team:W-21"""
    from lattice.testing import tool_use

    def member(request):
        if results(request):
            return "some closing words"
        message_id = said(request).split("message_id: ")[1].splitlines()[0]
        return turn(tool_use("team_reply", {"message_id": message_id, "content": "the reply"}))

    team = team_of(lead_of(handoff("a"), then=said), {"a": member})
    text = (await team.prompt("go")).result
    assert text.endswith("the reply")
    assert [m.content for m in team.mailbox.inbox("manager", "all")] == ["the reply"]


async def test_the_result_tells_the_tokens_of_everybody():
    """team:W-27 team:RUN-16"""
    usage = {"input_tokens": 10, "output_tokens": 1}
    team = team_of([turn(handoff("a"), usage=usage), turn("done", usage=usage)], {"a": [turn("x", usage=usage)]})
    result = await team.prompt("go")
    assert result.usage == usage
    assert result.total_usage == {"input_tokens": 30, "output_tokens": 3}


async def test_mailboxes_of_a_host_work_as_documented():
    """team:MBX-01"""

    class Mailbox:
        def __init__(self):
            self.kept = {}

        async def send(self, from_, to, content, **options):
            record = {
                "id": f"msg_{len(self.kept) + 1}",
                "from": from_,
                "to": to,
                "content": content,
                "status": "pending",
                "createdAt": 1,
                **options,
            }
            record.setdefault("threadId", record["id"])
            self.kept[record["id"]] = record
            return dict(record)

        async def inbox(self, mailbox_id, status="pending"):
            return [dict(m) for m in self.kept.values() if m["to"] == mailbox_id and status in ("all", m["status"])]

        async def get(self, message_id):
            return self.kept.get(message_id)

        async def claim_next(self, mailbox_id):
            raise AssertionError("a run claims its own messages")

        async def update_status(self, message_id, status):
            self.kept[message_id]["status"] = status
            return True

    mailbox = Mailbox()
    team = team_of(lead_of(handoff("a"), then=said), {"a": echo("a")}, mailbox=mailbox)
    assert (await team.prompt("go")).result.endswith("a did work")
    assert [m["status"] for m in mailbox.kept.values()] == ["done", "read"]


async def test_a_mailbox_that_breaks_under_a_handoff_breaks_the_run_and_cancels_the_rest():
    """team:FAIL-09"""

    class Broken:
        def __init__(self):
            self.inner = create_memory_mailbox()

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def update_status(self, message_id, status):
            if status == "done":
                raise OSError("disk full")
            return self.inner.update_status(message_id, status)

    team = team_of(lead_of(handoff("a"), handoff("b")), {"a": echo("a"), "b": echo("b")}, mailbox=Broken())
    with pytest.raises(OSError, match="disk full"):
        await team.prompt("go")
    assert team.mailbox.inbox("squad::b", "all")[0].status == "cancelled"


async def test_a_live_member_under_two_names_is_never_asked_twice_at_once():
    """team:W-16 team:CON-07"""
    meter = Meter()
    shared = spec("shared", meter.member("shared")).spawn()
    members = {name: team_member(name=name, role="executor", agent=shared) for name in ("x", "y")}
    team = team_of(lead_of(handoff("x"), handoff("y")), members, runner={"max_concurrent_work_items": 2})
    result = await team.prompt("go")
    assert result.subtype == "success"
    assert meter.most == 1
    assert all(m.metadata is None for m in team.mailbox.inbox("manager", "all"))
