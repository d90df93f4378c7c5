"""A backend that is down is said once, counted, and in nobody's way."""

import logging
import subprocess
import sys

import pytest
from opentelemetry.sdk.trace.export import SpanExportResult

from lattice.integrations.opentelemetry.telling import Telling


class Exporter:
    def __init__(self):
        self.outcome = SpanExportResult.SUCCESS
        self.ended = False

    def export(self, spans):
        return self.outcome

    def shutdown(self):
        self.ended = True

    def force_flush(self):
        return "flushed"


@pytest.fixture
def exporter():
    return Exporter()


def test_an_outage_is_said_once_and_so_is_its_end(exporter, caplog):
    caplog.set_level(logging.INFO, "lattice.telemetry")
    telling = Telling(exporter, "spans")
    outcomes = [SpanExportResult.SUCCESS, *[SpanExportResult.FAILURE] * 5, *[SpanExportResult.SUCCESS] * 2]
    for exporter.outcome in outcomes:
        assert telling.export([]) is exporter.outcome
    said = [(record.levelname, record.message) for record in caplog.records]
    assert [level for level, _ in said] == ["WARNING", "INFO"]
    assert "does not take spans" in said[0][1]
    assert "takes spans again" in said[1][1]


def test_it_stands_for_its_exporter_and_can_be_cut_off(exporter):
    telling = Telling(exporter, "spans")
    assert telling.force_flush() == "flushed"
    telling.cut_off()
    assert exporter.ended


DOWN = """
import asyncio, logging
logging.basicConfig(level="INFO")
from lattice.integrations.opentelemetry import render, start_telemetry
async def main():
    telemetry = start_telemetry("x", prometheus=True)
    telemetry.publish()
    telemetry.tracer_provider.get_tracer("t").start_span("s").end()
    await asyncio.to_thread(telemetry.tracer_provider.force_flush)
    telemetry.tracer_provider.get_tracer("t").start_span("s").end()
    await asyncio.to_thread(telemetry.tracer_provider.force_flush)
    print(render(telemetry.reader.get_metrics_data()).decode())
    await telemetry.shutdown(0.2)
asyncio.run(main())
"""


def test_a_process_whose_backend_is_down_counts_what_is_lost_and_ends(tmp_path):
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "0.1",
        "PATH": "/usr/bin:/bin",
    }
    done = subprocess.run([sys.executable, "-c", DOWN], env=variables, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    assert 'lattice_telemetry_lost_total{lattice_signal="spans"} 2' in done.stdout
    assert done.stderr.count("does not take spans") == 1
    assert "Traceback" not in done.stderr
