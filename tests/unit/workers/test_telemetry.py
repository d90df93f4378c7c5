"""Log lines say what they are about; telemetry is loaded only where somebody wants it."""

import subprocess
import sys

import pytest
from structlog.contextvars import get_contextvars

from lattice.instruments import NO_INSTRUMENTS
from lattice.memory.run_store import MemoryRunStore
from lattice.runs import Claim, Lease, RunRecord, TakenRun, WorkItem
from tests.contracts.work import item
from workers.settings import Settings
from workers.telemetry import LogInstruments, submitting, watching

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"00-{TRACE}-b7ad6b7169203331-01"


def claim(**more):
    work = item(**more)
    work = WorkItem(
        message=work.message.evolve(id="m1"), member=work.member, conversation="c", traceparent=work.traceparent
    )
    return Claim(work, Lease("message", "m1", "w", 2), 2)


def test_lines_about_a_work_item_say_which_one():
    with LogInstruments().working(claim(traceparent=TRACEPARENT)):
        assert get_contextvars() == {
            "team": "crew",
            "member": "backend",
            "run_id": "run-1",
            "message_id": "m1",
            "attempt": 2,
            "trace_id": TRACE,
        }
    assert get_contextvars() == {}


def test_lines_about_a_run_say_which_one_and_end_with_it():
    run = RunRecord(id="run-1", team="crew", task="secret", epoch=3, traceparent=TRACEPARENT)
    with pytest.raises(RuntimeError), LogInstruments().driving(TakenRun(run, Lease("run", "run-1", "c", 3))):
        assert get_contextvars() == {"run_id": "run-1", "attempt": 3, "trace_id": TRACE}
        raise RuntimeError
    assert get_contextvars() == {}


def test_the_trace_of_the_span_under_way_wins():
    class Traced(type(NO_INSTRUMENTS)):
        def traceparent(self):
            return f"00-{'1' * 32}-{'2' * 16}-01"

    with LogInstruments(Traced()).working(claim(traceparent=TRACEPARENT)):
        assert get_contextvars()["trace_id"] == "1" * 32
    assert LogInstruments(Traced()).traceparent().startswith("00-1111")


@pytest.fixture
def quiet(monkeypatch):
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "TRACEPARENT"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


async def test_where_nobody_wants_telemetry_stores_are_not_watched(quiet):
    store = MemoryRunStore()
    async with watching(Settings(), "worker", "crew", store, ["backend"]) as watch:
        assert watch.store(store) is store
        assert watch.instruments.tracers() == ()
        assert watch.instruments.traceparent() is None


async def test_a_submit_hands_on_the_trace_that_it_was_started_in(quiet):
    async with submitting(Settings(), "crew") as traceparent:
        assert traceparent is None
    quiet.setenv("TRACEPARENT", TRACEPARENT)
    async with submitting(Settings(), "crew") as traceparent:
        assert traceparent == TRACEPARENT


def test_our_telemetry_is_not_loaded_before_it_is_wanted():
    code = "import sys, workers.member, workers.coordinator; assert 'lattice.integrations.opentelemetry' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
