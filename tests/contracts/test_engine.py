"""The engine over every run store, with each process's part in a host of its own: what a team's processes promise."""

import asyncio

import pytest

from lattice import AbortError, team_member, tool
from lattice.errors import APIError, RunHeldError, RunParkedError
from lattice.testing import tool_use, turn
from tests.cluster import Gate, until
from tests.contracts.backends import TEAM
from tests.teams import ask, brief, collect, echo, handoff, model_of, results, said, spec, team_of


def crew(lead, members, **options):
    return team_of(lead, members, name=TEAM, **options)


def lead_of(*first, then="done"):
    return [turn(*first), then]


async def test_a_run_from_submit_to_result(start):
    cluster = start(
        crew(lead_of(handoff("a", "one"), handoff("b", "two"), then=said), {"a": echo("a"), "b": echo("b")})
    )
    outcome = await cluster.run()
    assert outcome["status"] == "succeeded"
    assert outcome["error"] is None
    assert outcome["result"].index("a did one") < outcome["result"].index("b did two")
    record = await cluster.store.get_run("run")
    assert record.outcome() == outcome
    assert [m.status for m in await cluster.store.inbox("a", "all")] == ["done"]
    assert [m.status for m in await cluster.store.inbox("manager", "all")] == ["read", "read"]


@pytest.mark.parametrize("call", [handoff, ask])
async def test_the_events_are_those_of_one_process(start, call):
    """team:EVT-09 team:EVT-10"""

    def make():
        return crew(lead_of(call("a")), {"a": echo("a")})

    cluster = start(make())
    await cluster.run()
    stored = [brief(event) for event in await cluster.events() if event["type"] != "stream_event"]
    told = [brief(event) for event in await collect(make().query("go", stream=False))]
    assert stored == [*told, "run_ended"]


async def test_a_result_has_the_tokens_of_everybody(start):
    usage = {"input_tokens": 10, "output_tokens": 1}
    cluster = start(crew([turn(handoff("a"), usage=usage), turn("x", usage=usage)], {"a": [turn("y", usage=usage)]}))
    outcome = await cluster.run()
    assert outcome["usage"] == {"input_tokens": 30, "output_tokens": 3}
    result = next(event for event in await cluster.events() if event["type"] == "result")
    assert result["usage"] == usage
    assert result["total_usage"] == outcome["usage"]


async def test_a_failed_member_is_reported_and_the_lead_decides(start):
    """team:FAIL-01 team:FAIL-02"""
    cluster = start(crew(lead_of(handoff("a"), handoff("b"), then=said), {"a": [APIError("down")], "b": echo("b")}))
    outcome = await cluster.run()
    assert outcome["status"] == "succeeded"
    assert "Delegated work assigned to a failed.\nError code: api_error\nReason: down" in outcome["result"]
    assert [m.status for m in await cluster.store.inbox("a", "all")] == ["failed"]


async def test_a_failing_lead_fails_the_run(start):
    outcome = await start(crew([APIError("down")], {})).run()
    assert outcome["status"] == "failed"
    assert outcome["error"] == {"code": "api_error", "message": "down", "name": "APIError"}


async def test_one_turn_of_a_member_is_one_step(start):
    """team:W-08"""
    lead = lead_of(handoff("a", "one"), handoff("a", "two"), handoff("a", "three"))
    cluster = start(crew(lead, {"a": echo("a")}))
    worker = await cluster.worker("a")
    await cluster.run()
    work = [name for name in worker.store.calls if name in ("claim", "append", "load", "settle", "renew")]
    assert work.count("settle") == 3
    assert "append" not in work
    assert "load" not in work
    between = work[work.index("settle") : len(work) - work[::-1].index("settle")]
    assert between == ["settle"] * 3, "each settle brings the next claim along"


# --- death ------------------------------------------------------------------------------------------------------


async def test_a_coordinator_that_dies_while_it_waits_is_followed_by_another(start):
    """team:W-05"""
    gate = Gate()

    async def member(request):
        await gate()
        return "the report"

    lead = spec("lead", lead_of(handoff("a"), then=said))
    cluster = start(crew(lead, {"a": member}))
    first = await cluster.coordinator()
    await cluster.workers()
    await cluster.submit()
    first.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    await first.kill()
    second = await cluster.coordinator()
    with pytest.raises(RunHeldError):
        await second.coordinator.drive("run")
    expired = await _expire_run(cluster)
    assert expired == ["run"]
    driving = second.drive("run")
    gate.open.set()
    outcome = await asyncio.wait_for(driving, 5)
    assert outcome["result"].endswith("the report")
    assert outcome["result"].count("--- mailbox reply ---") == 1
    assert model_of(lead).calls == 2


async def _expire_run(cluster):
    """Let the dead coordinator's lease run out; the second one asks for what expired."""
    second = cluster.processes[-1]
    for process in cluster.processes:
        if process.worker is not None:
            await cluster.store.renew(process.host._leases(), 10**12)
    await cluster.backend.expire_leases()
    for process in cluster.processes:
        if process.worker is not None:
            await cluster.store.renew(process.host._leases(), 10**12)
    found = await cluster.store.reclaim_expired(second.host.process_id, 60_000)
    return [lease.id for lease in found if lease.kind == "run"]


async def test_a_member_that_dies_goes_on_from_its_last_step(start):
    """team:W-06"""
    gate, runs = Gate(), []

    def look(value):
        runs.append(value)
        return "seen"

    async def member(request):
        if not results(request):
            return turn(tool_use("look", {}))
        await gate()
        return f"it was {results(request)[0]}"

    worker = spec("a", member, tools=[tool("look", "Look.", {"type": "object"}, look)])
    cluster = start(crew(lead_of(handoff("a"), then=said), {"a": worker}))
    first = await cluster.worker("a")
    coordinator = await cluster.coordinator()
    await cluster.submit()
    driving = coordinator.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    await first.kill()
    await cluster.backend.expire_leases()
    await cluster.store.renew(coordinator.host._leases(), 10**12)
    freed = await cluster.store.reclaim_expired("reaper", 1, runs=False)
    assert [lease.word for lease in freed] == ["returned"]
    gate.open.set()
    await cluster.worker("a")
    outcome = await asyncio.wait_for(driving, 5)
    assert outcome["result"].endswith("it was seen")
    assert len(runs) == 1, "a finished tool call is not run again"
    assert model_of(worker).calls == 3, "the first turn is not asked again"
    tasks = [m for m in model_of(worker).requests[-1].messages if "delegated task" in str(m["content"])]
    assert len(tasks) == 1


async def test_a_worker_that_was_stopped_past_its_lease_begins_no_further_tool_call(start):
    """Not even one that may run again: it would run beside that of the new holder, or after its result was recorded."""
    gate, runs = Gate(), []

    async def slow(value):
        runs.append(value["n"])
        await gate()

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    tools = [tool("slow", "Slow.", schema, slow, on_recovery="rerun")]
    member = spec("a", [turn(tool_use("slow", {"n": 0}), tool_use("slow", {"n": 1})), "never said"], tools=tools)
    cluster = start(crew(lead_of(handoff("a")), {"a": member}))
    stopped = await cluster.worker("a")
    coordinator = await cluster.coordinator()
    await cluster.submit()
    coordinator.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    await cluster.expire()
    assert len(await cluster.store.claim("a", "another process", 10**12)) == 1
    for held in stopped.host._held.values():
        held.valid_until = 0.0  # so much time has passed, and nothing in this process noticed
    gate.open.set()
    await until(lambda: not stopped.worker.busy)
    assert runs == [0]


async def test_a_worker_that_was_stopped_right_before_a_model_call_does_not_make_it(start):
    async def lose_the_lease(_context):
        await cluster.expire()
        assert len(await cluster.store.claim("a", "another process", 10**12)) == 1
        for held in stopped.host._held.values():
            held.valid_until = 0.0  # so much time has passed, and nothing in this process noticed
        lost.set()

    lost = asyncio.Event()
    member = spec("a", ["never said"], hooks={"on_model_request": lose_the_lease})
    cluster = start(crew(lead_of(handoff("a")), {"a": member}))
    stopped = await cluster.worker("a")
    coordinator = await cluster.coordinator()
    await cluster.submit()
    coordinator.drive("run")
    await asyncio.wait_for(lost.wait(), 5)
    await until(lambda: not stopped.worker.busy)
    assert model_of(member).calls == 0


async def test_a_worker_that_could_not_look_for_lost_work_looks_again(start):
    gate = Gate()

    async def member(_request):
        await gate()
        return "done after all"

    cluster = start(crew(lead_of(handoff("a"), then=said), {"a": spec("a", member)}))
    first = await cluster.worker("a")
    coordinator = await cluster.coordinator()
    await cluster.submit()
    driving = coordinator.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    gate.open.set()
    await first.kill()
    second = await cluster.worker("a")
    second.store.breaks.append("reclaim_expired")
    await until(lambda: not second.store.breaks)
    await cluster.backend.expire_leases()
    await cluster.store.renew(coordinator.host._leases(), 10**12)
    outcome = await asyncio.wait_for(driving, 10)
    assert outcome["result"].endswith("done after all")


@pytest.mark.parametrize("who", ["member", "lead"])
@pytest.mark.parametrize("turn_number", [1, 2, 3, 4])
async def test_death_in_any_turn_costs_that_turn_only(start, who, turn_number):
    """No finished model turn and no finished tool call is run again, whoever dies and whenever."""
    gate, ran, asked = Gate(), [], []

    def step(value):
        ran.append(value["n"])
        return f"step {value['n']}"

    async def worker(request):
        done = [r for m in request.messages if not isinstance(m["content"], str) for r in m["content"]]
        number = 1 + sum(block["type"] == "tool_result" for block in done)
        asked.append(number)
        if number == turn_number and not gate.open.is_set():
            await gate()
        return "all done" if number == 4 else turn(tool_use("step", {"n": number}))

    tools = [tool("step", "Step.", {"type": "object"}, step)]
    agent = spec(who, worker, tools=tools)
    cluster = start(crew(agent, {}) if who == "lead" else crew(lead_of(handoff("a"), then=said), {"a": agent}))
    first = await cluster.coordinator()
    doomed = first if who == "lead" else await cluster.worker("a")
    await cluster.submit()
    driving = first.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    await doomed.kill()
    await cluster.backend.expire_leases()
    if who == "lead":
        second = await cluster.coordinator()
        await cluster.store.reclaim_expired(second.host.process_id, 60_000)
        driving = second.drive("run")
    else:
        await cluster.store.renew(first.host._leases(), 10**12)
        await cluster.store.reclaim_expired("reaper", 1, runs=False)
        await cluster.worker("a")
    gate.open.set()
    outcome = await asyncio.wait_for(driving, 10)
    assert outcome["result"].endswith("all done")
    assert ran == [1, 2, 3]
    assert sorted(asked) == sorted([1, 2, 3, 4, turn_number])


async def test_whoever_goes_on_after_a_crash_finds_the_files(start, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    gate = Gate()

    async def member(request):
        said_so_far = results(request)
        if not said_so_far:
            return turn(tool_use("Write", {"file_path": "notes.txt", "content": "kept"}))
        if "kept" in said_so_far[0]:
            return "found it"
        await gate()
        return turn(tool_use("Read", {"file_path": "notes.txt"}))

    from lattice import define_agent
    from lattice.testing import ScriptedModel

    worker = define_agent(name="a", model="scripted", model_client=ScriptedModel(member))
    cluster = start(crew(lead_of(handoff("a"), then=said), {"a": worker}))
    first, coordinator = await cluster.worker("a"), await cluster.coordinator()
    await cluster.submit()
    driving = coordinator.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    await first.kill()
    await cluster.backend.expire_leases()
    await cluster.store.renew(coordinator.host._leases(), 10**12)
    await cluster.store.reclaim_expired("reaper", 1, runs=False)
    gate.open.set()
    await cluster.worker("a")
    assert (await asyncio.wait_for(driving, 10))["result"].endswith("found it")


async def test_a_tool_call_that_was_under_way_is_answered_honestly(start):
    gate = Gate()

    async def charge(value):
        await gate()
        return "charged"

    worker = spec(
        "a",
        lambda request: f"told: {results(request)[0]}" if results(request) else turn(tool_use("charge", {})),
        tools=[tool("charge", "Charge.", {"type": "object"}, charge)],
    )
    cluster = start(crew(lead_of(handoff("a"), then=said), {"a": worker}))
    first, coordinator = await cluster.worker("a"), await cluster.coordinator()
    await cluster.submit()
    driving = coordinator.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    await first.kill()
    await cluster.backend.expire_leases()
    await cluster.store.renew(coordinator.host._leases(), 10**12)
    await cluster.store.reclaim_expired("reaper", 1, runs=False)
    await cluster.worker("a")
    outcome = await asyncio.wait_for(driving, 5)
    assert "its outcome is unknown" in outcome["result"]
    assert gate.visits == 1


async def test_a_worker_that_lost_its_lease_calls_no_model_any_more(start):
    """A worker that was stopped past its lease finds out before the next model or tool call."""
    gate, calls = Gate(), []

    async def look(value):
        await gate()
        return "seen"

    def member(request):
        calls.append(request)
        return "late" if results(request) else turn(tool_use("look", {}))

    worker = spec("a", member, tools=[tool("look", "Look.", {"type": "object"}, look)])
    cluster = start(crew(lead_of(handoff("a")), {"a": worker}))
    process, coordinator = await cluster.worker("a"), await cluster.coordinator()
    await cluster.submit()
    coordinator.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    (held,) = process.host._held.values()
    await cluster.backend.expire_leases()
    await cluster.store.reclaim_expired("reaper", 1, runs=False)
    (claim,) = await cluster.store.claim("a", "another", 60_000)
    held.valid_until = 0
    gate.open.set()
    await until(lambda: not process.worker.busy)
    assert len(calls) == 1
    assert claim.attempt == 2
    assert (await cluster.store.get(claim.item.message.id)).status == "processing"


# --- leaving ----------------------------------------------------------------------------------------------------


async def test_a_coordinator_that_leaves_hands_its_runs_over_at_once(start):
    gate = Gate()

    async def member(request):
        await gate()
        return "the report"

    lead = spec("lead", lead_of(handoff("a"), then=said))
    cluster = start(crew(lead, {"a": member}))
    first, second = await cluster.coordinator(), await cluster.coordinator()
    await cluster.workers()
    await cluster.submit()
    driving = first.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    await first.coordinator.hand_over()
    with pytest.raises(RunParkedError):
        await driving
    with pytest.raises(RunParkedError):
        await first.coordinator.drive("run")
    going_on = second.drive("run")
    await until(lambda: second.coordinator.busy)
    gate.open.set()
    assert (await asyncio.wait_for(going_on, 5))["result"].endswith("the report")
    assert model_of(lead).calls == 2


async def test_a_worker_that_leaves_finishes_what_fits_and_hands_back_the_rest(start):
    gate = Gate()

    async def member(request):
        if said(request).endswith("long"):
            await gate()
        return f"did {said(request).rpartition(chr(10))[2]}"

    cluster = start(crew(lead_of(handoff("a", "long"), handoff("a", "short"), then=said), {"a": member}))
    first, coordinator = await cluster.worker("a"), await cluster.coordinator()
    await cluster.submit()
    driving = coordinator.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    await first.worker.drain(0)
    assert [m.status for m in await cluster.store.inbox("a", "all")] == ["pending", "pending"]
    gate.open.set()
    await cluster.worker("a")
    outcome = await asyncio.wait_for(driving, 5)
    assert outcome["result"].index("did long") < outcome["result"].index("did short")


async def test_a_burst_ends_when_the_mailbox_is_empty(start):
    cluster = start(crew(lead_of(handoff("a"), handoff("a")), {"a": echo("a")}))
    coordinator = await cluster.coordinator()
    await cluster.submit()
    driving = coordinator.drive("run")

    async def sent():
        return len(await cluster.store.inbox("a", "all")) == 2

    await until(sent)
    from tests.cluster import Process

    process = Process(cluster.backend, cluster.team, "burst", member="a")
    await process.host.start()
    await asyncio.wait_for(process.worker.run(burst=True), 5)
    await process.host.stop()
    assert process.worker.settled == 2
    assert (await asyncio.wait_for(driving, 5))["status"] == "succeeded"


# --- asking and nesting -----------------------------------------------------------------------------------------


async def test_members_ask_each_other_without_holding_a_place(start):
    """Every worker has one place; a chain of questions through all of them still ends."""
    from lattice import agent_tool

    helper = spec("helper", echo("helper"))

    def asker(name, whom):
        return lambda request: f"{name} heard {results(request)[0]}" if results(request) else turn(ask(whom, "deep"))

    tools = [agent_tool("helper", helper, target_mailbox_id=f"{TEAM}::helper")]
    middle = spec("middle", asker("middle", "helper"), tools=tools)
    cluster = start(
        crew(lead_of(handoff("middle"), handoff("middle"), then=said), {"middle": middle, "helper": helper})
    )
    outcome = await cluster.run()
    assert outcome["result"].count("middle heard helper did deep") == 2


async def test_a_member_hands_off_and_is_resumed_with_the_reports(start):
    """team:HND-15 team:W-32"""
    from lattice import agent_tool

    helper = spec("helper", echo("helper"))
    tools = [agent_tool("helper", helper, target_mailbox_id=f"{TEAM}::helper")]
    middle = spec("middle", [turn(handoff("helper", "x"), handoff("helper", "y")), said], tools=tools)
    cluster = start(crew(lead_of(handoff("middle"), then=said), {"middle": middle, "helper": helper}))
    outcome = await cluster.run()
    assert "mailbox: crew::middle" in outcome["result"]
    assert "helper did x" in outcome["result"]
    outer = (await cluster.store.inbox("middle", "all"))[0]
    assert {m.parent_work_item_id for m in await cluster.store.inbox("helper", "all")} == {outer.work_item_id}


async def test_a_member_that_dies_while_it_waits_for_its_own_handoffs(start):
    from lattice import agent_tool

    gate = Gate()

    async def slow(request):
        await gate()
        return "deep report"

    helper = spec("helper", slow)
    tools = [agent_tool("helper", helper, target_mailbox_id=f"{TEAM}::helper")]
    middle = spec("middle", [turn(handoff("helper")), said], tools=tools)
    cluster = start(crew(lead_of(handoff("middle"), then=said), {"middle": middle, "helper": helper}))
    first, helping, coordinator = (
        await cluster.worker("middle"),
        await cluster.worker("helper"),
        await cluster.coordinator(),
    )
    await cluster.submit()
    driving = coordinator.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    await first.kill()
    await cluster.backend.expire_leases()
    await cluster.store.renew([*coordinator.host._leases(), *helping.host._leases()], 10**12)
    await cluster.store.reclaim_expired("reaper", 1, runs=False)
    second = await cluster.worker("middle")
    await until(lambda: second.worker.busy)
    gate.open.set()
    outcome = await asyncio.wait_for(driving, 5)
    assert "deep report" in outcome["result"]
    assert model_of(middle).calls == 2
    assert len(await cluster.store.inbox("helper", "all")) == 1


async def test_whoever_gives_up_waiting_cancels_what_it_waited_for(start):
    """team:W-41"""
    from lattice import agent_tool

    stopped = asyncio.Event()

    async def slow(request):
        try:
            await request.signal.wait()
        finally:
            stopped.set()

    helper = spec("helper", slow)
    tools = [agent_tool("helper", helper, target_mailbox_id=f"{TEAM}::helper")]
    middle = team_member(
        name="middle", role="executor", agent=spec("middle", [handoff("helper"), "never"], tools=tools), timeout_ms=300
    )
    cluster = start(crew(lead_of(handoff("middle"), then=said), {"middle": middle, "helper": helper}))
    outcome = await cluster.run()
    assert "Error code: request_timeout" in outcome["result"]
    await asyncio.wait_for(stopped.wait(), 5)
    assert [m.status for m in await cluster.store.inbox("helper", "all")] == ["cancelled"]


async def test_a_lead_of_the_hosts_own_kind_gets_the_reports_after_a_crash(start):
    gate, prompts = Gate(), []

    class Lead:
        async def query(self, prompt, runtime, **options):
            prompts.append(prompt)
            if not prompt.startswith("Team"):
                request = {"name": "a", "agent": None, "task": "x", "wait": "accepted", "targetMailboxId": f"{TEAM}::a"}
                await runtime.delegate(request)
            yield {"type": "result", "is_error": False, "result": prompt}

    async def member(request):
        await gate()
        return "the report"

    cluster = start(crew(Lead(), {"a": member}))
    first = await cluster.coordinator()
    await cluster.workers()
    await cluster.submit()
    first.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    await first.kill()
    second = await cluster.coordinator()
    assert await _expire_run(cluster) == ["run"]
    gate.open.set()
    outcome = await asyncio.wait_for(second.drive("run"), 5)
    assert outcome["result"].endswith("the report")
    assert [prompt[:4] for prompt in prompts] == ["go", "Team"]


async def test_a_circle_of_questions_is_an_error_and_no_deadlock(start):
    from lattice import agent_tool

    b = spec("b", lambda request: results(request)[0] if results(request) else turn(ask("a")))
    a = spec("a", lambda request: results(request)[0] if results(request) else turn(ask("b"))).spawn()
    a.add_tools([agent_tool("b", b, target_mailbox_id=f"{TEAM}::b")])
    b = spec(
        "b",
        lambda request: results(request)[0] if results(request) else turn(ask("a")),
        tools=[agent_tool("a", a, target_mailbox_id=f"{TEAM}::a")],
    )
    cluster = start(crew(lead_of(ask("a"), then=lambda r: results(r)[0]), {"a": a, "b": b}))
    outcome = await cluster.run()
    assert "would never end" in outcome["result"]


async def test_two_runs_do_not_see_each_others_conversations(start):
    lengths = []

    def member(request):
        lengths.append(len(request.messages))
        return f"did {said(request).rpartition(chr(10))[2]}"

    live = spec("a", member).spawn()

    def lead(request):
        return said(request) if said(request).startswith("Team") else turn(handoff("a", said(request)))

    cluster = start(crew(spec("lead", lead).spawn(), {"a": live}))
    first = await cluster.run("one", "r1")
    second = await cluster.run("two", "r2")
    assert first["result"].endswith("did one")
    assert second["result"].endswith("did two")
    assert lengths == [1, 1]


async def test_a_conversation_for_ever_goes_on_over_runs_and_is_strictly_serial(start):
    lengths = []

    def member(request):
        lengths.append(len(request.messages))
        return "ok"

    lasting = team_member(name="a", role="executor", agent=spec("a", member), conversation="member")
    lead = [turn(handoff("a"), handoff("a")), "x"] * 2
    cluster = start(crew(spec("lead", lead), {"a": lasting}))
    await cluster.worker("a", concurrency=5)
    await cluster.run(run_id="r1")
    await cluster.run(run_id="r2")
    assert lengths == [1, 3, 5, 7]


# --- endings ----------------------------------------------------------------------------------------------------


async def test_cancelling_a_run_reaches_the_member_and_the_lead(start):
    started, stopped = asyncio.Event(), asyncio.Event()

    async def member(request):
        started.set()
        try:
            await request.signal.wait()
        finally:
            stopped.set()
        raise AbortError

    cluster = start(crew(lead_of(handoff("a"), handoff("b")), {"a": member, "b": echo("b")}))
    coordinator, worker = await cluster.coordinator(), await cluster.worker("a")
    await cluster.submit()
    driving = coordinator.drive("run")
    await asyncio.wait_for(started.wait(), 5)
    assert await cluster.store.cancel_run("run", "enough") == "cancelled"
    await asyncio.wait_for(stopped.wait(), 5)
    outcome = await asyncio.wait_for(driving, 5)
    assert outcome["status"] == "cancelled"
    await until(lambda: not worker.worker.busy)
    for name in ("a", "b"):
        assert [m.status for m in await cluster.store.inbox(name, "all")] == ["cancelled"]


async def test_a_members_own_abort_closes_its_item_and_the_run_goes_on(start):
    """team:W-14"""
    cluster = start(crew(lead_of(handoff("a"), handoff("b"), then=said), {"a": [AbortError("mine")], "b": echo("b")}))
    outcome = await cluster.run()
    assert outcome["status"] == "succeeded"
    assert "status: cancelled" in outcome["result"]
    assert outcome["result"].endswith("b did work")


async def test_what_a_member_replies_by_tool_is_its_only_report(start):
    """team:W-21 team:HND-22"""

    def member(request):
        if results(request):
            return "closing words"
        message_id = said(request).split("message_id: ")[1].splitlines()[0]
        return turn(tool_use("team_reply", {"message_id": message_id, "content": "the reply"}))

    cluster = start(crew(lead_of(handoff("a"), then=said), {"a": member}))
    outcome = await cluster.run()
    assert outcome["result"].endswith("the reply")
    assert len(await cluster.store.inbox("manager", "all")) == 1


async def test_a_work_item_has_a_deadline(start):
    """team:W-35 team:W-13"""

    async def member(request):
        await request.signal.wait()
        raise AbortError

    definition = team_member(name="a", role="executor", agent=spec("a", member), timeout_ms=50)
    outcome = await start(crew(lead_of(handoff("a"), then=said), {"a": definition})).run()
    assert "Error code: request_timeout" in outcome["result"]


async def test_a_report_that_is_too_large_goes_back_to_its_author(start):
    def member(request):
        return "short" if "the limit is" in said(request) else "x" * 3_000

    team = crew(lead_of(handoff("a"), then=said), {"a": member})
    outcome = await start(team, max_message_bytes=2_000).run()
    assert outcome["result"].endswith("short")


async def test_a_full_mailbox_is_a_failure_report_and_nothing_is_lost(start):
    def lead(request):
        return said(request) if said(request).startswith("Team") else turn(handoff("a", "1"), handoff("a", "2"))

    cluster = start(crew(lead, {"a": echo("a")}), max_mailbox_depth=1)
    coordinator = await cluster.coordinator()
    await cluster.submit()
    outcome = await asyncio.wait_for(coordinator.drive("run"), 5)
    assert outcome["result"].count("Error code: mailbox_full") == 2
    assert await cluster.store.inbox("a", "all") == []
    events = [brief(event) for event in await cluster.events()]
    assert "user" in events, "what was buffered for the handoff is written all the same"
    assert len(coordinator.host._waits) == 0


async def test_a_question_to_a_full_mailbox_is_a_tool_error(start):
    def lead(request):
        return results(request)[0] if results(request) else turn(ask("a"))

    cluster = start(crew(lead, {"a": echo("a")}), max_mailbox_depth=1)
    from lattice.mailbox import TeamMessage

    await cluster.store.send(TeamMessage(id="m", from_="manager", to=f"{TEAM}::a", content="x"), member="a")
    coordinator = await cluster.coordinator()
    await cluster.submit()
    outcome = await asyncio.wait_for(coordinator.drive("run"), 5)
    assert "the mailbox of a is full" in outcome["result"]
    assert len(coordinator.host._waits) == 0


async def test_a_task_that_is_too_large_is_an_error_to_its_author(start):
    team = crew(lead_of(handoff("a", "x" * 3_000), then=lambda r: results(r)[0]), {"a": echo("a")})
    outcome = await start(team, max_message_bytes=2_000).run()
    assert "has 3000 bytes, the limit is 2000" in outcome["result"]
    assert "Write it to a file" in outcome["result"]


@pytest.mark.parametrize("size", [10, 50_000])
async def test_a_waiting_lead_with_a_long_conversation_is_not_kept_in_memory(start, monkeypatch, size):
    import gc
    import weakref

    gate, sessions = Gate(), []

    async def member(request):
        await gate()
        return "report"

    def lead(request):
        return f"{len(request.messages)} messages" if len(request.messages) > 1 else turn(handoff("a"))

    template = spec("lead", lead)
    spawn = type(template).spawn

    def watched(self, **overrides):
        session = spawn(self, **overrides)
        if self is template:
            sessions.append(weakref.ref(session))
        return session

    monkeypatch.setattr(type(template), "spawn", watched)
    cluster = start(crew(template, {"a": member}))
    await cluster.workers()
    coordinator = await cluster.coordinator()
    await cluster.submit("x" * size)
    driving = coordinator.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    gc.collect()
    alive = [session() is not None for session in sessions]
    gate.open.set()
    outcome = await asyncio.wait_for(driving, 5)
    assert outcome["result"] == "4 messages"
    assert (alive, len(sessions)) == (([True], 1) if size == 10 else ([False], 2))


async def test_a_lead_that_only_answers_writes_once(start):
    cluster = start(crew(["hello"], {}))
    coordinator = await cluster.coordinator()
    assert (await cluster.run())["result"] == "hello"
    assert coordinator.store.calls.count("finish_run") == 1
    assert not {"append", "load", "get_run", "hand_off"} & set(coordinator.store.calls)


async def test_agents_behind_the_leads_own_tools_are_served_by_coordinators(start):
    """team:DLG-05 team:RUN-02"""
    from lattice import agent_tool, delegate_tool

    helper, other = spec("helper", echo("helper")), spec("other", echo("other"))
    lead = spec(
        "lead",
        [turn(ask("helper", "one"), handoff("helper", "two"), tool_use("other", {"task": "three"})), said],
        tools=[agent_tool("helper", helper), delegate_tool("other", "Other.", other, wait="accepted")],
    )
    cluster = start(crew(lead, {}))
    outcome = await cluster.run()
    assert outcome["result"].index("helper did two") < outcome["result"].index("other did three")
    started = [brief(event) for event in await cluster.events()]
    assert started.count("started helper") == 2
    assert started.count("started other") == 1


async def test_agents_behind_a_members_own_tools_are_served_by_its_workers(start):
    """team:HND-15"""
    from lattice import agent_tool

    helper = spec("helper", echo("helper"))
    member = spec("a", [turn(handoff("helper", "x")), said], tools=[agent_tool("helper", helper)])
    outcome = await start(crew(lead_of(handoff("a"), then=said), {"a": member})).run()
    assert "helper did x" in outcome["result"]


async def test_an_asked_delegate_survives_the_death_of_its_coordinator(start):
    from lattice import agent_tool

    gate = Gate()

    async def slow(request):
        await gate()
        return "from the helper"

    helper = spec("helper", slow)
    lead = spec("lead", [ask("helper"), lambda r: results(r)[0]], tools=[agent_tool("helper", helper)])
    cluster = start(crew(lead, {}))
    first = await cluster.coordinator()
    await cluster.submit()
    first.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    await first.kill()
    second = await cluster.coordinator()
    await cluster.backend.expire_leases()
    await cluster.store.reclaim_expired(second.host.process_id, 60_000)
    gate.open.set()
    outcome = await asyncio.wait_for(second.drive("run"), 10)
    assert outcome["result"] == "from the helper"
    assert model_of(lead).calls == 2


# --- nested teams -------------------------------------------------------------------------------------------------


def nested(inner_lead, inner_members, lead=None):
    inner = team_of(inner_lead, inner_members, name="engineering")
    return crew(lead or lead_of(handoff("engineering", "ship"), then=said), {"engineering": inner})


async def test_a_nested_team_is_driven_by_the_worker_of_its_mailbox(start):
    """team:NEST-01 team:NEST-02 team:NEST-03 team:NEST-06"""
    cluster = start(nested(lead_of(handoff("backend", "build"), then=said), {"backend": echo("backend")}))
    outcome = await cluster.run()
    assert outcome["status"] == "succeeded"
    assert outcome["result"].endswith("backend did build")
    briefs = [brief(event) for event in await cluster.events() if event["type"] != "stream_event"]
    assert briefs.count("started backend") == 1
    assert briefs.index("started engineering") < briefs.index("sent engineering::backend")
    assert briefs.index("finished backend") < briefs.index("finished engineering")
    inner_lead = [e for e in await cluster.events() if brief(e) == "engineering:result"]
    assert inner_lead, "the inner lead speaks as the outer member"
    assert await cluster.store.inbox("backend", "all") == [], "the inner team has its own key space"


async def test_the_events_of_a_nested_team_are_those_of_one_process(start):
    def make():
        return nested(lead_of(ask("backend"), then="built"), {"backend": echo("backend")})

    cluster = start(make())
    await cluster.run()
    stored = [brief(event) for event in await cluster.events() if event["type"] != "stream_event"]
    told = [brief(event) for event in await collect(make().query("go", stream=False))]
    assert stored == [*told, "run_ended"]


async def test_a_nested_team_counts_into_the_total(start):
    usage = {"input_tokens": 1, "output_tokens": 1}
    team = nested(
        [turn(handoff("b"), usage=usage), turn("x", usage=usage)],
        {"b": [turn("y", usage=usage)]},
        lead=[turn(handoff("engineering"), usage=usage), turn("z", usage=usage)],
    )
    assert (await start(team).run())["usage"] == {"input_tokens": 5, "output_tokens": 5}


async def test_a_nested_team_goes_no_deeper_than_the_outermost_allows(start):
    """team:W-18"""
    inner = team_of(lead_of(ask("b"), then=lambda r: results(r)[0]), {"b": echo("b")}, name="inner")
    team = crew(lead_of(handoff("inner"), then=said), {"inner": inner}, runner={"max_delegate_depth": 1})
    assert "Reached maximum delegate depth (1)" in (await start(team).run())["result"]


async def test_a_failed_inner_lead_fails_the_outer_item(start):
    """team:NEST-07"""
    outcome = await start(nested([APIError("no credit")], {})).run()
    assert "Error code: api_error\nReason: no credit" in outcome["result"]


async def test_a_worker_that_dies_in_the_middle_of_a_nested_run(start):
    gate = Gate()

    async def slow(request):
        await gate()
        return "deep work"

    inner_lead = spec("inner", lead_of(handoff("backend"), then=said))
    backend_agent = spec("backend", slow)
    cluster = start(nested(inner_lead, {"backend": backend_agent}))
    first, coordinator = await cluster.worker("engineering"), await cluster.coordinator()
    await cluster.submit()
    driving = coordinator.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    await first.kill()
    await cluster.backend.expire_leases()
    await cluster.store.renew(coordinator.host._leases(), 10**12)
    await cluster.store.reclaim_expired("reaper", 1, runs=False)
    gate.open.set()
    await cluster.worker("engineering")
    outcome = await asyncio.wait_for(driving, 10)
    assert outcome["result"].endswith("deep work")
    assert model_of(inner_lead).calls == 2, "the inner lead's first turn is not asked again"
    briefs = [brief(event) for event in await cluster.events()]
    assert briefs.count("sent engineering::backend") == 1, "forwarded once"


async def test_cancelling_reaches_into_a_nested_team(start):
    started, stopped = asyncio.Event(), asyncio.Event()

    async def member(request):
        started.set()
        try:
            await request.signal.wait()
        finally:
            stopped.set()

    cluster = start(nested(lead_of(handoff("backend")), {"backend": member}))
    await cluster.worker("engineering")
    coordinator = await cluster.coordinator()
    await cluster.submit()
    driving = coordinator.drive("run")
    await asyncio.wait_for(started.wait(), 5)
    await cluster.store.cancel_run("run", "enough")
    await asyncio.wait_for(stopped.wait(), 5)
    assert (await asyncio.wait_for(driving, 5))["status"] == "cancelled"


async def test_a_leaving_worker_hands_a_nested_run_over(start):
    gate = Gate()

    async def slow(request):
        await gate()
        return "deep work"

    inner_lead = spec("inner", lead_of(handoff("backend"), then=said))
    cluster = start(nested(inner_lead, {"backend": spec("backend", slow)}))
    first, coordinator = await cluster.worker("engineering"), await cluster.coordinator()
    await cluster.submit()
    driving = coordinator.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    await asyncio.wait_for(first.worker.drain(0), 5)
    gate.open.set()
    await cluster.worker("engineering")
    assert (await asyncio.wait_for(driving, 10))["result"].endswith("deep work")
    assert model_of(inner_lead).calls == 2


async def test_a_draining_worker_lets_a_nested_run_end_if_it_does_so_in_time(start):
    gate = Gate()

    async def slow(request):
        await gate()
        return "deep work"

    cluster = start(nested(lead_of(handoff("backend"), then=said), {"backend": spec("backend", slow)}))
    worker, coordinator = await cluster.worker("engineering"), await cluster.coordinator()
    await cluster.submit()
    driving = coordinator.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    draining = asyncio.create_task(worker.worker.drain(10))
    await asyncio.sleep(0)
    gate.open.set()
    assert (await asyncio.wait_for(driving, 5))["result"].endswith("deep work")
    await asyncio.wait_for(draining, 5)
    assert worker.worker.settled == 1


async def test_teams_nest_three_deep(start):
    innermost = team_of(lead_of(ask("d"), then=lambda r: results(r)[0]), {"d": echo("d")}, name="c")
    middle = team_of(lead_of(ask("c"), then=lambda r: results(r)[0]), {"c": innermost}, name="b")
    team = crew(lead_of(ask("b"), then=lambda r: results(r)[0]), {"b": middle})
    assert (await start(team).run())["result"] == "d did question"


# --- when the store is away ---------------------------------------------------------------------------------------


async def test_a_run_is_left_to_others_when_the_store_is_away(start):
    cluster = start(crew(["hello"], {}))
    process = await cluster.coordinator()
    await cluster.submit()
    process.store.dead = True
    with pytest.raises(RunParkedError):
        await process.coordinator.drive("run")
    process.store.dead = False
    assert (await cluster.run(run_id="other"))["result"] == "hello"


async def test_a_work_item_goes_on_elsewhere_when_a_step_breaks(start):
    """The step may or may not have been written: what is stored decides."""
    calls = []

    def look(value):
        return "seen"

    def member(request):
        calls.append(len(request.messages))
        return "it was " + results(request)[0] if results(request) else turn(tool_use("look", {}))

    worker = spec("a", member, tools=[tool("look", "Look.", {"type": "object"}, look)])
    cluster = start(crew(lead_of(handoff("a"), then=said), {"a": worker}))
    process, coordinator = await cluster.worker("a"), await cluster.coordinator()
    process.store.breaks.append("append")
    await cluster.submit()
    outcome = await asyncio.wait_for(coordinator.drive("run"), 10)
    assert outcome["result"].endswith("it was seen")


async def test_work_given_back_on_the_way_to_its_end_is_told_to_have_ended_once(start):
    """A store that is slow just then keeps the end from being written, and the worker has to leave."""
    cluster = start(crew(lead_of(handoff("a"), then=said), {"a": spec("a", lambda request: answer(request))}))
    first, coordinator = await cluster.worker("a"), await cluster.coordinator()
    gate, append = Gate(), first.store.append

    async def answer(request):
        await gate.reached.wait()
        return "a did it"

    async def slow_append(*args):
        await gate()
        return await append(*args)

    first.store.append = slow_append
    await cluster.submit()
    driving = coordinator.drive("run")
    await asyncio.wait_for(gate.reached.wait(), 5)
    (recorder,) = first.worker._work._recorders
    await until(lambda: recorder.ending)
    leaving = asyncio.create_task(first.worker.stop())
    await until(lambda: first.worker._work.parking)
    gate.open.set()
    await leaving
    await cluster.worker("a")
    assert (await asyncio.wait_for(driving, 10))["result"].endswith("a did it")
    briefs = [brief(event) for event in await cluster.events()]
    ends = ("finished a", f"done {TEAM}::a", "replied manager")
    assert [briefs.count(end) for end in ends] == [1, 1, 1], briefs


async def test_a_settle_whose_reply_was_lost_is_repeated_and_counts_once(start):
    cluster = start(crew(lead_of(handoff("a"), then=said), {"a": echo("a")}))
    process, coordinator = await cluster.worker("a"), await cluster.coordinator()
    process.store.loses_reply.append("settle")
    await cluster.submit()
    outcome = await asyncio.wait_for(coordinator.drive("run"), 10)
    assert outcome["result"].count("a did work") == 1
    await until(lambda: process.store.calls.count("settle") == 2)
    await until(lambda: not process.worker.busy)
    briefs = [brief(event) for event in await cluster.events()]
    assert briefs.count("finished a") == 1
