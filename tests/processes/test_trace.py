"""One run over six processes: one trace, by the names of the conventions; metrics; logs that can be joined to it."""

import json
import signal

import pytest

from tests.apps.traced import SECRET
from tests.otlp_receiver import OtlpReceiver, attributes_of

pytestmark = [pytest.mark.redis, pytest.mark.processes, pytest.mark.timeout(120)]

MEMBERS = ("alpha", "beta", "inner")
SCHEMA = "https://opentelemetry.io/schemas/1.41.0"
MESSAGING = {"send", "receive", "process", "settle"}
GEN_AI = {"invoke_workflow", "invoke_agent", "chat", "execute_tool"}


@pytest.fixture
def receiver():
    receiver = OtlpReceiver()
    yield receiver
    receiver.stop()


@pytest.fixture
async def run(scripts, receiver):
    """One run from submit to result in processes of their own, which have ended; what they exported and logged."""
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "200"}
    options = {"LATTICE_APP": "tests.apps.traced:team", **env}
    processes = [scripts.start("lattice-coordinator", "--log-level", "debug", **options)]
    for member in MEMBERS:
        processes.append(scripts.start("lattice-worker", "--member", member, "--log-level", "debug", **options))
    submit = await scripts.done("lattice-submit", "--wait", "--json", f"a task {SECRET}", **options, bound=60)
    outcome = json.loads(submit.out)
    assert outcome["status"] == "succeeded", submit.err
    for process in processes:
        process.kill(signal.SIGTERM)
    for process in processes:
        assert await process.ended() == 0, process.err
    return Run(receiver, outcome, processes, submit)


class Run:
    def __init__(self, receiver, outcome, processes, submit):
        self.receiver, self.outcome, self.processes, self.submit = receiver, outcome, processes, submit
        self.spans = receiver.spans
        self.by_id = {span.id: span for span in self.spans}

    def one(self, name):
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def below(self, name):
        """All spans below the one of that name."""
        top = self.one(name)
        return [span for span in self.spans if self._is_below(span, top)]

    def _is_below(self, span, top):
        while span.parent and span.parent != top.id:
            span = self.by_id[span.parent]
        return span.parent == top.id

    @staticmethod
    def labels(point):
        return attributes_of(point.attributes)

    def counted(self, metric):
        """The sums of a counter by member."""
        found = {}
        for point in self.receiver.points(metric):
            member = self.labels(point)["lattice.member"]
            found[member] = found.get(member, 0) + point.as_int
        return found

    def path(self, span):
        """The names from the root down to a span."""
        names = [span.name]
        while span.parent:
            span = self.by_id[span.parent]
            names.append(span.name)
        return names[::-1]


def check_one_connected_trace(run):
    assert len({span.trace_id for span in run.spans}) == 1
    assert [span.name for span in run.spans if not span.parent] == ["send lattice-outer"]
    assert [span.name for span in run.spans if span.parent and span.parent not in run.by_id] == []
    assert len({span.process for span in run.spans}) == 2 + len(MEMBERS)
    assert {span.service for span in run.spans} == {"lattice-submit", "lattice-coordinator", "lattice-worker"}


def check_tree(run):
    """From the submit through the lead's leg and a handoff to a member's tool, twice as deep in the nested team."""
    outside = ["send lattice-outer", "process lattice-outer", "invoke_workflow outer", "invoke_agent outer"]
    for member in ("alpha", "beta"):
        handoff = [*outside, f"execute_tool {member}", f"send outer::{member}", f"process outer::{member}"]
        below = run.below(f"process outer::{member}")
        assert sorted(run.path(span)[len(handoff) :] for span in below) == [
            [f"invoke_agent {member}"],
            [f"invoke_agent {member}", "chat scripted"],
            [f"invoke_agent {member}", "chat scripted"],
            [f"invoke_agent {member}", "execute_tool look_up"],
            [f"settle outer::{member}"],
            [f"settle outer::{member}", "send manager"],
        ]
        assert all(run.path(span)[: len(handoff)] == handoff for span in below)
    inside = [*outside, "execute_tool inner", "send outer::inner", "process outer::inner"]
    inside += ["process lattice-outer.inner", "invoke_workflow outer.inner", "invoke_agent inner"]
    deepest = [*inside, "execute_tool delta", "send inner::delta", "process inner::delta", "invoke_agent delta"]
    assert [*deepest, "execute_tool look_up"] in [run.path(span) for span in run.spans]


def check_reports_lead_to_the_next_leg(run):
    """A leg is a child of the workflow; between two legs stands what was received, linked to each report's sending."""
    workflow = run.one("invoke_workflow outer")
    steps = [span.name for span in run.spans if span.parent == workflow.id]
    assert sorted(steps) == ["invoke_agent outer", "invoke_agent outer", "receive manager"]
    (received,) = [span for span in run.spans if span.name == "receive manager" and span.parent == workflow.id]
    senders = [run.by_id[run.by_id[link].parent].name for link in received.links]
    assert senders == ["settle outer::alpha", "settle outer::beta", "settle outer::inner"]
    for member in MEMBERS:
        assert run.one(f"process outer::{member}").links == (run.one(f"send outer::{member}").id,)


def check_names_of_the_conventions(run):
    kinds = {"send": "producer", "receive": "consumer", "process": "consumer", "settle": "client", "chat": "client"}
    for span in run.spans:
        operation, _, target = span.name.partition(" ")
        told = span.attributes
        assert span.schema == SCHEMA
        assert span.kind == kinds.get(operation, "internal")
        assert not span.failed
        if operation in MESSAGING:
            assert told["messaging.system"] == "lattice"
            assert told["messaging.operation.type"] == told["messaging.operation.name"] == operation
            assert told["messaging.destination.name"] == target
        else:
            assert operation in GEN_AI
            assert told["gen_ai.operation.name"] == operation
        if operation == "process":
            assert told["messaging.message.id"]
            assert told["lattice.attempt"] == 1
        if operation == "chat":
            assert told["gen_ai.request.model"] == "scripted"
            assert (told["gen_ai.usage.input_tokens"], told["gen_ai.usage.output_tokens"]) == (10, 5)
        if operation == "execute_tool":
            assert told["gen_ai.tool.name"] == target
            assert told["gen_ai.tool.call.id"]
        if operation == "invoke_agent":
            assert told["gen_ai.agent.name"] == target
    assert run.one("invoke_workflow outer").attributes["lattice.run_id"] == run.outcome["run_id"]
    assert run.one("invoke_workflow outer").attributes["lattice.outcome"] == "succeeded"
    assert run.one("process outer::alpha").attributes["lattice.outcome"] == "done"


def check_metrics(run):
    """What the processes counted in the end; the nested team's mailbox is counted under its own key space."""
    assert run.counted("lattice.messages.sent") == {"alpha": 1, "beta": 1, "inner": 1, "delta": 1}
    assert run.counted("lattice.messages.claimed") == run.counted("lattice.messages.settled")
    assert run.counted("lattice.messages.settled") == {"alpha": 1, "beta": 1, "inner": 1, "delta": 1}
    (resumed,) = [p for p in run.receiver.points("lattice.resume.latency") if run.labels(p)["lattice.team"] == "outer"]
    assert resumed.count == 1
    assert {run.labels(p)["lattice.member"] for p in run.receiver.points("lattice.mailbox.depth")} >= set(MEMBERS)
    tokens = run.receiver.points("gen_ai.client.token.usage")
    inputs = sum(p.sum for p in tokens if run.labels(p)["gen_ai.token.type"] == "input")
    assert inputs == 10 * len([span for span in run.spans if span.name == "chat scripted"])
    names = {"gen_ai.client.operation.duration", "lattice.claim.latency", "lattice.mailbox.oldest_age"}
    assert names <= run.receiver.metric_names


def check_nothing_said_leaks(run):
    for span in run.spans:
        assert SECRET not in str(span)
    for process in run.processes:
        assert SECRET not in process.err + process.out


def check_log_lines(run):
    """Each line can be parsed and says who wrote it; lines about work say which work, in which trace."""
    (trace_id,) = {span.trace_id for span in run.spans}
    about_work = []
    for process in run.processes:
        for line in process.err.splitlines():
            told = json.loads(line)
            assert told["team"]
            assert told["worker"].startswith(told["role"])
            assert told["role"] == "coordinator" or told["member"]
            if "message_id" in told or "run_id" in told:
                about_work.append(told)
    for told in about_work:
        assert told["trace_id"] == trace_id
        assert told["attempt"] == 1
        assert told["run_id"]
    assert {told["role"] for told in about_work} == {"coordinator", "worker"}
    assert {told["member"] for told in about_work if told["role"] == "worker"} == {*MEMBERS, "delta"}


async def test_one_run_over_six_processes(run):
    check_one_connected_trace(run)
    check_tree(run)
    check_reports_lead_to_the_next_leg(run)
    check_names_of_the_conventions(run)
    check_metrics(run)
    check_nothing_said_leaks(run)
    check_log_lines(run)
