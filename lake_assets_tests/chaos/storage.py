"""S3 and SQS on two ports of one server: one works, the other is disturbed.

Here: moto's server, the faults of its disturbed port, and the number of affected requests. Not here: the time of each
fault (`disturbances.py`).
"""

import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from lake_assets_tests.helpers.servers.s3 import client

Environ = dict[str, Any]
Start = Callable[..., Any]

BUCKET = "lake"
ANSWERS = {
    500: (
        "500 Internal Server Error",
        "InternalError",
        "We encountered an internal error. Please try again.",
    ),
    503: ("503 Slow Down", "SlowDown", "Please reduce your request rate."),
}


@dataclass(frozen=True, slots=True)
class Trouble:
    """The fault of a share of the requests to one service."""

    share: float
    kinds: tuple[str, ...]
    """`500`, `503`: refused; `500 after`: done, and answered as if it were not; `slow`: done, later."""
    seconds: float = 0.0
    """How slow, at most."""


class Storage:
    """The server, in this process."""

    def __init__(self, seed: int) -> None:
        self.troubles: dict[str, Trouble] = {}
        """By service, `s3` or `sqs`, as long as they last."""
        self.met: Counter[str] = Counter()
        """Requests by service and what happened to them."""
        self.queue = ""
        """The URL of the bucket's queue, by the disturbed port."""
        self._random = random.Random(seed)
        self._app = DomainDispatcherApplication(create_backend_app)
        self._servers = [
            make_server("127.0.0.1", 0, app, threaded=True) for app in (self._app, self._disturbed)
        ]
        for server in self._servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self.calm, self.disturbed = (f"http://127.0.0.1:{server.server_port}" for server in self._servers)

    def client(self, service: str) -> Any:
        """A client of the undisturbed port."""
        return client(service, self.calm)

    def make_bucket(self) -> None:
        """Creates the bucket, which keeps all versions and sends events of new objects to a queue."""
        s3, sqs = self.client("s3"), self.client("sqs")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        url: str = sqs.create_queue(QueueName="files", Attributes={"VisibilityTimeout": "20"})["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        events = ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]
        prefix = {"Key": {"FilterRules": [{"Name": "prefix", "Value": "dms/"}]}}
        s3.put_bucket_notification_configuration(
            Bucket=BUCKET,
            NotificationConfiguration={
                "QueueConfigurations": [{"QueueArn": arn, "Events": events, "Filter": prefix}]
            },
        )
        self.queue = url.replace(self.calm, self.disturbed)

    def versions(self, prefix: str) -> list[dict[str, Any]]:
        """Every version of every object that was ever written below the prefix, the newest of a key first."""
        pages = self.client("s3").get_paginator("list_object_versions").paginate(Bucket=BUCKET, Prefix=prefix)
        return [version for page in pages for version in page.get("Versions", ())]

    def close(self) -> None:
        """Stops serving."""
        for server in self._servers:
            server.shutdown()

    def _disturbed(self, environ: Environ, start: Start) -> Iterable[bytes]:
        service = _service(environ)
        trouble = self.troubles.get(service)
        if trouble is None or self._random.random() >= trouble.share:
            self.met[f"{service} answered"] += 1
            return self._app(environ, start)
        kind = self._random.choice(trouble.kinds)
        self.met[f"{service} {kind}"] += 1
        if kind == "slow":
            time.sleep(self._random.uniform(0, trouble.seconds))
            return self._app(environ, start)
        if kind.endswith("after"):
            list(self._app(environ, lambda *given: None))
        else:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        return _refused(int(kind.split()[0]), start)


def _service(environ: Environ) -> str:
    """As the request's signature names it."""
    scope = re.search(r"Credential=[^/]*/\d+/[^/]*/(\w+)/", environ.get("HTTP_AUTHORIZATION", ""))
    return scope[1] if scope is not None else "unsigned"


def _refused(status: int, start: Start) -> Iterable[bytes]:
    line, code, message = ANSWERS[status]
    body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
    start(line, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
    return [body]
