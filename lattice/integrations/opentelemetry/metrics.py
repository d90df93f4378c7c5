"""Metrics of model calls and of mailboxes, under the names of the conventions where there are any."""

from typing import Any

from opentelemetry import metrics

from lattice.integrations.opentelemetry import conventions as names

__all__ = ["MailboxMetrics", "ModelMetrics"]

_SCOPE = "lattice"
_TOKEN_BUCKETS = [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864]
_CALL_BUCKETS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_WAIT_BUCKETS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800]


class ModelMetrics:
    """Token usage and duration of model calls."""

    def __init__(self, provider: metrics.MeterProvider | None = None) -> None:
        meter = _meter(provider)
        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE_METRIC,
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )
        self._duration = meter.create_histogram(
            names.DURATION_METRIC,
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_CALL_BUCKETS,
        )

    def call_ended(self, seconds: float, attributes: dict[str, Any], error: str | None) -> None:
        """Count a model call; ``error`` is the kind of its failure."""
        labels = attributes if error is None else {**attributes, names.ERROR_TYPE: error}
        self._duration.record(max(seconds, 0.0), labels)

    def tokens_used(self, inputs: int, outputs: int, attributes: dict[str, Any]) -> None:
        """Count the tokens of a response, cached ones included."""
        self._tokens.record(inputs, {**attributes, names.TOKEN_TYPE: "input"})
        self._tokens.record(outputs, {**attributes, names.TOKEN_TYPE: "output"})


class MailboxMetrics:
    """What happens to the messages and leases of one team; for the processes that work on it."""

    def __init__(self, team: str, provider: metrics.MeterProvider | None = None) -> None:
        self._team = team
        meter = _meter(provider)
        self._counters = {
            name: meter.create_counter(f"lattice.{name}", unit=unit, description=description)
            for name, unit, description in (
                ("messages.sent", "{message}", "Messages put into mailboxes."),
                ("messages.claimed", "{message}", "Messages taken out of mailboxes to be worked on."),
                ("messages.settled", "{message}", "Messages that reached a terminal state."),
                ("messages.redelivered", "{message}", "Messages whose lease expired and that went back."),
                ("messages.dead", "{message}", "Messages that ran out of attempts."),
                ("runs.finished", "{run}", "Runs that reached a terminal state."),
                ("leases.lost", "{lease}", "Leases that were lost by the one who held them."),
                ("writes.fenced", "{write}", "Writes that were refused because the lease was gone."),
                ("loop.stalls", "{stall}", "Times that the event loop was blocked for too long."),
            )
        }
        self._waits = {
            name: meter.create_histogram(
                f"lattice.{name}",
                unit="s",
                description=description,
                explicit_bucket_boundaries_advisory=_WAIT_BUCKETS,
            )
            for name, description in (
                ("claim.latency", "Time from the send of a message to its claim."),
                ("resume.latency", "Time from the last report to the next leg of the lead."),
            )
        }
        self._depth = meter.create_gauge("lattice.mailbox.depth", unit="{message}", description="Messages that wait.")
        self._age = meter.create_gauge("lattice.mailbox.oldest_age", unit="s", description="Age of the oldest one.")

    def count(self, name: str, amount: int = 1, **labels: str) -> None:
        """Add to a counter, for instance ``count("messages.settled", member="backend", status="done")``."""
        self._counters[name].add(amount, self._labels(labels))

    def waited(self, name: str, seconds: float, **labels: str) -> None:
        """Record a time, ``"claim.latency"`` or ``"resume.latency"``."""
        self._waits[name].record(max(seconds, 0.0), self._labels(labels))

    def mailbox(self, member: str, depth: int, oldest_age: float, **more: str) -> None:
        """Record how many messages wait for a member, and for how many seconds the oldest has."""
        labels = self._labels({"member": member, **more})
        self._depth.set(depth, labels)
        self._age.set(oldest_age, labels)

    def _labels(self, labels: dict[str, str]) -> dict[str, str]:
        return {names.TEAM: self._team, **{f"lattice.{key}": value for key, value in labels.items()}}


def _meter(provider: metrics.MeterProvider | None) -> metrics.Meter:
    return metrics.get_meter(_SCOPE, schema_url=names.SCHEMA_URL, meter_provider=provider)
