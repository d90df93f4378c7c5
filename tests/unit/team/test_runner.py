"""What a call of a team promises to its caller: options, order, exceptions, and what custom agents are given."""

import asyncio

import pytest

from lattice import AbortController, AbortError, agent_tool, create_memory_mailbox, create_team_runner, tool
from lattice.errors import LatticeError, OptionError
from lattice.testing import tool_use, turn
from tests.teams import ask, brief, collect, echo, handoff, model_of, results, said, spec, team_of


class Recording:
    """A host's own agent that notes what it is asked with."""

    def __init__(self, answer="ok"):
        self.calls = []
        self.answer = answer

    async def query(self, prompt, **options):
        self.calls.append((prompt, options))
        yield {"type": "result", "subtype": "success", "is_error": False, "result": self.answer}


async def test_nothing_starts_before_the_first_event_is_asked_for():
    """team:RUN-07"""
    lead = spec("lead", ["x"])
    stream = team_of(lead, {}).query("go")
    await asyncio.sleep(0)
    assert model_of(lead).calls == 0
    await stream.aclose()


async def test_a_run_waits_for_a_listener_that_is_far_behind(monkeypatch):
    """team:RUN-07 team:W-11"""
    monkeypatch.setattr("lattice.team.event_queue._CROWDED", 4)
    lead = spec("lead", [turn(handoff("a"))] * 20 + ["done"])
    stream = team_of(lead, {"a": echo("a")}).query("go", stream=False)
    await anext(stream)
    for _ in range(500):
        await asyncio.sleep(0)
    assert model_of(lead).calls < 5
    events = await collect(stream)
    assert (events[-1].result, model_of(lead).calls) == ("done", 21)


async def test_events_that_were_told_come_before_the_exception():
    """team:RUN-09"""

    class Broken:
        async def query(self, prompt, **options):
            yield {"type": "note"}
            raise LatticeError("broken lead")

    seen = []
    with pytest.raises(LatticeError, match="broken lead"):
        async for event in team_of(Broken(), {}).query("go"):
            seen.append(event)
    assert seen == [{"type": "note"}]


async def test_work_that_was_accepted_is_cancelled_when_the_lead_breaks():
    """team:W-09 team:W-41 team:FAIL-12"""

    class Breaking:
        async def query(self, prompt, runtime, **options):
            await runtime.delegate({"name": "a", "agent": None, "task": "x", "wait": "accepted"})
            raise LatticeError("broken lead")
            yield

    team = team_of(Breaking(), {})
    with pytest.raises(LatticeError):
        await team.prompt("go")
    assert [m.status for m in team.mailbox.inbox("a", "all")] == ["cancelled"]


async def test_a_lead_that_ends_in_an_error_takes_its_handoffs_along():
    """team:HND-24"""

    class Failing:
        async def query(self, prompt, runtime, **options):
            await runtime.delegate({"name": "a", "agent": None, "task": "x", "wait": "accepted"})
            yield {"type": "result", "subtype": "error", "is_error": True, "result": "no"}

    team = team_of(Failing(), {})
    events = await collect(team.query("go"))
    assert [brief(event) for event in events] == ["sent a", "result", "cancelled a"]


async def test_a_lead_of_the_hosts_own_kind_is_resumed_too():
    """team:RUN-22 team:RUN-15"""
    member = spec("a", echo("a"))

    class Lead:
        def __init__(self):
            self.prompts = []

        async def query(self, prompt, runtime, **options):
            self.prompts.append(prompt)
            if len(self.prompts) == 1:
                request = {"name": "a", "agent": member, "task": "by hand", "wait": "accepted", "toolUseId": "1"}
                accepted = await runtime.delegate(request)
                assert (accepted.status, accepted.request.content) == ("accepted", "by hand")
                assert runtime.should_pause_after_tool_batch() is True
            yield {"type": "result", "is_error": False, "result": prompt}

    result = await create_team_runner(root=Lead()).prompt("go")
    assert result["result"].endswith("a did by hand")


async def test_a_request_that_cannot_be_read_is_refused():
    class Lead:
        async def query(self, prompt, runtime, **options):
            with pytest.raises(OptionError, match="unknown"):
                await runtime.delegate({"name": "a", "agent": None, "task": "x", "nope": 1})
            with pytest.raises(OptionError, match="task must be a text"):
                await runtime.delegate({"name": "a", "agent": None, "task": 3})
            yield {"type": "result", "is_error": False, "result": "refused"}

    assert (await create_team_runner(root=Lead()).prompt("go"))["result"] == "refused"


async def test_what_members_are_asked_with():
    """team:RUN-10 team:RUN-12 team:RUN-21 team:RASK-02 team:INT-07"""
    member, controller, context = Recording(), AbortController(), {"tenant": 1}
    team = team_of([turn(handoff("a")), "x"], {"a": member})
    await team.prompt("go", signal=controller.signal, context=context, request_timeout_ms=500, stream=False)
    prompt, options = member.calls[0]
    assert prompt.startswith("This is delegated work from an agent mailbox.")
    assert options["context"] is context
    assert options["stream"] is False
    assert options["request_timeout_ms"] == 500
    assert options["runtime"].source["member"] == "a"
    controller.abort()
    assert options["signal"].aborted is False, "the run is over and listens no more"


async def test_the_output_format_is_the_leads_alone():
    """team:W-26 team:RUN-11 team:RUN-10"""
    lead, member = spec("lead", [turn(handoff("a")), "{}"]), spec("a", ["plain"])
    await team_of(lead, {"a": member}).prompt("go", output_format="json", reasoning_effort="high")
    assert {request.output_format for request in model_of(lead).requests} == {"json"}
    assert {request.reasoning_effort for request in model_of(lead).requests} == {"high"}
    assert model_of(member).requests[0].output_format is None
    assert model_of(member).requests[0].reasoning_effort is None


async def test_unknown_options_are_refused():
    with pytest.raises(OptionError, match='unknown option "bogus"'):
        team_of(["x"], {}).query("go", bogus=1)


async def test_grants_are_an_option_of_the_query(tmp_path):
    """team:RUN-14"""
    lead = spec("lead", ["x"])
    await team_of(lead, {}).prompt("go", {"permissions": {"workspaceGrants": [{"root": str(tmp_path)}]}})
    assert "Runtime workspace access for this task:" in model_of(lead).requests[0].system_prompt


async def test_neither_prompt_is_an_event():
    """team:RUN-18"""
    team = team_of([turn(handoff("a")), "x"], {"a": echo("a")})
    users = [event for event in await collect(team.query("go", stream=False)) if event.type == "user"]
    assert len(users) == 1


async def test_an_interrupted_member_has_an_empty_report():
    """team:HND-23"""
    box = []

    async def reply(request):
        box[0].interrupt()
        await request.signal.wait()

    box.append(spec("a", reply).spawn())
    team = team_of([turn(handoff("a")), "x"], {"a": box[0]})
    await team.prompt("go")
    assert [(m.status, m.content) for m in team.mailbox.inbox("manager", "all")] == [("read", "")]
    assert team.mailbox.inbox("squad::a", "all")[0].status == "done"


async def test_a_receipt_leaves_out_what_an_adapter_does_not_keep():
    """team:HND-03"""

    class Plain:
        """Keeps only what the documentation's sample keeps."""

        def __init__(self):
            self.inner = create_memory_mailbox()

        def send(self, from_, to, content, **options):
            record = self.inner.send(from_, to, content, **options).to_dict()
            record.pop("workItemId")
            return record

        def __getattr__(self, name):
            return getattr(self.inner, name)

    team = team_of([turn(handoff("a")), "x"], {"a": echo("a")}, mailbox=Plain())
    user = next(e for e in await collect(team.query("go", stream=False)) if e.type == "user")
    assert "work_item_id" not in user.tool_use_result
    assert "message_id" in user.tool_use_result


async def test_mailbox_tools_send_and_drain_tell_no_events():
    """team:EVT-17"""
    lead = spec("lead", [tool_use("team_send", {"to": "a", "content": "x"}), "done"])
    team = team_of(lead, {"a": ["x"]}, expose_lead_mailbox_tools=True)
    events = await collect(team.query("go", stream=False))
    assert "team_message" not in {event.type for event in events}
    assert len(team.mailbox.inbox("squad::a")) == 1


async def test_errors_in_events_are_live_in_one_process():
    """team:EVT-20"""
    broken = tool("broken", "Breaks.", {"type": "object"}, lambda value: 1 / 0)
    lead = spec("lead", [tool_use("broken", {}), "x"], tools=[broken])
    user = next(e for e in await collect(team_of(lead, {}).query("go")) if e.type == "user")
    assert isinstance(user.error, Exception)


async def test_the_limit_holds_for_the_whole_run():
    """team:W-17 team:CON-05"""
    now, most = 0, 0

    async def leaf(request):
        nonlocal now, most
        now += 1
        most = max(most, now)
        for _ in range(5):
            await asyncio.sleep(0)
        now -= 1
        return "x"

    def branch(name):
        leaves = [agent_tool(f"{name}{number}", spec("leaf", leaf)) for number in range(3)]
        calls = [handoff(f"{name}{number}") for number in range(3)]
        return spec(name, [turn(*calls), "done"], tools=leaves)

    team = team_of(
        [turn(handoff("p"), handoff("q")), "x"],
        {"p": branch("p"), "q": branch("q")},
        runner={"max_concurrent_work_items": 2},
    )
    await team.prompt("go")
    assert most == 2


async def test_an_abort_below_reaches_every_level():
    """team:ABRT-06 team:ABRT-09"""
    controller = AbortController()

    async def leaf(request):
        controller.abort()
        await request.signal.wait()

    middle = spec("middle", [turn(handoff("leaf")), "x"], tools=[agent_tool("leaf", spec("leaf", leaf))])
    team = team_of([turn(handoff("middle")), "x"], {"middle": middle})
    with pytest.raises(AbortError, match="Operation aborted"):
        await team.prompt("go", signal=controller.signal)
    assert team.mailbox.inbox("leaf", "all")[0].status == "cancelled"
    assert team.mailbox.inbox("squad::middle", "all")[0].status == "cancelled"


async def test_any_failure_while_the_run_is_aborted_counts_as_the_abort():
    """team:ABRT-12 team:ABRT-11"""
    controller = AbortController()

    class Member:
        async def query(self, prompt, **options):
            controller.abort()
            raise ValueError("something else")
            yield

    team = team_of([turn(handoff("a")), "x"], {"a": Member()})
    with pytest.raises(AbortError):
        await team.prompt("go", signal=controller.signal)
    assert team.mailbox.inbox("squad::a", "all")[0].status == "cancelled"


async def test_an_abort_during_the_batch_that_hands_off_cancels_it():
    """team:ABRT-13"""
    controller = AbortController()
    stop = tool("stop", "Stop.", {"type": "object"}, lambda value: controller.abort() or "stopping")
    lead = spec("lead", [turn(handoff("a"), tool_use("stop", {})), "never"], tools=[stop])
    team = team_of(lead, {"a": echo("a")})
    with pytest.raises(AbortError):
        await team.prompt("go", signal=controller.signal)
    assert team.mailbox.inbox("squad::a", "all")[0].status == "cancelled"
    assert model_of(lead).calls == 1


async def test_an_interrupt_during_a_batch_takes_effect_after_it():
    """team:INT-05"""
    box = []
    stop = tool("stop", "Stop.", {"type": "object"}, lambda value: str(box[0].interrupt()))
    lead = spec("lead", [tool_use("stop", {}), "never"], tools=[stop])
    box.append(team_of(lead, {}))
    result = await box[0].prompt("go")
    assert result.subtype == "interrupted"
    assert model_of(lead).calls == 1


async def test_an_interrupt_during_a_batch_that_hands_off_is_not_lost():
    """team:W-10 team:INT-04 team:HND-07"""
    box = []
    stop = tool("stop", "Stop.", {"type": "object"}, lambda value: str(box[0].interrupt()))
    lead = spec("lead", [turn(handoff("a"), tool_use("stop", {})), "never"], tools=[stop])
    box.append(team_of(lead, {"a": echo("a")}))
    result = await box[0].prompt("go")
    assert result.subtype == "interrupted"
    assert model_of(lead).calls == 1
    assert [m.status for m in box[0].mailbox.inbox("squad::a", "all")] == ["cancelled"]


async def test_the_leads_of_nested_teams_are_told_apart_by_name():
    """team:NEST-04"""
    inner = team_of([turn(handoff("b")), "x"], {"b": echo("b")}, name="inner")
    events = await collect(team_of([turn(handoff("inner")), "x"], {"inner": inner}, name="outer").query("go"))
    paused = [e.source["name"] for e in events if e.type == "agent_message" and e.source["kind"] == "root"]
    assert paused == ["outer", "inner"]


def test_what_a_team_is_made_of():
    """team:TEAM-12 team:TEAM-15"""
    first, second = team_of(["x"], {"a": ["x"]}), team_of(["x"], {"a": ["x"]})
    assert (first.name, first.members[0].mailbox_id) == ("squad", "squad::a")
    assert first.mailbox is not second.mailbox
    assert first.runner_options == {}
    assert not hasattr(first, "add_tools")
    assert not hasattr(first, "output_schema")


async def test_a_team_adds_nothing_to_system_prompts():
    """team:TEAM-11"""
    lead, member = spec("lead", [turn(ask("a")), "x"], system_prompt="lead on"), spec("a", ["x"], system_prompt="work")
    await team_of(lead, {"a": member}).prompt("go")
    assert model_of(lead).requests[0].system_prompt == "lead on"
    assert model_of(member).requests[0].system_prompt == "work"


async def test_senders_are_free_and_recipients_are_not():
    """team:TEAM-13 team:W-23"""
    team = team_of(["x"], {"a": ["x"]})
    assert (await team.send("the host", "a", "x")).from_ == "the host"
    with pytest.raises(LatticeError):
        await team.send("the host", "nobody", "x")


async def test_roles_are_not_checked_and_loops_are_bounded_by_turns():
    """team:TEAM-19"""
    lead = spec("lead", lambda request: turn(ask("a")), max_turns=3)
    result = await team_of(lead, {"a": echo("a")}).prompt("go")
    assert result.subtype == "error_max_turns"


async def test_a_member_that_ends_an_ask_by_its_own_abort_is_a_tool_error():
    """team:RASK-05"""
    team = team_of([ask("a"), lambda request: results(request)[0]], {"a": [AbortError("mine")]})
    result = await team.prompt("go")
    assert result.subtype == "success"
    assert result.result.startswith("Tool a failed:")
    assert team.mailbox.inbox("squad::a", "all")[0].status == "cancelled"


async def test_the_permission_callback_is_asked_before_anything_is_sent():
    """team:AGT-14"""
    asked = []

    def permission(request):
        asked.append(request.tool_name)
        return {"behavior": "deny", "message": "not today"}

    lead = spec("lead", [tool_use("a", {"bad": 1}), lambda request: results(request)[0]], permission=permission)
    team = team_of(lead, {"a": echo("a")})
    assert (await team.prompt("go")).result == "not today"
    assert asked == ["a"]
    assert team.mailbox.inbox("squad::a", "all") == []


async def test_a_direct_question_leaves_no_trace_in_mailbox_or_events():
    """team:ASK-09"""
    agent = spec("s", [ask("c"), "x"], tools=[agent_tool("c", spec("c", ["y"]))]).spawn()
    events = await collect(agent.query("go", stream=False))
    assert {event.type for event in events} == {"system", "assistant", "user", "result"}


async def test_a_task_that_reads_like_a_heading_is_marked():
    """team:W-39"""
    member = spec("a", ["x"])
    team = team_of([turn(handoff("a", "x\n--- delegated task ---\ny")), "x"], {"a": member})
    await team.prompt("go")
    assert said(model_of(member).requests[0]).endswith("x\n> --- delegated task ---\ny")


async def test_the_description_for_the_caller_is_not_repeated_to_the_member():
    """team:W-40 team:PRM-01"""
    member = spec("a", ["x"])
    team = team_of([turn(handoff("a")), "x"], {"a": member})
    await team.prompt("go")
    assert "Delegate work to the team member" not in said(model_of(member).requests[0])


@pytest.mark.parametrize("spelling", ["runtime", "agent_runtime"])
async def test_a_runtime_is_handed_on_under_either_name(spelling):
    """team:RUN-13"""
    inner = team_of([ask("b"), lambda request: results(request)[0]], {"b": echo("b")}, name="inner")

    class Handing:
        async def query(self, prompt, runtime, **options):
            async for event in inner.query("go", **{spelling: runtime}):
                yield event

    limited = team_of([ask("a"), lambda r: results(r)[0]], {"a": Handing()}, runner={"max_delegate_depth": 1})
    assert "Reached maximum delegate depth (1)" in (await limited.prompt("go")).result


async def test_tools_find_the_runtime_in_their_context():
    """team:RUN-13"""
    seen = []
    look = tool("look", "Look.", {"type": "object"}, lambda value, context: seen.append(context.agent_runtime) or "ok")
    team = team_of([turn(handoff("a")), "x"], {"a": spec("a", [tool_use("look", {}), "x"], tools=[look])})
    await team.prompt("go")
    assert seen[0].source["member"] == "a"
