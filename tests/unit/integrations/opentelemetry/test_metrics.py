import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from lattice.integrations.opentelemetry import MailboxMetrics


@pytest.fixture
def reader():
    return InMemoryMetricReader()


@pytest.fixture
def metrics(reader):
    provider = MeterProvider([reader])
    yield MailboxMetrics("eng", provider)
    provider.shutdown()


def points(reader):
    data = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    return {metric.name: list(metric.data.data_points) for metric in data}


def test_messages_are_counted_by_what_happens_to_them(metrics, reader):
    metrics.count("messages.sent", 3, member="backend")
    metrics.count("messages.settled", member="backend", status="done")
    found = points(reader)
    (sent,) = found["lattice.messages.sent"]
    assert (sent.value, dict(sent.attributes)) == (3, {"lattice.team": "eng", "lattice.member": "backend"})
    assert found["lattice.messages.settled"][0].attributes["lattice.status"] == "done"


def test_waits_depth_and_age_are_measured(metrics, reader):
    metrics.waited("claim.latency", 0.25, member="backend")
    metrics.waited("claim.latency", -1, member="backend")
    metrics.mailbox("backend", 7, 12.5)
    found = points(reader)
    assert (found["lattice.claim.latency"][0].count, found["lattice.claim.latency"][0].min) == (2, 0)
    assert found["lattice.mailbox.depth"][0].value == 7
    assert found["lattice.mailbox.oldest_age"][0].value == 12.5


def test_a_name_that_is_no_metric_is_an_error(metrics):
    with pytest.raises(KeyError):
        metrics.count("messages.lost")
