import asyncio
import json
import threading
import uuid
from datetime import UTC, datetime

import langfuse
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider

from lattice import create_bare_agent, tool
from lattice.errors import OptionError
from lattice.integrations import langfuse as langfuse_module
from lattice.integrations.langfuse import create_langfuse_context_tracer
from lattice.testing import ScriptedModel, tool_use, turn


class Observation:
    """Stands in for an observation of Langfuse and writes down what is done to it."""

    def __init__(self, **options):
        self.options = options
        self.children, self.updates, self.attributes, self.ends = [], [], {}, []

    def start_observation(self, **options):
        child = Observation(**options)
        self.children.append(child)
        return child

    def update(self, **values):
        self.updates.append(values)

    def set_attribute(self, name, value):
        self.attributes[name] = value

    def end(self, end_time=None):
        self.ends.append(end_time)

    @property
    def last(self):
        assert len(self.ends) == 1
        return self.updates[-1]


async def traced(events, **options):
    roots = []

    def start_observation(**given):
        roots.append(Observation(**given))
        return roots[-1]

    tracer = create_langfuse_context_tracer(start_observation=start_observation, **options)
    for event in events:
        tracer.on_event(event)
    await tracer.flush()
    assert tracer.delivery.failures == 0
    return roots


async def test_a_root_is_a_chain_with_trace_attributes_and_its_input_comes_later(events):
    """agent:LF-03 agent:LF-04 agent:LF-09"""
    message = {"role": "user", "content": "hi"}
    (root,) = await traced(
        [events("run_start", model="m"), events("user_message", message=message), events("result", result="done")],
        tags=["mine"],
    )
    assert (root.options["name"], root.options["as_type"], root.options["input"]) == ("ada", "chain", {})
    assert root.options["metadata"]["model"] == "m"
    assert root.updates[0] == {"input": {"message": message}}
    assert root.last == {"output": {"result": "done"}}
    assert root.attributes == {
        "langfuse.trace.name": "ada",
        "session.id": "s1",
        "langfuse.trace.tags": ["agent-lattice", "context-trace", "source:agent", "mine"],
    }


async def test_a_root_that_takes_no_attributes_is_traced_all_the_same(events):
    """agent:LF-05"""
    made = []

    class Bare(Observation):
        set_attribute = None

    def start_observation(**options):
        made.append(Bare(**options))
        return made[-1]

    tracer = create_langfuse_context_tracer(start_observation=start_observation)
    tracer.on_event(events("run_start"))
    tracer.on_event(events("result"))
    await tracer.flush()
    assert tracer.delivery.failures == 0
    assert len(made[0].ends) == 1


async def test_a_model_call_is_a_generation_with_usage(events):
    """agent:LF-02 agent:LF-06 agent:LF-07"""
    usage = {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 50}
    answer = {"role": "assistant", "content": [], "usage": usage}
    (root,) = await traced(
        [
            events("run_start"),
            events("model_request", model="m", messages=[], systemPrompt="Be."),
            events("assistant_message", message=answer),
        ]
    )
    (call,) = root.children
    assert (call.options["name"], call.options["as_type"], call.options["model"]) == ("m turn 1", "generation", "m")
    assert call.options["input"]["messages"] == [{"role": "system", "content": "Be."}]
    assert call.last["output"] == {"message": answer}
    assert call.last["usage_details"] == {"input": 100, "output": 20, "cache_read_input_tokens": 50, "total": 170}
    assert call.last["metadata"] == {
        **call.options["metadata"],
        "sdk_end_event_type": "assistant_message",
        "sdk_end_seq": 3,
    }


async def test_a_model_that_is_no_text_is_no_model_attribute(events):
    """agent:LF-06"""
    (root,) = await traced([events("run_start"), events("model_request", model=None, messages=[])])
    assert "model" not in root.children[0].options


async def test_a_tool_call_is_a_tool_and_errors_have_a_level(events):
    """agent:LF-02 agent:LF-08"""
    (root,) = await traced(
        [
            events("run_start"),
            events("tool_use", id="t", name="add", input={"a": 1}),
            events("tool_result", tool_use_id="t", content="went wrong", is_error=True),
            events("result", is_error=True, error={"name": "APIError", "message": "refused"}),
        ]
    )
    (call,) = root.children
    assert (call.options["name"], call.options["as_type"]) == ("add", "tool")
    assert call.options["input"] == {"input": {"a": 1}}
    assert (call.last["level"], call.last["status_message"]) == ("ERROR", "went wrong")
    assert (root.last["level"], root.last["status_message"]) == ("ERROR", "refused")
    assert "metadata" not in root.last


async def test_a_model_call_that_fails_is_ended(events):
    """agent:W-32"""
    (root,) = await traced([events("run_start"), events("model_request", messages=[]), events("result", is_error=True)])
    assert root.children[0].last["level"] == "ERROR"


async def test_other_events_are_events_that_end_at_once(events):
    """agent:LF-02 agent:LF-03"""
    (root,) = await traced([events("run_start"), events("team_message", subtype="sent")])
    (event,) = root.children
    assert (event.options["name"], event.options["as_type"]) == ("team_message", "event")
    assert event.options["metadata"]["data"] == {"subtype": "sent"}
    assert len(event.ends) == 1


async def test_members_are_children_without_trace_attributes(events):
    """agent:LF-04"""
    team = {"kind": "root", "team": "eng"}
    roots = await traced(
        [events("run_start", run="team", source=team), events("run_start", run="m", parent="team", source=team)]
    )
    assert len(roots) == 1
    assert roots[0].children[0].attributes == {}


async def test_an_observation_ends_when_the_event_says_and_never_before_it_began(events):
    (root,) = await traced([events("run_start"), events("result")])
    (ended,) = root.ends
    assert ended > datetime(2026, 7, 1, tzinfo=UTC).timestamp() * 1e9  # the event is older than the observation


async def test_closing_flushes_the_processor_once(events):
    """agent:LF-10"""
    flushed = []

    class Processor:
        def force_flush(self):
            flushed.append(1)

    tracer = create_langfuse_context_tracer(start_observation=Observation, span_processor=Processor())
    tracer.on_event(events("run_start"))
    await tracer.close()
    assert flushed == [1]
    assert tracer.tree.open_runs == 0


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(langfuse_module.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(OptionError, match=r"agent-lattice\[langfuse\]"):
        create_langfuse_context_tracer()


@tool("add", "Adds.", {"type": "object"})
def add(_input):
    return "3"


@pytest.fixture
def client(receiver):
    made = langfuse.Langfuse(
        public_key=f"pk-{uuid.uuid4()}",  # clients with the same key share their first address
        secret_key="sk-test",
        base_url=receiver.url,
        tracer_provider=TracerProvider(),
        timeout=2,
    )
    yield made
    made.shutdown()


def spans(receiver):
    found = []
    for _, path, _, body in receiver.requests:
        if path.endswith("/otel/v1/traces"):
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            found += [s for resource in request.resource_spans for scope in resource.scope_spans for s in scope.spans]
    return found


def attributes(span):
    return {entry.key: entry.value.string_value for entry in span.attributes}


async def test_a_real_agent_with_the_real_client_reaches_the_endpoint(receiver, client):
    """agent:LF-01"""
    tracer = create_langfuse_context_tracer(client=client)
    model = ScriptedModel([turn(tool_use("add", {"a": 1}), usage={"input_tokens": 1, "output_tokens": 2}), "done"])
    await create_bare_agent(model="m", model_client=model, tools=[add], tracer=tracer, name="ada").prompt("hi")
    await tracer.close()
    arrived = spans(receiver)
    kinds = [attributes(span)["langfuse.observation.type"] for span in arrived]
    assert sorted(kinds) == ["chain", "event", "generation", "generation", "tool"]
    (root,) = [span for span in arrived if attributes(span)["langfuse.observation.type"] == "chain"]
    assert {span.trace_id for span in arrived} == {root.trace_id}
    assert {span.parent_span_id for span in arrived if span is not root} == {root.span_id}
    shown = attributes(root)
    assert shown["langfuse.trace.name"] == "ada"
    assert json.loads(shown["langfuse.observation.output"])["result"] == "done"
    assert "session.id" in shown
    others = [attributes(span) for span in arrived if span is not root]
    assert not any("langfuse.trace.name" in entry or "session.id" in entry for entry in others)
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano for span in arrived)


async def test_runs_of_one_team_in_two_processes_find_the_same_trace(receiver, client, events):
    here, there = create_langfuse_context_tracer(client=client), create_langfuse_context_tracer(client=client)
    root = {"kind": "root", "team": "eng"}
    here.on_event(events("run_start", run="team", source=root, runtime="team"))
    there.on_event(events("run_start", run="member", parent="team"))
    there.on_event(events("result", run="member", parent="team"))
    here.on_event(events("result", run="team", source=root))
    await here.close()
    await there.close()
    assert len({span.trace_id for span in spans(receiver)}) == 1


async def test_a_backend_that_refuses_fails_no_query(receiver, client):
    receiver.status = 400
    tracer = create_langfuse_context_tracer(client=client)
    model = ScriptedModel(["done"])
    answer = await create_bare_agent(model="m", model_client=model, tracer=tracer).prompt("hi")
    assert answer.result == "done"
    async with asyncio.timeout(10):
        while tracer.tree.open_runs:
            await asyncio.sleep(0.005)


async def test_the_end_of_a_query_does_not_wait_for_a_backend_that_hangs():
    gate = threading.Event()

    def hanging(**options):
        gate.wait(30)
        return Observation(**options)

    tracer = create_langfuse_context_tracer(start_observation=hanging)
    model = ScriptedModel(["done"])
    assert (await create_bare_agent(model="m", model_client=model, tracer=tracer).prompt("hi")).result == "done"
    gate.set()
    await tracer.flush()
    assert tracer.tree.open_runs == 0
