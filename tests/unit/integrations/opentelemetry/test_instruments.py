"""What a process tells of its work, over a team whose processes share this one: spans, counters, times."""

import asyncio

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lattice.errors import LeaseLostError
from lattice.integrations.opentelemetry import TeamInstruments, Telemetry
from lattice.mailbox import TeamMessage
from lattice.memory.run_store import MemoryRunStore
from lattice.run_store import StoreOptions
from lattice.runs import Lease, RunRecord, Step
from lattice.team.coordinator import Coordinator
from lattice.team.host import Host
from lattice.team.worker import MemberWorker
from lattice.testing import turn
from tests.cluster import until
from tests.contracts.work import DONE, LEASE, claim_one, handed_off, item, step
from tests.teams import handoff, team_of


class Watched:
    """A store, its instruments, and what they told."""

    def __init__(self):
        self.now = 1_000_000
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.traces = TracerProvider()
        self.traces.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])
        self.instruments = TeamInstruments("crew", Telemetry(self.traces, self.meters, None))
        inner = MemoryRunStore(options=StoreOptions(max_attempts=2), clock=lambda: self.now, expire_leases=True)
        self.store = self.instruments.watch(inner)

    def count(self, name):
        """The sum of a counter, or the number of measurements of a time."""
        data = self.reader.get_metrics_data()
        points = [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]
        return sum(getattr(point, "count", None) or getattr(point, "value", 0) for point in points)

    @property
    def spans(self):
        return self.exporter.get_finished_spans()

    def one(self, name):
        (span,) = [span for span in self.spans if span.name == name]
        return span


@pytest.fixture
def watched():
    made = Watched()
    yield made
    made.traces.shutdown()
    made.meters.shutdown()


async def test_messages_are_counted_from_send_to_end(watched):
    await handed_off(watched.store, item(content="1"), item(content="2"))
    claim = await claim_one(watched.store)
    with watched.instruments.working(claim):
        await watched.store.settle(claim.lease, DONE, step("c"), claim_next=("backend", "w", LEASE))
    assert watched.count("lattice.messages.sent") == 2
    assert watched.count("lattice.messages.claimed") == 2
    assert watched.count("lattice.messages.settled") == 1
    assert watched.count("lattice.claim.latency") == 2


async def test_a_claim_that_was_waited_for_is_counted_as_well(watched):
    await handed_off(watched.store, item(content="1"))
    (claim,) = await watched.store.await_claims("backend", "w", LEASE, 1, 5_000)
    assert claim.item.message.content == "1"
    assert watched.count("lattice.messages.claimed") == watched.count("lattice.claim.latency") == 1


async def test_what_goes_back_and_what_runs_out_of_attempts_is_counted(watched):
    await handed_off(watched.store, item())
    for _ in range(2):
        await claim_one(watched.store)
        watched.now += 10 * LEASE
        await watched.store.reclaim_expired("reaper", LEASE, runs=False)
    assert watched.count("lattice.messages.redelivered") == 1
    assert watched.count("lattice.messages.dead") == 1
    assert watched.count("lattice.claim.latency") == 1


async def test_writes_without_a_lease_are_counted_and_their_spans_say_so(watched):
    await handed_off(watched.store, item())
    claim = await claim_one(watched.store)
    watched.now += 10 * LEASE
    await watched.store.reclaim_expired("reaper", LEASE, runs=False)
    with watched.instruments.working(claim):
        assert (await watched.store.settle(claim.lease, DONE, step("c"))).word == "stale"
    assert await watched.store.append(claim.lease, step("c", b"{}")) == "stale"
    assert watched.count("lattice.writes.fenced") == 2
    assert watched.count("lattice.messages.settled") == 0
    assert watched.one("settle crew::backend").attributes["error.type"] == "stale"


async def test_leases_that_a_host_loses_are_counted(watched):
    host = Host(watched.store, process_id="w", instruments=watched.instruments)
    held = host.hold(Lease("message", "m", "w", 1))
    host._renewed([held.lease], [held.lease], 0.0)
    assert held.lost
    assert watched.count("lattice.leases.lost") == 1


async def test_work_that_is_lost_or_breaks_says_so_without_its_text(watched):
    await handed_off(watched.store, item())
    claim = await claim_one(watched.store)
    with pytest.raises(LeaseLostError), watched.instruments.working(claim):
        raise LeaseLostError
    assert watched.one("process crew::backend").attributes["lattice.outcome"] == "lost"
    watched.exporter.clear()
    with pytest.raises(ValueError), watched.instruments.working(claim):
        raise ValueError("the launch code is 0000")
    span = watched.one("process crew::backend")
    assert span.attributes["error.type"] == "ValueError"
    assert "0000" not in span.to_json()


async def test_mail_outside_of_runs_carries_its_trace_in_its_metadata(watched):
    draft = TeamMessage(id="", from_="crew::a", to="crew::backend", content="hi", metadata={"kept": 1})
    with watched.instruments.submitting("elsewhere", None):
        sent = await watched.store.send(draft, member="backend")
    assert sent.metadata["kept"] == 1
    with watched.instruments.working(await claim_one(watched.store)):
        pass
    process, send = watched.one("process crew::backend"), watched.one("send crew::backend")
    assert process.parent.span_id == send.context.span_id
    assert send.parent.span_id == watched.one("send elsewhere").context.span_id


async def test_a_member_that_fails_is_an_error_and_the_run_of_the_lead_is_none(watched):
    def breaks(_request):
        raise RuntimeError("it broke")

    team = team_of([turn(handoff("a")), "done"], {"a": breaks}, name="crew")
    host = Host(watched.store, process_id="all", instruments=watched.instruments)
    await host.start()
    worker, coordinator = MemberWorker(host, team, "a"), Coordinator(host, team)
    working = asyncio.create_task(worker.run())
    await watched.store.start_run(RunRecord(id="run", team="crew", task="go"))
    outcome = await coordinator.drive("run")
    await until(lambda: watched.count("lattice.messages.settled") == 1)
    await worker.stop()
    await working
    await host.stop()
    assert outcome["status"] == "succeeded"
    failed = watched.one("process crew::a")
    assert (failed.status.is_ok, failed.attributes["lattice.outcome"]) == (False, "failed")
    assert failed.attributes["error.type"]
    assert watched.one("invoke_workflow crew").attributes["lattice.outcome"] == "succeeded"
    assert watched.count("lattice.resume.latency") == 1
    assert watched.count("lattice.runs.finished") == 1


async def test_a_step_that_nobody_watches_goes_through(watched):
    await handed_off(watched.store, item())
    assert await watched.store.counts("backend") == {"pending": 1}
    assert await watched.store.get_run("run-1") is not None
    assert watched.store.options.max_attempts == 2
    assert await watched.store.append(Lease("run", "none", "w", 1), Step(conversation="c")) == "stale"
