"""Sets OpenTelemetry up for a process, by the standard ``OTEL_*`` variables."""

import asyncio
import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from lattice.errors import OptionError
from lattice.integrations.opentelemetry.telling import Telling

__all__ = ["Telemetry", "start_telemetry"]

_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_PROTOCOL = "http/protobuf"
_OTLP = "opentelemetry.exporter.otlp.proto.http"


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The providers of a process; a provider is None if nobody wants what it makes.

    ``reader`` is what ``serve_metrics()`` reads from.
    """

    tracer_provider: TracerProvider | None
    meter_provider: MeterProvider | None
    reader: InMemoryMetricReader | None
    exporters: tuple[Telling, ...] = ()

    @property
    def enabled(self) -> bool:
        """Whether anything is recorded."""
        return self.tracer_provider is not None or self.meter_provider is not None

    def publish(self) -> None:
        """Make the providers those of the process, so that what tools and libraries trace goes the same way.

        Providers that the application has set already stay.
        """
        if self.tracer_provider is not None and isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            trace.set_tracer_provider(self.tracer_provider)
        if self.meter_provider is not None and not isinstance(metrics.get_meter_provider(), MeterProvider):
            metrics.set_meter_provider(self.meter_provider)

    async def shutdown(self, within: float = 3.0) -> None:
        """Export what is left and end the exporters; one that gets no answer ``within`` so many seconds is cut off."""
        providers = [provider for provider in (self.tracer_provider, self.meter_provider) if provider is not None]
        if not providers:
            return
        ending = [asyncio.ensure_future(asyncio.to_thread(provider.shutdown)) for provider in providers]
        patience = 0.5 if any(exporter.is_away for exporter in self.exporters) else within
        _, late = await asyncio.wait(ending, timeout=min(patience, within))
        if late:
            for exporter in self.exporters:
                exporter.cut_off()
            await asyncio.wait(late, timeout=within)


def start_telemetry(
    service_name: str,
    *,
    attributes: Mapping[str, str] | None = None,
    prometheus: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Telemetry:
    """Make the providers that the environment asks for.

    Spans and metrics go to OTLP if ``OTEL_EXPORTER_OTLP_ENDPOINT`` (or its variant for one signal) is set, or
    ``OTEL_TRACES_EXPORTER`` / ``OTEL_METRICS_EXPORTER`` is ``otlp``; ``none`` and ``OTEL_SDK_DISABLED=true`` switch
    them off. ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` win over what is given here.

    Args:
        service_name: ``service.name``.
        attributes: more attributes of the resource, for instance team and member.
        prometheus: whether metrics are kept for ``serve_metrics()`` as well.
        environment: stands in for ``os.environ``.

    Raises:
        OptionError: OTLP is asked for and its exporter is not installed, or in a protocol that it does not speak.
    """
    variables = os.environ if environment is None else environment
    if variables.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return Telemetry(None, None, None)
    traces, measures = _wants(variables, "TRACES"), _wants(variables, "METRICS")
    if (traces or measures) and not _has_exporter():
        raise OptionError(f'{_ENDPOINT} is set, and needs an extra: pip install "agent-lattice[otlp]"')
    if traces or measures:
        _check_protocol(variables)
    resource = _resource(service_name, attributes or {})
    reader = InMemoryMetricReader() if prometheus else None
    exporters: list[Telling] = []
    return Telemetry(
        _tracer_provider(resource, exporters) if traces else None,
        _meter_provider(resource, reader, exporters, exports=measures) if measures or prometheus else None,
        reader,
        tuple(exporters),
    )


def _check_protocol(variables: Mapping[str, str]) -> None:
    for signal in ("", "TRACES_", "METRICS_"):
        name = f"OTEL_EXPORTER_OTLP_{signal}PROTOCOL"
        protocol = variables.get(name, _PROTOCOL)
        if protocol != _PROTOCOL:
            raise OptionError(f"{name} is {protocol!r}; lattice speaks {_PROTOCOL}, which collectors take on port 4318")


def _resource(service_name: str, attributes: Mapping[str, str]) -> Resource:
    named = Resource.create()  # by the variables; what nobody said is made up
    said = OTELResourceDetector().detect().attributes
    ours = {"service.name": service_name, **attributes}
    return named.merge(Resource({key: value for key, value in ours.items() if key not in said}))


def _wants(variables: Mapping[str, str], signal: str) -> bool:
    exporters = variables.get(f"OTEL_{signal}_EXPORTER")
    if exporters is not None:
        return "otlp" in {name.strip() for name in exporters.split(",")}
    return bool(variables.get(_ENDPOINT) or variables.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"))


def _has_exporter() -> bool:
    try:
        return importlib.util.find_spec(_OTLP) is not None
    except ModuleNotFoundError:
        return False


def _tracer_provider(resource: Resource, exporters: list[Telling]) -> TracerProvider:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - an extra
        OTLPSpanExporter,
    )

    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter: Any = Telling(OTLPSpanExporter(), "spans")
    exporters.append(exporter)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _meter_provider(
    resource: Resource, reader: InMemoryMetricReader | None, exporters: list[Telling], *, exports: bool
) -> MeterProvider:
    readers: list[MetricReader] = [] if reader is None else [reader]
    if exports:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - an extra
            OTLPMetricExporter,
        )

        exporter: Any = Telling(OTLPMetricExporter(), "metrics")
        exporters.append(exporter)
        readers.append(PeriodicExportingMetricReader(exporter))
    return MeterProvider(readers, resource=resource, shutdown_on_exit=False)
