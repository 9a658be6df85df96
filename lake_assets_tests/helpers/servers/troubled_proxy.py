"""A proxy before a server of HTTP that is slow, and that sometimes refuses a request as a busy S3 does."""

import http.client
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from urllib.parse import urlsplit

SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_OF_A_CONNECTION = ("connection", "expect", "keep-alive", "proxy-connection", "transfer-encoding")


@contextmanager
def troubled_proxy(
    server: str, *, seconds: float, refused: float, seed: int = 0
) -> Iterator[tuple[str, Counter[str]]]:
    """The proxy's address, and how many requests it has passed on and refused (`passed`, `refused`). `seconds`: by
    which each request is delayed; `refused`: the share of requests that it answers with 503."""
    random, counted, lock = Random(seed), Counter[str](), threading.Lock()
    host = urlsplit(server).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Otherwise each answer waits for the client's acknowledgement of its head, 40 ms.
        disable_nagle_algorithm = True

        def handle(self) -> None:
            # Of a client that is gone.
            with suppress(ConnectionError):
                super().handle()

        def answer(self) -> None:
            body = self.body()
            time.sleep(seconds)
            with lock:
                refuses = random.random() < refused
                counted["refused" if refuses else "passed"] += 1
            if refuses:
                self.reply(503, [("Content-Type", "application/xml")], SLOW_DOWN)
            else:
                self.pass_on(body)

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            pieces = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)

        def pass_on(self, body: bytes) -> None:
            connection = http.client.HTTPConnection(host, timeout=60)
            try:
                connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in _OF_A_CONNECTION:
                        connection.putheader(name, value)
                if body and "Content-Length" not in self.headers:
                    connection.putheader("Content-Length", str(len(body)))
                connection.endheaders(body or None)
                answer = connection.getresponse()
                self.reply(answer.status, answer.getheaders(), answer.read())
            except OSError:
                self.close_connection = True
            finally:
                connection.close()

        def reply(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in (*_OF_A_CONNECTION, "content-length"):
                    self.send_header(name, value)
            length = {name.lower(): value for name, value in headers}.get("content-length")
            # The answer to HEAD has the length of an object that it does not have.
            self.send_header(
                "Content-Length", length if self.command == "HEAD" and length else str(len(body))
            )
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

        def log_message(self, *_: object) -> None:
            """Prints nothing."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.daemon_threads = True
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{proxy.server_port}", counted
    proxy.shutdown()
    proxy.server_close()
