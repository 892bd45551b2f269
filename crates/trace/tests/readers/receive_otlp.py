"""A receiver of OpenTelemetry on loopback. Prints its port, takes one POST to each path by the official protobuf types, and
prints what they hold. With `collector` the port is that of a collector, Rotel, which forwards what it understood."""
import gzip
import http.server
import os
import socket
import subprocess
import sys
import tempfile
import time

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

TYPES = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
received = {}


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        assert self.headers["Content-Type"] == "application/x-protobuf", self.headers
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        received[self.path] = TYPES[self.path].FromString(body)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def plain(attributes):
    values = ((pair.key, getattr(pair.value, pair.value.WhichOneof("value"))) for pair in attributes)
    return ", ".join(f"{key}={value!r}" for key, value in sorted(values))


def spans(request):
    # Requests are divided into blocks that repeat the resource.
    resources = {plain(block.resource.attributes) for block in request.resource_spans}
    assert len(resources) == 1, resources
    yield f"resource: {resources.pop()}"
    scopes = [scope for block in request.resource_spans for scope in block.scope_spans]
    assert {scope.scope.name for scope in scopes} == {"ellwand"}, scopes
    every = [span for scope in scopes for span in scope.spans]
    by_id = {span.span_id: span for span in every}
    assert len(by_id) == len(every) and all(len(span.span_id) == 8 and any(span.span_id) for span in every)
    traces = {}
    for span in every:
        assert len(span.trace_id) == 16 and any(span.trace_id), span
        assert not span.parent_span_id or by_id[span.parent_span_id].trace_id == span.trace_id, span
        number = traces.setdefault(span.trace_id, len(traces))
        parent = by_id[span.parent_span_id].name if span.parent_span_id else "nothing"
        when = f"{span.start_time_unix_nano}..{span.end_time_unix_nano}"
        yield f"trace {number}: {span.name} in {parent} {when} {plain(span.attributes)}"


def metrics(request):
    for scope in request.resource_metrics[0].scope_metrics:
        for metric in scope.metrics:
            kind = metric.WhichOneof("data")
            for point in getattr(metric, kind).data_points:
                if kind == "sum":
                    assert metric.sum.is_monotonic and metric.sum.aggregation_temporality == 2, metric
                    value = f"{point.as_double:.6g}"
                else:
                    quantiles = [f"{value.quantile}: {value.value:.3g}" for value in point.quantile_values]
                    value = f"{point.count} in {point.sum:.6g} ({', '.join(quantiles)})"
                yield f"{metric.name} [{metric.unit}] {plain(point.attributes)}: {value}"


def free():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def collector(to, home):
    """A collector that listens on loopback and forwards to the port `to`, and its port."""
    import rotel

    http, grpc = free(), free()
    args = ["--otlp-http-endpoint", f"127.0.0.1:{http}", "--otlp-grpc-endpoint", f"127.0.0.1:{grpc}"]
    args += ["--exporter", "otlp", "--otlp-exporter-protocol", "http"]
    args += ["--otlp-exporter-endpoint", f"http://127.0.0.1:{to}", "--pid-file", f"{home}/pid"]
    program = os.path.join(os.path.dirname(rotel.__file__), "rotel-agent")
    process = subprocess.Popen([program, "start", *args], stdout=subprocess.DEVNULL, cwd=home)
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", http)).close()
            return process, http
        except ConnectionRefusedError:
            time.sleep(0.02)
    sys.exit(f"the collector ended with {process.returncode}")


class Server(http.server.HTTPServer):
    timeout = 60

    def handle_timeout(self):
        sys.exit("no request came")


server = Server(("127.0.0.1", 0), Receiver)
port, process = server.server_address[1], None
with tempfile.TemporaryDirectory() as home:
    try:
        if "collector" in sys.argv:
            process, port = collector(port, home)
        print(port, flush=True)
        while len(received) < 2:
            server.handle_request()
    finally:
        if process:
            process.terminate()
            process.wait()
print("\n".join([*spans(received["/v1/traces"]), *metrics(received["/v1/metrics"])]))
