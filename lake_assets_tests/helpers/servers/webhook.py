"""A local HTTP server that takes alarms, as a chat or an on-call service does.

Here: the server, with faults on demand. Not here: what is sent to it (`lake_assets/alarms/`).
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "T0K3N-of-the-webhook"


@dataclass(slots=True)
class Webhook:
    """What it received, and how it answers from now on."""

    address: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    """Of the accepted requests."""
    keys: list[str | None] = field(default_factory=list)
    """The header Idempotency-Key of the accepted requests."""
    token: str = TOKEN
    """Without it, a request is answered by 403, as after a rotation."""
    requests: int = 0
    status: int = 200
    silent_seconds: float = 0.0
    """How long it waits before it answers."""

    @property
    def texts(self) -> list[str]:
        return [body["text"] for body in self.bodies]

    @property
    def ids(self) -> list[str]:
        return [body["id"] for body in self.bodies]


@contextmanager
def webhook_server() -> Iterator[Webhook]:
    """A server on a free port of this machine, with a token in its path."""
    found = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.requests += 1
            time.sleep(found.silent_seconds)
            status = found.status if self.path == f"/hooks/{found.token}" else 403
            if status == 200:
                found.bodies.append(json.loads(body))
                found.keys.append(self.headers["Idempotency-Key"])
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *anything: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.address = f"http://127.0.0.1:{server.server_port}/hooks/{TOKEN}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
