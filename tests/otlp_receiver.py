"""A local HTTP server that takes what OTLP exporters send, and the spans and metrics in it."""

import gzip
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}


@dataclass(frozen=True)
class Span:
    name: str
    kind: str
    trace_id: str
    id: str
    parent: str
    service: str
    process: str
    schema: str
    attributes: dict
    links: tuple
    failed: bool
    events: tuple = field(default=())


def value_of(value):
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return tuple(value_of(item) for item in value.array_value.values)
    return getattr(value, kind) if kind else None


def attributes_of(pairs):
    return {pair.key: value_of(pair.value) for pair in pairs}


class OtlpReceiver:
    """``url`` is what OTEL_EXPORTER_OTLP_ENDPOINT is set to."""

    def __init__(self):
        self._lock = threading.Lock()
        self._spans = []
        self._metrics = {}
        self.status = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.take(self.path, body)
                self.send_response(receiver.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, path, body):
        with self._lock:
            if path == "/v1/traces":
                self._take_spans(ExportTraceServiceRequest.FromString(body))
            elif path == "/v1/metrics":
                self._take_metrics(ExportMetricsServiceRequest.FromString(body))

    def _take_spans(self, request):
        for resource in request.resource_spans:
            about = attributes_of(resource.resource.attributes)
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self._spans.append(
                        Span(
                            name=span.name,
                            kind=KINDS[span.kind],
                            trace_id=span.trace_id.hex(),
                            id=span.span_id.hex(),
                            parent=span.parent_span_id.hex(),
                            service=about["service.name"],
                            process=about.get("service.instance.id", ""),
                            schema=scope.schema_url,
                            attributes=attributes_of(span.attributes),
                            links=tuple(link.span_id.hex() for link in span.links),
                            failed=span.status.code == 2,
                        )
                    )

    def _take_metrics(self, request):
        for resource in request.resource_metrics:
            process = attributes_of(resource.resource.attributes).get("service.instance.id", "")
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    data = getattr(metric, metric.WhichOneof("data"))
                    self._metrics[process, metric.name] = list(data.data_points)

    @property
    def spans(self):
        with self._lock:
            return list(self._spans)

    def points(self, name):
        """The latest data points of a metric, of all processes."""
        with self._lock:
            return [point for (_, metric), points in self._metrics.items() if metric == name for point in points]

    @property
    def metric_names(self):
        with self._lock:
            return {name for _, name in self._metrics}
