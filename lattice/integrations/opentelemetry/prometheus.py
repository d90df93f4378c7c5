"""The metrics of this process in the text format of Prometheus, and an endpoint that serves them."""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricsData

from lattice.errors import OptionError

__all__ = ["render", "serve_metrics"]

_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_:]")
_UNITS = {"s": "seconds", "ms": "milliseconds", "By": "bytes", "1": "ratio"}
_PATIENCE_SECONDS = 5.0


def render(data: MetricsData | None) -> bytes:
    """Return metrics as Prometheus reads them."""
    lines: list[str] = []
    for resource in data.resource_metrics if data is not None else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                lines.extend(_metric(metric))
    return ("\n".join(lines) + "\n").encode()


@asynccontextmanager
async def serve_metrics(port: int | None, reader: InMemoryMetricReader) -> AsyncIterator[int | None]:
    """Serve ``GET /metrics`` on ``port`` until the block ends (0 takes a free one); yields the port, None serves none.

    Raises:
        OptionError: the port is taken.
    """
    if port is None:
        yield None
        return

    async def answer(stream: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                request = await stream.readuntil(b"\r\n\r\n")
                writer.write(_response(request, reader))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked has left, or does not speak HTTP
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(answer, "0.0.0.0", port)  # noqa: S104 - scrapers come from outside
    except OSError as error:
        raise OptionError(f"cannot serve metrics on port {port}: {error.strerror or error}") from None
    async with server:
        yield server.sockets[0].getsockname()[1]


def _response(request: bytes, reader: InMemoryMetricReader) -> bytes:
    method, _, rest = request.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if path != b"/metrics" or method not in {b"GET", b"HEAD"}:
        return _http(b"404 Not Found", b"ask for /metrics\n")
    body = render(reader.get_metrics_data())
    return _http(b"200 OK", body if method == b"GET" else b"")


def _http(status: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %b\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: %d\r\n"
    return head % (status, len(body)) + b"Connection: close\r\n\r\n" + body


def _metric(metric: Any) -> Iterator[str]:
    data = metric.data
    is_histogram = hasattr(data, "data_points") and any(hasattr(point, "bucket_counts") for point in data.data_points)
    is_counter = getattr(data, "is_monotonic", False)
    name = _name(metric.name, metric.unit, "total" if is_counter else "")
    yield f"# HELP {name} {metric.description}"
    yield f"# TYPE {name} {'histogram' if is_histogram else 'counter' if is_counter else 'gauge'}"
    for point in data.data_points:
        labels = dict(point.attributes or {})
        if is_histogram:
            yield from _histogram(name, labels, point)
        else:
            yield f"{name}{_labels(labels)} {_number(point.value)}"


def _histogram(name: str, labels: Mapping[str, Any], point: Any) -> Iterator[str]:
    seen = 0
    for bound, count in zip((*point.explicit_bounds, math.inf), point.bucket_counts, strict=True):
        seen += count
        yield f"{name}_bucket{_labels({**labels, 'le': _number(bound)})} {seen}"
    yield f"{name}_sum{_labels(labels)} {_number(point.sum)}"
    yield f"{name}_count{_labels(labels)} {point.count}"


def _name(name: str, unit: str | None, suffix: str) -> str:
    parts = [name, _UNITS.get(unit or "", ""), suffix]
    return _FORBIDDEN.sub("_", "_".join(part for part in parts if part))


def _labels(labels: Mapping[str, Any]) -> str:
    if not labels:
        return ""
    shown = (f'{_FORBIDDEN.sub("_", key)}="{_escaped(str(value))}"' for key, value in sorted(labels.items()))
    return "{" + ",".join(shown) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if value == math.inf:
        return "+Inf"
    return str(int(value)) if float(value).is_integer() else repr(float(value))
