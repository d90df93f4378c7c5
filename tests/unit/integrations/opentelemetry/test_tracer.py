import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from lattice import create_bare_agent, tool
from lattice.errors import APIError
from lattice.integrations.opentelemetry import create_opentelemetry_context_tracer
from lattice.testing import ScriptedModel, tool_use, turn

USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 80, "cache_creation_input_tokens": 10}


class Telemetry:
    def __init__(self):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])

    def tracer(self, **options):
        return create_opentelemetry_context_tracer(tracer_provider=self.provider, meter_provider=self.meters, **options)

    def spans(self):
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def points(self, name):
        metrics = self.reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]


@pytest.fixture
def telemetry():
    made = Telemetry()
    yield made
    made.provider.shutdown()
    made.meters.shutdown()


def agent(tracer, *replies, tools=()):
    model = ScriptedModel(list(replies))
    return create_bare_agent(model="m-1", model_client=model, tools=list(tools), tracer=tracer, name="ada")


@tool("add", "Adds.", {"type": "object"})
def add(_input):
    return "three"


async def test_a_query_is_a_tree_of_spans_by_the_conventions(telemetry):
    reply = turn("Let me add.", tool_use("add", {"a": 1}, id="toolu_1"), usage=USAGE)
    reply |= {"providerResponseId": "msg_1", "model": "m-1-served"}
    await agent(telemetry.tracer(), reply, "done", tools=[add]).prompt("what is it?")
    finished = telemetry.exporter.get_finished_spans()
    assert [span.name for span in finished] == ["chat m-1", "execute_tool add", "chat m-1", "invoke_agent ada"]
    chat, execute, _, run = finished
    assert {span.parent.span_id for span in finished if span is not run} == {run.context.span_id}
    assert [span.kind for span in finished] == [SpanKind.CLIENT, SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL]
    assert {span.instrumentation_scope.schema_url for span in finished} == {"https://opentelemetry.io/schemas/1.41.0"}
    conversation = run.attributes["gen_ai.conversation.id"]
    assert dict(chat.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "m-1",
        "gen_ai.request.max_tokens": 16384,
        "gen_ai.request.stream": True,
        "gen_ai.conversation.id": conversation,
        "gen_ai.response.id": "msg_1",
        "gen_ai.response.model": "m-1-served",
        "gen_ai.response.finish_reasons": ("tool_use",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 80,
        "gen_ai.usage.cache_creation.input_tokens": 10,
        "lattice.turn": 1,
    }
    assert dict(execute.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "toolu_1",
        "gen_ai.tool.description": "Adds.",
    }
    assert run.attributes["gen_ai.agent.name"] == "ada"
    assert run.attributes["lattice.result.subtype"] == "success"
    assert run.status.status_code is StatusCode.UNSET


async def test_contents_stay_out_unless_asked_for(telemetry, monkeypatch):
    secret = "the launch code is 0000"
    reply = turn(f"I see: {secret}", tool_use("add", {"secret": secret}))
    await agent(telemetry.tracer(), reply, secret, tools=[add]).prompt(secret)
    told = [str(dict(span.attributes)) + str(span.events) for span in telemetry.exporter.get_finished_spans()]
    assert not any("0000" in text or "three" in text for text in told)
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    telemetry.exporter.clear()
    await agent(telemetry.tracer(), reply, secret, tools=[add]).prompt(secret)
    spans = telemetry.spans()
    assert secret in spans["chat m-1"].attributes["gen_ai.input.messages"]
    assert '"type":"tool_call"' in spans["chat m-1"].attributes["gen_ai.input.messages"]
    assert secret in spans["execute_tool add"].attributes["gen_ai.tool.call.arguments"]
    assert "three" in spans["execute_tool add"].attributes["gen_ai.tool.call.result"]


async def test_failures_are_errors_with_a_type_and_every_span_is_ended(telemetry):
    result = await agent(telemetry.tracer(), APIError("overloaded", status=529)).prompt("hi")
    assert result.is_error
    spans = telemetry.spans()
    assert spans["chat m-1"].status.status_code is StatusCode.ERROR
    assert spans["chat m-1"].attributes["error.type"] == result.subtype
    assert spans["invoke_agent ada"].status.status_code is StatusCode.ERROR
    assert spans["invoke_agent ada"].attributes["error.type"] == result.subtype


async def test_a_tool_that_fails_is_an_error(telemetry):
    @tool("boom", "Fails.", {"type": "object"})
    def boom(_input):
        raise RuntimeError("with secrets")

    await agent(telemetry.tracer(), turn(tool_use("boom")), "done", tools=[boom]).prompt("hi")
    span = telemetry.spans()["execute_tool boom"]
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "tool_error")
    assert "secrets" not in str(span.status.description)


async def test_the_span_of_a_tool_is_current_while_it_runs_and_only_then(telemetry):
    seen = []

    @tool("look", "Looks.", {"type": "object"})
    async def look(_input):
        seen.append(trace.get_current_span().get_span_context().span_id)
        return "ok"

    twice = turn(tool_use("look"), tool_use("look"))
    outer = telemetry.provider.get_tracer("test").start_span("outer")
    with trace.use_span(outer, end_on_exit=True):
        await agent(telemetry.tracer(), twice, "done", tools=[look]).prompt("hi")
        assert trace.get_current_span() is outer
    tools = [span for span in telemetry.exporter.get_finished_spans() if span.name == "execute_tool look"]
    assert seen == [span.context.span_id for span in tools]
    assert telemetry.spans()["invoke_agent ada"].parent.span_id == outer.get_span_context().span_id


async def test_an_agent_inside_a_tool_is_a_child_of_that_tool(telemetry):
    tracer = telemetry.tracer()

    @tool("ask", "Asks.", {"type": "object"})
    async def ask(_input):
        return (await agent(tracer, "inner answer").prompt("inner")).result

    await agent(tracer, turn(tool_use("ask")), "done", tools=[ask]).prompt("hi")
    runs = [span for span in telemetry.exporter.get_finished_spans() if span.name == "invoke_agent ada"]
    inner, outer = runs
    assert inner.parent.span_id == telemetry.spans()["execute_tool ask"].context.span_id
    assert inner.context.trace_id == outer.context.trace_id


def test_a_team_is_a_workflow_and_its_members_are_agents_inside(telemetry, events):
    tracer = telemetry.tracer()
    team = {"kind": "root", "team": "eng", "mailbox": "lead"}
    member = {"kind": "team_member", "team": "eng", "member": "backend", "mailbox": "eng/backend"}
    tracer.on_event(events("run_start", run="team", source=team, runtime="team"))
    tracer.on_event(events("run_start", run="m", parent="team", source=member, model="m-1"))
    tracer.on_event(events("team_message", run="team", source=team, subtype="sent", mailbox="eng/backend"))
    tracer.on_event(events("result", run="m", parent="team", source=member))
    tracer.on_event(events("result", run="team", source=team))
    spans = telemetry.spans()
    root, inner = spans["invoke_workflow eng"], spans["invoke_agent backend"]
    assert inner.parent.span_id == root.context.span_id
    assert (inner.attributes["lattice.team"], inner.attributes["lattice.member"]) == ("eng", "backend")
    assert [event.name for event in root.events] == ["lattice.team_message"]
    assert root.attributes["gen_ai.workflow.name"] == "eng"


def test_retries_are_events_of_the_call(telemetry, events):
    tracer = telemetry.tracer()
    tracer.on_event(events("run_start"))
    tracer.on_event(events("model_request", model="m-1", messages=[]))
    tracer.on_event(events("retry", attempt=1, delay=0.5, reason="529"))
    tracer.on_event(events("assistant_message", message={"content": []}))
    tracer.on_event(events("result"))
    (event,) = telemetry.spans()["chat m-1"].events
    assert dict(event.attributes) == {"lattice.attempt": 1, "lattice.delay": 0.5, "lattice.reason": "529"}


async def test_tokens_and_durations_are_measured(telemetry):
    await agent(telemetry.tracer(), turn("done", usage=USAGE)).prompt("hi")
    tokens = {
        point.attributes["gen_ai.token.type"]: point.sum for point in telemetry.points("gen_ai.client.token.usage")
    }
    assert tokens == {"input": 100, "output": 5}
    (duration,) = telemetry.points("gen_ai.client.operation.duration")
    assert duration.attributes["gen_ai.operation.name"] == "chat"
    assert duration.count == 1


async def test_redact_and_close(telemetry, events):
    tracer = telemetry.tracer(redact=lambda event: None if event.type == "tool_use" else event)
    tracer.on_event(events("run_start"))
    tracer.on_event(events("tool_use", id="t", name="secret"))
    tracer.on_event(events("model_request", model="m-1", messages=[]))
    await tracer.close()
    assert list(telemetry.spans()) == ["chat m-1", "invoke_agent ada"]
    assert tracer.tree.open_runs == 0
