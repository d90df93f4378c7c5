import asyncio
import json
from types import SimpleNamespace

import pytest
from pydantic import BaseModel

from lattice import AbortController, agent_tool, create_bare_agent, tool
from lattice.errors import APIError, MaxTurnsError, OptionError
from lattice.team.delegation import DelegateResult
from lattice.testing import ScriptedModel, tool_use, turn
from tests.teams import ask, handoff, model_of, results, said, spec, team_of


class Findings(BaseModel):
    files: list[str]
    note: str


class SameFindings(BaseModel):
    """Another class that promises the same."""

    files: list[str]
    note: str


SameFindings.__name__ = "Findings"
SameFindings.__doc__ = None
PAYLOAD = {"files": ["b", "a"], "note": "ü"}


def submitter(payload=PAYLOAD, **options):
    return spec("child", [tool_use("submit_output", payload)], output_schema=Findings, **options)


async def call(definition, value, **options):
    """Let a supervisor make one call; returns what its model was shown, and the events."""
    seen = []

    def reply(request):
        if results(request):
            seen.append(request.messages[-1]["content"][0])
            return "end"
        return tool_use(definition.name, value)

    supervisor = create_bare_agent(model="m", model_client=ScriptedModel(reply), tools=[definition])
    result = await supervisor.prompt("go", **options)
    return (seen or [None])[0], result


# --- construction -------------------------------------------------------------------------------------------------


def test_it_is_an_ordinary_tool_of_its_own_kind():
    """agent:AT-01 agent:AT-02 team:AGT-01 team:AGT-02 team:AGT-04 team:AGT-05"""
    definition = agent_tool("explore", spec("child", ["x"]))
    assert definition.kind == "agent_tool"
    schema = definition.json_schema
    assert list(schema["properties"]) == ["mode", "task", "expectedOutput", "acceptanceCriteria", "workspaceGrants"]
    assert schema["required"] == ["mode", "task"]
    assert schema["properties"]["mode"]["enum"] == ["ask", "handoff", "observe"]
    grant = schema["properties"]["workspaceGrants"]["items"]
    assert list(grant["properties"]) == ["root", "access", "reason", "expiresAt"]
    assert grant["properties"]["access"]["items"]["enum"] == ["write"]


@pytest.mark.parametrize(("name", "cleaned"), [("a b//c", "a_b_c"), ("", "mcp_tool"), ("x-1_y", "x-1_y")])
def test_names_are_cleaned(name, cleaned):
    """agent:AT-03 team:AGT-03"""
    assert agent_tool(name, spec("child", ["x"])).name == cleaned


def test_the_description_says_what_the_target_remembers():
    """agent:AT-08 agent:AT-09 team:AGT-08 team:SPEC-10"""
    template = agent_tool("t", spec("child", ["x"]), description="Look around.").description
    live = agent_tool("t", spec("child", ["x"]).spawn()).description
    assert template.startswith("Look around.\n\n")
    assert "fresh session with no memory of previous calls" in template
    assert "long-lived session that retains conversation history" in live
    assert "structured output" not in template


def test_the_description_announces_structured_output():
    """agent:AT-09 team:AGT-09"""
    text = agent_tool("t", submitter()).description
    assert text.endswith("Returns the target's validated structured output as JSON.")


def test_typed_delegation_speaks_of_no_modes():
    """agent:AT-10 agent:W-35"""
    definition = agent_tool("t", spec("child", ["x"]), description="Look.", input_schema=Findings, map_input=str)
    assert definition.description == (
        "Look.\n\nEach call starts a fresh session with no memory of previous calls, so make every task self-contained."
    )


def test_unknown_options_are_refused_with_the_cleaned_name():
    """agent:OPT-05 agent:OPT-06 team:AGT-10"""
    with pytest.raises(OptionError, match=r'agentTool\("a_b"\): unknown option "nope"'):
        agent_tool("a b", spec("child", ["x"]), nope=1)


def test_metadata_is_passed_through():
    """team:AGT-13"""
    assert agent_tool("t", spec("child", ["x"]), {"metadata": {"v": 1}}).metadata == {"v": 1}
    assert agent_tool("t", spec("child", ["x"])).metadata is None


def test_the_target_must_be_an_agent():
    with pytest.raises(OptionError, match="the target must be"):
        agent_tool("t", object())


def test_typed_delegation_needs_both_halves():
    """agent:AT-28 team:OUT-13"""
    with pytest.raises(OptionError, match="requires mapInput"):
        agent_tool("t", spec("child", ["x"]), input_schema=Findings)
    with pytest.raises(OptionError, match="mapInput requires inputSchema"):
        agent_tool("t", spec("child", ["x"]), map_input=str)


def test_an_explicit_schema_must_promise_what_the_target_promises():
    """agent:AT-18 agent:AT-19 team:OUT-06 team:OUT-07"""

    class Other(BaseModel):
        different: int

    agent_tool("t", submitter(), output_schema=Findings)
    agent_tool("t", submitter(), output_schema=SameFindings)
    agent_tool("t", submitter().spawn(), output_schema=Findings)
    with pytest.raises(OptionError, match="does not match the target's declared outputSchema"):
        agent_tool("t", submitter(), output_schema=Other)
    agent_tool("t", spec("child", ["x"]), output_schema=Other)


def test_the_order_of_a_schemas_properties_does_not_matter():
    """agent:AT-20"""
    one = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    two = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "string"}}}
    agent_tool("t", spec("child", ["x"], output_schema=one), output_schema=two)


# --- asking without a runtime -------------------------------------------------------------------------------------


async def test_an_ask_returns_the_childs_answer():
    """agent:AT-04 team:ASK-01"""
    child = spec("child", lambda request: f"heard: {said(request)}")
    block, result = await call(
        agent_tool("t", child), {"mode": "ask", "task": "look", "expectedOutput": "a list", "acceptanceCriteria": ["x"]}
    )
    assert block == {
        "type": "tool_result",
        "tool_use_id": block["tool_use_id"],
        "content": "heard: look\n\nExpected output:\na list\n\nAcceptance criteria:\n- x",
    }
    assert result.result == "end"


async def test_the_child_gets_the_signal_and_the_context():
    """agent:AT-05 team:ASK-02"""
    got = []

    def note(value, context):
        got.append((context.context, context.agent_runtime))
        return "ok"

    child = spec(
        "child",
        lambda request: "x" if results(request) else tool_use("note", {}),
        tools=[tool("note", "Note.", {"type": "object"}, note)],
    )
    await call(agent_tool("t", child), {"mode": "ask", "task": "x"}, context={"tenant": 7})
    assert got == [({"tenant": 7}, None)]


SPENT = {"input_tokens": 10, "output_tokens": 2}


class Rows:
    """A tracer that keeps what it is told."""

    def __init__(self):
        self.events = []

    def on_event(self, event):
        self.events.append(event)


@pytest.mark.parametrize("own", [False, True])
async def test_a_child_belongs_to_the_query_that_asked(own):
    """agent:W-34 agent:LATER-05 team:TRC-14 team:ASK-02"""
    rows, childs = Rows(), Rows()
    child = spec("child", [turn("found", usage=SPENT)], tracer=childs if own else None)
    supervisor = create_bare_agent(
        model="m",
        model_client=ScriptedModel(
            [turn(tool_use("t", {"mode": "ask", "task": "x"}), usage=SPENT), turn("ok", usage=SPENT)]
        ),
        tools=[agent_tool("t", child)],
        tracer=rows,
    )
    result = await supervisor.prompt("go")
    assert result.usage == {"input_tokens": 20, "output_tokens": 4}
    assert result.total_usage == {"input_tokens": 30, "output_tokens": 6}
    top = rows.events[0].run_id
    below = [event for event in (childs if own else rows).events if event.run_id != top]
    assert [event.type for event in below][0] == "run_start"
    assert {(event.parent_run_id, event.session_id) for event in below} == {(top, supervisor.session_id)}


async def test_a_query_that_asks_nobody_has_no_total_of_its_own():
    agent = create_bare_agent(model="m", model_client=ScriptedModel([turn("hi", usage=SPENT)]))
    assert (await agent.prompt("go")).total_usage is None


class Runtime:
    """Writes down what it is asked to delegate."""

    source = {"kind": "root", "name": "lead"}
    permissions = None
    tools = ()

    def __init__(self, **result):
        self.requests = []
        self.result = result

    async def delegate(self, request):
        self.requests.append(request)
        message = SimpleNamespace(id="m1", thread_id="t1", to="child", work_item_id=None)
        return DelegateResult(request=message, **self.result)


@pytest.mark.parametrize(("mode", "wait"), [("ask", "result"), ("handoff", "accepted")])
async def test_what_a_runtime_is_asked_and_answers(mode, wait):
    """agent:RT-05"""
    runtime = Runtime(status="completed" if mode == "ask" else "accepted", content="done")
    child = spec("child", ["never asked"])
    definition = agent_tool("t", child, target_mailbox_id="box")
    value = {"mode": mode, "task": "x", "workspaceGrants": [{"root": "/srv", "reason": "docs"}]}
    block, _ = await call(definition, value, runtime=runtime)
    (request,) = runtime.requests
    assert (request.name, request.agent, request.task, request.wait) == ("t", child, "x", wait)
    assert (request.target_mailbox_id, request.workspace_grants) == ("box", [{"root": "/srv", "reason": "docs"}])
    if mode == "ask":
        assert block["content"] == "done"
    else:
        assert json.loads(block["content"])["message_id"] == "m1"


async def test_templates_start_afresh_and_sessions_remember():
    """agent:AT-07 team:SPEC-08 team:SPEC-09"""
    lengths = []

    def reply(request):
        lengths.append(len(request.messages))
        return "x"

    for target, expected in ((spec("child", reply), [1, 1]), (spec("child", reply).spawn(), [1, 3])):
        lengths.clear()
        definition = agent_tool("t", target)
        await call(definition, {"mode": "ask", "task": "one"})
        await call(definition, {"mode": "ask", "task": "two"})
        assert lengths == expected


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"mode": "handoff", "task": "x"}, 'agentTool("t") mode=handoff requires an AgentRuntime'),
        (
            {"mode": "observe", "task": "x"},
            'agentTool("t") mode=observe is not supported. Available modes: ask, handoff.',
        ),
        (
            {"mode": "ask", "task": "x", "workspaceGrants": [{"root": "/tmp"}]},
            "workspaceGrants require an AgentRuntime",
        ),
        ({"mode": "observe", "task": "x", "workspaceGrants": [{"root": "/tmp"}]}, "mode=observe"),
        ({"task": "x"}, "mode"),
        ({"mode": "shout", "task": "x"}, "mode"),
        ({"mode": "ask"}, "task"),
        ({"mode": "ask", "task": "x", "workspaceGrants": [{"root": "/x", "access": ["read"]}]}, "write"),
    ],
)
async def test_what_cannot_be_done_is_an_error_for_the_model_and_spawns_nothing(value, text):
    """agent:AT-11 agent:AT-12 agent:AT-13 agent:AT-14 agent:W-23 team:ASK-06 team:ASK-07 team:ASK-08 team:AGT-06 team:GRT-13 team:W-37 team:SPEC-11"""
    spawned = []

    class Template:
        def spawn(self, **options):
            spawned.append(1)

    block, result = await call(agent_tool("t", Template()), value)
    assert block["is_error"] is True
    assert block["content"].startswith("Tool t failed: ")
    assert text in block["content"]
    assert spawned == []
    assert result.result == "end"


async def test_a_failing_child_fails_the_call_with_its_own_words():
    """agent:AT-15 agent:AT-25 team:ASK-03"""
    block, _ = await call(agent_tool("t", spec("child", [APIError("no credit")])), {"mode": "ask", "task": "x"})
    assert block["content"] == "Tool t failed: no credit"
    limited = spec("child", lambda request: tool_use("none", {}), max_turns=1)
    block, _ = await call(agent_tool("t", limited), {"mode": "ask", "task": "x"})
    assert block["content"] == "Tool t failed: Reached maximum number of turns (1)"


async def test_an_interrupted_child_is_an_empty_answer():
    """agent:AT-16 team:ASK-04"""
    box = []

    async def reply(request):
        box[0].interrupt()
        await request.signal.wait()

    box.append(spec("child", reply).spawn())
    block, _ = await call(agent_tool("t", box[0]), {"mode": "ask", "task": "x"})
    assert "is_error" not in block


async def test_a_busy_child_is_a_tool_error():
    """agent:AT-17 team:ASK-05"""
    gate = asyncio.Event()

    async def reply(request):
        await gate.wait()
        return "x"

    child = spec("child", reply).spawn()
    busy = asyncio.ensure_future(child.prompt("first"))
    await asyncio.sleep(0)
    block, _ = await call(agent_tool("t", child), {"mode": "ask", "task": "x"})
    assert "is already running a query" in block["content"]
    gate.set()
    await busy


async def test_an_abort_reaches_the_child_and_ends_the_supervisor():
    """team:ASK-10"""
    controller = AbortController()

    async def reply(request):
        controller.abort()
        await request.signal.wait()

    _, result = await call(
        agent_tool("t", spec("child", reply)), {"mode": "ask", "task": "x"}, signal=controller.signal
    )
    assert result.subtype == "error_abort"


# --- structured output --------------------------------------------------------------------------------------------


async def test_the_payload_is_the_result_as_compact_json():
    """agent:AT-22 team:OUT-01 team:OUT-02"""
    block, _ = await call(agent_tool("t", submitter()), {"mode": "ask", "task": "x"})
    assert block["content"] == '{"files":["b","a"],"note":"ü"}'


async def test_a_child_that_ends_without_submitting_is_invalid():
    """agent:AT-23 agent:AT-24 team:OUT-03 team:OUT-04"""
    child = spec("child", ["just prose"], output_schema=Findings)
    block, result = await call(agent_tool("t", child), {"mode": "ask", "task": "x"})
    assert block["is_error"] is True
    assert block["content"].startswith(
        'child_output_invalid: agentTool("t") target ended without calling submit_output'
    )
    assert result.result == "end"


def ending_tool(payload):
    return tool(
        "finish",
        "Finish.",
        {"type": "object"},
        lambda value: {"content": "text", "end_turn": True, "structured_result": payload},
    )


async def test_a_schema_of_the_parent_alone_is_applied():
    """agent:AT-24 agent:AT-27 team:OUT-09"""
    child = spec("child", [tool_use("finish", {})], tools=[ending_tool(PAYLOAD)])
    block, _ = await call(agent_tool("t", child, output_schema=Findings), {"mode": "ask", "task": "x"})
    assert json.loads(block["content"]) == PAYLOAD
    wrong = spec("child", [tool_use("finish", {})], tools=[ending_tool({"files": 3})])
    block, _ = await call(agent_tool("t", wrong, output_schema=Findings), {"mode": "ask", "task": "x"})
    assert block["content"].startswith("child_output_invalid:")
    assert "structured output failed outputSchema validation" in block["content"]


async def test_without_any_schema_a_payload_passes_through():
    """agent:AT-26 team:OUT-10"""
    child = spec("child", [tool_use("finish", {})], tools=[ending_tool({"any": [1, None]})])
    block, _ = await call(agent_tool("t", child), {"mode": "ask", "task": "x"})
    assert block["content"] == '{"any":[1,null]}'


async def test_a_hosts_own_agent_declares_nothing():
    """agent:AT-21 team:OUT-08"""

    class Host:
        output_schema = Findings

        def query(self, prompt, **options):
            raise NotImplementedError

        async def prompt(self, prompt, **options):
            return {"type": "result", "is_error": False, "result": "plain"}

    block, _ = await call(agent_tool("t", Host()), {"mode": "ask", "task": "x"})
    assert block["content"] == "plain"


# --- typed delegation ---------------------------------------------------------------------------------------------


async def test_typed_arguments_are_projected_into_the_prompt():
    """agent:AT-29 team:OUT-14 team:OUT-15"""
    child = spec("child", lambda request: said(request))
    definition = agent_tool("t", child, input_schema=Findings, map_input=lambda value: f"look at {value.files}")
    assert set(definition.json_schema["properties"]) == {"files", "note"}
    block, _ = await call(definition, PAYLOAD)
    assert block["content"] == "look at ['b', 'a']"
    block, _ = await call(definition, {"files": "no list"})
    assert block["content"].startswith("Tool t failed: ")
    assert model_of(child).calls == 1


async def test_blocks_go_to_a_direct_child_but_not_through_a_team():
    """agent:AT-30 team:OUT-16"""
    child = spec("child", lambda request: request.messages[-1]["content"][0]["text"])
    definition = agent_tool("t", child, input_schema=Findings, map_input=lambda value: [{"type": "text", "text": "b"}])
    block, _ = await call(definition, PAYLOAD)
    assert block["content"] == "b"
    lead = spec("lead", [tool_use("t", PAYLOAD), lambda request: results(request)[0]], tools=[definition])
    text = (await team_of(lead, {}).prompt("go")).result
    assert "mapInput must return a string when the tool runs inside a team runtime" in text


async def test_an_error_of_the_projection_is_a_tool_error():
    """agent:AT-30"""

    def broken(value):
        raise RuntimeError("no projection")

    definition = agent_tool("t", spec("child", ["x"]), input_schema=Findings, map_input=broken)
    block, _ = await call(definition, PAYLOAD)
    assert block["content"] == "Tool t failed: no projection"


# --- through a runtime --------------------------------------------------------------------------------------------


async def test_a_member_with_a_schema_answers_with_its_payload():
    team = team_of([ask("child"), lambda request: results(request)[0]], {"child": submitter()})
    assert json.loads((await team.prompt("go")).result) == PAYLOAD


async def test_every_failure_of_a_member_with_a_schema_is_child_output_invalid():
    """agent:AT-25 team:OUT-05"""
    child = spec("child", [MaxTurnsError("too long")], output_schema=Findings)
    team = team_of([ask("child"), lambda request: results(request)[0]], {"child": child})
    text = (await team.prompt("go")).result
    assert text.startswith("child_output_invalid:")
    assert "target failed (api_error): too long" in text


async def test_the_report_of_a_handoff_keeps_the_text_and_carries_the_payload():
    """team:OUT-12"""
    team = team_of([handoff("child"), "x"], {"child": submitter()})
    await team.prompt("go")
    (report,) = team.mailbox.inbox("manager", "all")
    assert report.metadata == {"structuredResult": PAYLOAD}


async def test_a_lead_with_a_schema_submits_in_its_last_round():
    """team:OUT-18"""
    lead = spec("lead", [handoff("a"), tool_use("submit_output", PAYLOAD)], output_schema=Findings)
    result = await team_of(lead, {"a": ["done"]}).prompt("go")
    assert result.subtype == "success"
    assert result.structured_result == Findings(**PAYLOAD)


async def test_questions_overlap_only_where_the_tool_says_so():
    """team:AGT-11 team:AGT-12"""
    for safe, most in ((None, 1), (True, 2)):
        now, seen = 0, []

        async def reply(request):
            nonlocal now
            now += 1
            seen.append(now)
            for _ in range(5):
                await asyncio.sleep(0)
            now -= 1
            return "x"

        definition = agent_tool("t", spec("child", reply), is_concurrency_safe=safe)
        lead = create_bare_agent(
            model="m", model_client=ScriptedModel([turn(ask("t"), ask("t")), "end"]), tools=[definition]
        )
        await lead.prompt("go")
        assert max(seen) == most


@pytest.mark.parametrize("runtime", [False, True])
async def test_a_payload_wins_over_closing_words(runtime):
    """team:OUT-11"""

    class Closing:
        async def query(self, prompt, **options):
            yield await self.prompt(prompt)

        async def prompt(self, prompt, **options):
            return {"type": "result", "is_error": False, "result": "closing words", "structured_result": PAYLOAD}

    lead = spec("lead", [ask("child"), lambda request: results(request)[0]], tools=[agent_tool("child", Closing())])
    asked = team_of(lead, {}) if runtime else lead.spawn()
    assert json.loads((await asked.prompt("go")).result) == PAYLOAD
