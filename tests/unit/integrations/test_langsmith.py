import asyncio
import email
import gc
import json
import threading
import uuid
import weakref
from datetime import UTC, datetime

import pytest

from lattice import create_bare_agent, tool
from lattice.errors import OptionError
from lattice.integrations import langsmith as langsmith_module
from lattice.integrations.langsmith import create_langsmith_context_tracer
from lattice.testing import ScriptedModel, tool_use, turn
from tests.teams import echo, handoff, team_of

USAGE = {"input_tokens": 100, "output_tokens": 20, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 50}


class Tree:
    """Stands in for RunTree and writes down what is done to it."""

    def __init__(self, **options):
        self.options = options
        self.inputs = options.get("inputs")
        self.start_time = options.get("start_time")
        self.children, self.child_runs, self.events, self.calls = [], [], [], []
        self.client = options.get("client")
        self.outputs = None

    def create_child(self, **options):
        child = Tree(**options)
        self.children.append(child)
        self.child_runs.append(child)
        return child

    def add_event(self, event):
        self.events.append(event)

    def post(self, **options):
        self.calls.append(("post", options, self.inputs))

    def end(self, **options):
        self.calls.append(("end", options))

    def patch(self, **options):
        self.calls.append(("patch", options, self.inputs))

    @property
    def ended(self):
        return next(call[1] for call in self.calls if call[0] == "end")


class Host:
    """Collects the roots that a tracer makes."""

    def __init__(self):
        self.roots = []

    def __call__(self, options):
        root = Tree(**options)
        self.roots.append(root)
        return root


async def traced(events, **options):
    host = Host()
    tracer = create_langsmith_context_tracer(run_tree=host, **options)
    for event in events:
        tracer.on_event(event)
    await tracer.flush()
    assert tracer.delivery.failures == 0
    return host.roots


async def test_a_root_is_a_chain_that_is_posted_at_once_and_patched_with_its_input(events):
    """agent:LS-04 agent:LS-11"""
    run_id = str(uuid.uuid4())
    message = {"role": "user", "content": "hi"}
    (root,) = await traced(
        [
            events("run_start", run=run_id, model="m", tools=["a"]),
            events("user_message", run=run_id, message=message),
            events("result", run=run_id, subtype="success", is_error=False, result="done"),
        ],
        project_name="P",
        tags=["mine"],
    )
    assert root.options["name"] == "ada"
    assert root.options["run_type"] == "chain"
    assert root.options["id"] == uuid.UUID(run_id)
    assert root.options["project_name"] == "P"
    assert root.options["start_time"] == datetime(2026, 6, 28, 12, 0, 1, tzinfo=UTC)
    assert root.options["tags"] == ["agent-lattice", "context-trace", "source:agent", "mine"]
    assert root.options["extra"]["metadata"]["model"] == "m"
    assert root.calls[0] == ("post", {"exclude_child_runs": True}, {})
    assert root.ended["outputs"] == {"subtype": "success", "is_error": False, "result": "done"}
    assert root.ended["error"] is None
    assert root.calls[-1][:2] == ("patch", {"exclude_inputs": False})
    assert root.calls[-1][2] == {"message": message}


async def test_a_run_id_that_is_no_uuid_is_left_to_langsmith(events):
    """agent:LS-04"""
    (root,) = await traced([events("run_start", run="01JABC")])
    assert "id" not in root.options


async def test_a_model_call_is_an_llm_run_with_usage(events):
    """agent:LS-07 agent:LS-08 agent:LS-09"""
    answer = {"role": "assistant", "content": [], "usage": USAGE}
    (root,) = await traced(
        [
            events("run_start", model="m"),
            events("model_request", model="m", max_tokens=9, stream=True, messages=[]),
            events("assistant_message", message=answer),
        ]
    )
    (call,) = root.children
    assert (call.options["name"], call.options["run_type"]) == ("m turn 1", "llm")
    assert call.options["inputs"] == {"model": "m", "max_tokens": 9, "stream": True, "messages": []}
    metadata = call.options["extra"]["metadata"]
    assert (metadata["sdk_event_type"], metadata["max_tokens"], metadata["stream"]) == ("model_request", 9, True)
    assert "run:llm" in call.options["tags"]
    assert call.ended["outputs"]["message"] == answer
    assert call.ended["outputs"]["usage_metadata"] == {
        "input_tokens": 180,
        "output_tokens": 20,
        "total_tokens": 200,
        "input_token_details": {"cache_creation": 30, "cache_read": 50},
    }
    assert call.ended["end_time"] == datetime(2026, 6, 28, 12, 0, 3, tzinfo=UTC)
    assert call.ended["metadata"] == {"sdk_end_event_type": "assistant_message", "sdk_end_seq": 3}
    assert call.calls[-1][:2] == ("patch", {"exclude_inputs": False})


async def test_a_model_call_that_fails_is_ended_with_an_error(events):
    """agent:W-32"""
    (root,) = await traced(
        [
            events("run_start"),
            events("model_request", model="m"),
            events("result", is_error=True, error={"message": "x"}),
        ]
    )
    assert root.children[0].ended["error"] == "The model call was not answered"
    assert root.ended["error"] == "x"


async def test_a_tool_call_is_a_tool_run(events):
    """agent:LS-10"""
    (root,) = await traced(
        [
            events("run_start"),
            events("tool_use", id="t1", name="add", input={"a": 1}, description="Adds."),
            events("tool_use", id="t2", name="add", input={"a": 2}),
            events("tool_result", tool_use_id="t1", content="1", is_error=False),
            events("tool_result", tool_use_id="t2", content="went wrong", is_error=True),
        ]
    )
    good, bad = root.children
    assert (good.options["name"], good.options["run_type"]) == ("add", "tool")
    assert good.options["inputs"] == {"input": {"a": 1}}
    assert good.options["extra"]["metadata"]["tool_description"] == "Adds."
    assert {"run:tool", "tool:add"} <= set(good.options["tags"])
    assert (good.ended["outputs"], good.ended["error"]) == ({"content": "1", "is_error": False}, None)
    assert bad.ended["error"] == "went wrong"


async def test_other_events_are_events_of_the_run(events):
    """agent:LS-13"""
    (root,) = await traced(
        [events("run_start"), events("user_message", message=1), events("compaction", summary="s"), events("result")]
    )
    assert root.calls[-1][0] == "patch"
    host_events = await traced([events("run_start", run="r2"), events("compaction", run="r2", summary="s")])
    (event,) = host_events[0].events
    assert event["name"] == "compaction"
    assert event["kwargs"]["data"] == {"summary": "s"}
    assert event["kwargs"]["source"] == {"kind": "agent", "name": "ada"}
    assert event["kwargs"]["sdk_run_id"] == "r2"


async def test_runs_of_a_team_are_children_of_its_root(events):
    """agent:LS-18"""
    team = {"kind": "root", "team": "eng"}
    member = {"kind": "team_member", "team": "eng", "member": "backend"}
    roots = await traced(
        [
            events("run_start", run="team", source=team),
            events("run_start", run="m", parent="team", source=member),
            events("result", run="m", parent="team", source=member),
            events("result", run="team", source=team),
        ]
    )
    assert len(roots) == 1
    (child,) = roots[0].children
    assert child.options["name"] == "backend"
    assert child.options["extra"]["metadata"]["sdk_session_id"] == "s1"
    assert roots[0].child_runs == []


async def test_redact_may_change_or_withhold_events(events):
    """agent:LS-17"""
    roots = await traced(
        [events("run_start"), events("user_message", message="secret"), events("result", result="r")],
        redact=lambda event: None if event.type == "user_message" else event,
    )
    assert roots[0].calls[-1][2] == {}


async def test_a_name_and_the_run_tree_function_win(events):
    """agent:LS-01 agent:LS-02"""
    host = Host()

    def never(**_options):
        raise AssertionError

    tracer = create_langsmith_context_tracer(name="mine", run_tree=host, RunTree=never)
    tracer.on_event(events("run_start"))
    await tracer.flush()
    assert host.roots[0].options["name"] == "mine"


async def test_flush_brings_every_client_up_to_date(events):
    """agent:LS-16"""
    flushed = []

    class Client:
        def flush(self):
            flushed.append(self)

    first, second = Client(), Client()

    def run_tree(options):
        tree = Tree(**options)
        tree.client = second
        return tree

    tracer = create_langsmith_context_tracer(client=first, run_tree=run_tree)
    tracer.on_event(events("run_start"))
    await tracer.close()
    assert flushed == [first, second]


async def test_a_strict_tracer_raises_and_a_tolerant_one_does_not(events):
    def broken(_options):
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        create_langsmith_context_tracer(run_tree=broken, fail_on_error=True).on_event(events("run_start"))
    tolerant = create_langsmith_context_tracer(run_tree=broken)
    tolerant.on_event(events("run_start"))
    await tolerant.flush()
    assert tolerant.delivery.failures == 1


async def test_redact_may_return_the_row(events):
    def rename(event):
        return {**event.to_dict(), "source": {"kind": "agent", "name": "nobody"}}

    (root,) = await traced([events("run_start")], redact=rename)
    assert root.options["name"] == "nobody"


def test_an_unknown_option_is_refused():
    with pytest.raises(OptionError, match="projectname"):
        create_langsmith_context_tracer(projectname="P")


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(langsmith_module.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(OptionError, match=r"agent-lattice\[langsmith\]"):
        create_langsmith_context_tracer()


def parts(receiver):
    """What arrived, as name of the part -> JSON."""
    found = {}
    for method, path, headers, body in receiver.requests:
        if method == "POST" and path == "/runs/multipart":
            head = f"Content-Type: {headers['content-type']}\r\n\r\n".encode()
            for part in email.message_from_bytes(head + body).get_payload():
                name = part.get_param("name", header="content-disposition")
                found[name] = json.loads(part.get_payload(decode=True))
    return found


@tool("add", "Adds.", {"type": "object"})
def add(_input):
    return "3"


def agent(tracer, *replies):
    return create_bare_agent(
        model="m", model_client=ScriptedModel(list(replies)), tools=[add], tracer=tracer, name="ada"
    )


async def test_a_real_agent_with_the_real_client_reaches_the_endpoint(receiver):
    """agent:LS-01 agent:LS-03 agent:LS-15 - a client of its own stands for the key and the URL."""
    tracer = create_langsmith_context_tracer(api_key="key", api_url=receiver.url, project_name="P")
    await agent(tracer, turn(tool_use("add", {"a": 1}), usage=USAGE), "done").prompt("hi")
    await tracer.close()
    received = parts(receiver)
    runs = {name: value for name, value in received.items() if name.startswith("post.") and name.count(".") == 1}
    kinds = sorted(run["run_type"] for run in runs.values())
    assert kinds == ["chain", "llm", "llm", "tool"]
    (root,) = [run for run in runs.values() if run["run_type"] == "chain"]
    assert root["session_name"] == "P"
    assert all(run["trace_id"] == root["id"] and run.get("end_time") for run in runs.values())
    assert {run.get("parent_run_id") for run in runs.values() if run is not root} == {root["id"]}
    assert received[f"post.{root['id']}.outputs"]["result"] == "done"
    assert received[f"post.{root['id']}.inputs"] == {"message": {"role": "user", "content": "hi"}}
    assert {headers["x-api-key"] for _, _, headers, _ in receiver.requests} == {"key"}


async def test_a_backend_that_is_down_fails_no_query_and_keeps_nothing_open(receiver):
    receiver.stop()
    try:
        tracer = create_langsmith_context_tracer(api_key="key", api_url=receiver.url)
        assert (await agent(tracer, "done").prompt("hi")).result == "done"
        async with asyncio.timeout(10):
            while tracer.tree.open_runs or not tracer.delivery._queue.empty():
                await asyncio.sleep(0.005)
    finally:
        receiver.stop = lambda: None


async def test_thousands_of_queries_leave_nothing_behind(events):
    alive = weakref.WeakSet()

    def run_tree(options):
        tree = Tree(**options)
        alive.add(tree)
        return tree

    tracer = create_langsmith_context_tracer(run_tree=run_tree)
    for number in range(5000):
        for event in (events("run_start", run=str(number)), events("model_request", run=str(number), messages=[])):
            tracer.on_event(event)
        if number % 2:
            tracer.on_event(events("result", run=str(number), is_error=True))
        if number % 100 == 0:
            await tracer.flush()
    await tracer.close()
    gc.collect()
    assert tracer.tree.open_runs == 0
    assert tracer.delivery.dropped == tracer.delivery.failures == 0
    assert len(alive) <= 256


async def test_the_end_of_a_query_does_not_wait_for_a_backend_that_hangs():
    gate = threading.Event()

    class Hanging(Tree):
        def post(self, **_options):
            gate.wait(30)

    tracer = create_langsmith_context_tracer(RunTree=Hanging)
    assert (await agent(tracer, "done").prompt("hi")).result == "done"
    assert not gate.is_set()
    gate.set()
    await tracer.flush()
    assert tracer.tree.open_runs == 0


async def test_a_team_is_one_root_chain_with_a_child_for_every_leg_and_member():
    """team:TRC-13"""
    host = Host()
    tracer = create_langsmith_context_tracer(run_tree=host)
    await team_of([turn(handoff("a")), "done"], {"a": echo("a")}).prompt("go", tracer=tracer)
    await tracer.flush()
    (root,) = host.roots
    assert root.options["name"] == "squad"
    assert root.options["extra"]["metadata"]["runtime"] == "team"
    assert root.options["extra"]["metadata"]["team"] == "squad"
    assert [child.options["run_type"] for child in root.children] == ["chain"] * 3
    sessions = {tree.options["extra"]["metadata"]["sdk_session_id"] for tree in (root, *root.children)}
    assert len(sessions) == 1
    assert all("runtime" not in child.options["extra"]["metadata"] for child in root.children)
