import asyncio

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from lattice.errors import OptionError
from lattice.integrations.opentelemetry import MailboxMetrics, ModelMetrics, render, serve_metrics


@pytest.fixture
def reader():
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    metrics = MailboxMetrics("eng", provider)
    metrics.count("messages.sent", 2, member='back"end')
    metrics.mailbox("backend", 7, 1.5)
    ModelMetrics(provider).call_ended(0.3, {"gen_ai.operation.name": "chat"}, None)
    yield reader
    provider.shutdown()


def test_counters_gauges_and_histograms_are_written_as_prometheus_reads_them(reader):
    lines = render(reader.get_metrics_data()).decode().splitlines()
    assert 'lattice_messages_sent_total{lattice_member="back\\"end",lattice_team="eng"} 2' in lines
    assert "# TYPE lattice_messages_sent_total counter" in lines
    assert 'lattice_mailbox_depth{lattice_member="backend",lattice_team="eng"} 7' in lines
    assert 'lattice_mailbox_oldest_age_seconds{lattice_member="backend",lattice_team="eng"} 1.5' in lines
    duration = 'gen_ai_client_operation_duration_seconds_{}{{gen_ai_operation_name="chat"'
    assert f'{duration.format("bucket")},le="0.16"}} 0' in lines
    assert f'{duration.format("bucket")},le="0.32"}} 1' in lines
    assert f'{duration.format("bucket")},le="+Inf"}} 1' in lines
    assert f"{duration.format('count')}}} 1" in lines
    assert f"{duration.format('sum')}}} 0.3" in lines


def test_nothing_measured_is_an_empty_page():
    assert render(None) == b"\n"


async def ask(port, line):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(line + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer


async def test_the_page_is_served_and_nothing_else(reader):
    async with serve_metrics(0, reader) as port:
        page = await ask(port, b"GET /metrics")
        assert page.startswith(b"HTTP/1.1 200 OK")
        assert b"text/plain; version=0.0.4" in page
        assert b"lattice_messages_sent_total" in page
        assert (await ask(port, b"GET /other")).startswith(b"HTTP/1.1 404")
        assert (await ask(port, b"POST /metrics")).startswith(b"HTTP/1.1 404")


async def test_a_port_that_is_taken_is_named(reader):
    async with serve_metrics(0, reader) as port:
        with pytest.raises(OptionError, match=str(port)):
            async with serve_metrics(port, reader):
                pass


async def test_without_a_port_nothing_is_served(reader):
    async with serve_metrics(None, reader) as port:
        assert port is None
