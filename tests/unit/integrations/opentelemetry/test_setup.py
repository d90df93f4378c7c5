import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from lattice import create_bare_agent
from lattice.errors import OptionError
from lattice.integrations.opentelemetry import create_opentelemetry_context_tracer, start_telemetry
from lattice.integrations.opentelemetry import setup as set_up
from lattice.testing import ScriptedModel

VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SDK_DISABLED")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


async def test_spans_and_metrics_reach_the_endpoint_that_the_variables_name(receiver, environment):
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    environment.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    receiver.status = 200
    telemetry = start_telemetry("lattice-worker", attributes={"lattice.member": "backend"})
    tracer = create_opentelemetry_context_tracer(
        tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider
    )
    await create_bare_agent(model="m", model_client=ScriptedModel(["hi"]), tracer=tracer, name="ada").prompt("hi")
    await telemetry.shutdown()
    sent = {path: body for _, path, _, body in receiver.requests}
    traces = ExportTraceServiceRequest.FromString(sent["/v1/traces"]).resource_spans[0]
    names = [span.name for scope in traces.scope_spans for span in scope.spans]
    assert sorted(names) == ["chat m", "invoke_agent ada"]
    resource = {entry.key: entry.value.string_value for entry in traces.resource.attributes}
    assert resource["service.name"] == "lattice-worker"
    assert resource["lattice.member"] == "backend"
    assert resource["deployment.environment"] == "test"
    metrics = ExportMetricsServiceRequest.FromString(sent["/v1/metrics"]).resource_metrics[0]
    assert "gen_ai.client.operation.duration" in [m.name for scope in metrics.scope_metrics for m in scope.metrics]


async def test_the_service_name_of_the_environment_wins(environment):
    environment.setenv("OTEL_SERVICE_NAME", "mine")
    telemetry = start_telemetry("lattice-worker", prometheus=True)
    assert telemetry.meter_provider._sdk_config.resource.attributes["service.name"] == "mine"
    await telemetry.shutdown()


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"},
        {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x",
            "OTEL_TRACES_EXPORTER": "none",
            "OTEL_METRICS_EXPORTER": "none",
        },
    ],
)
def test_without_a_wish_nothing_is_recorded(variables):
    assert not start_telemetry("x", environment=variables).enabled


async def test_one_signal_alone():
    telemetry = start_telemetry("x", environment={"OTEL_TRACES_EXPORTER": "otlp"})
    assert telemetry.tracer_provider is not None
    assert telemetry.meter_provider is None
    await telemetry.shutdown()


async def test_prometheus_needs_no_exporter():
    telemetry = start_telemetry("x", prometheus=True, environment={})
    assert telemetry.reader is not None
    assert telemetry.tracer_provider is None
    await telemetry.shutdown()


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"])
def test_a_protocol_that_is_not_spoken_is_named(name):
    with pytest.raises(OptionError, match=f"{name} is 'grpc'.*http/protobuf"):
        start_telemetry("x", environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4317", name: "grpc"})


def test_a_missing_exporter_is_named(monkeypatch):
    monkeypatch.setattr(set_up.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(OptionError, match=r"agent-lattice\[otlp\]"):
        start_telemetry("x", environment={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"})
