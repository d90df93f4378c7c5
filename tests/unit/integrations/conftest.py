import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lattice.tracer import ContextTraceEvent


class Receiver:
    """A local HTTP server that takes what a tracing client sends; ``requests`` holds method, path, headers and body."""

    def __init__(self):
        self.requests = []
        self.status = 202
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                headers = {name.lower(): value for name, value in self.headers.items()}
                receiver.requests.append((self.command, self.path, headers, body))
                self.send_response(receiver.status if self.command != "GET" else 404)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_GET = do_POST = do_PATCH = handle_any

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


@pytest.fixture
def receiver():
    server = Receiver()
    yield server
    server.stop()


@pytest.fixture
def events():
    """Makes trace events: ``events("run_start", model="m")``; the clock moves on by a second each time."""
    seq = 0

    def make(kind, *, run="r1", parent=None, source=None, session="s1", **data):
        nonlocal seq
        seq += 1
        return ContextTraceEvent(
            version=1,
            timestamp=f"2026-06-28T12:00:{seq % 60:02d}.000Z",
            seq=seq,
            session_id=session,
            run_id=run,
            source=source or {"kind": "agent", "name": "ada"},
            type=kind,
            data=data,
            parent_run_id=parent,
        )

    return make
