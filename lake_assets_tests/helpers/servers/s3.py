"""AWS on this machine: moto's server, its keys, and clients of it.

Here: S3, and parts common to all services. Not here: DMS, which moto does not support fully (`dms_task.py`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import boto3

ACCESS: dict[str, Any] = {
    "region": "us-east-1",
    "access_key_id": "an-access-key",
    "secret_access_key": "a-secret",
}
"""The credentials for the tests' servers, by their keys in lake.yaml."""


@contextmanager
def s3_server() -> Iterator[str]:
    """The address of a server that runs inside of the block."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@contextmanager
def watched_server(watch: Callable[[dict[str, Any]], bytes | None]) -> Iterator[str]:
    """The address of a server that calls `watch` with each request. It refuses a request with what that returns, as the
    XML of the refusal; with None, it answers."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    serve = DomainDispatcherApplication(create_backend_app)

    def answer(environ: dict[str, Any], start: Any) -> Any:
        if (refusal := watch(environ)) is None:
            return serve(environ, start)
        start("403 Forbidden", [("Content-Type", "application/xml"), ("Content-Length", str(len(refusal)))])
        return [refusal]

    server = make_server("127.0.0.1", 0, answer, threaded=True)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def credentials(endpoint: str) -> dict[str, str]:
    """The environment of a process that uses such a server."""
    keys = {f"AWS_{key.upper()}": ACCESS[key] for key in ("access_key_id", "secret_access_key", "region")}
    return {**keys, "AWS_ENDPOINT_URL_S3": endpoint}


def client(service: str, endpoint: str | None, **options: Any) -> Any:
    """A boto3 client of such a server, for a service such as `s3` or `sqs`; `options` are boto3's own."""
    return boto3.client(service, endpoint_url=endpoint, **_boto_access() | options)


def resource(service: str, endpoint: str | None) -> Any:
    """The same as a boto3 resource."""
    return boto3.resource(service, endpoint_url=endpoint, **_boto_access())


def _boto_access() -> dict[str, Any]:
    return {
        "region_name": ACCESS["region"],
        "aws_access_key_id": ACCESS["access_key_id"],
        "aws_secret_access_key": ACCESS["secret_access_key"],
    }


def files_in_s3(endpoint: str) -> dict[str, str]:
    """The settings of the catalog's section for a warehouse on such a server."""
    return {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": endpoint,
        "s3.access-key-id": ACCESS["access_key_id"],
        "s3.secret-access-key": ACCESS["secret_access_key"],
        "s3.path-style-access": "true",
        "s3.region": ACCESS["region"],
        "client.region": ACCESS["region"],
    }
