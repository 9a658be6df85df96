"""The address of a Spark Connect server, and whether it answers.

Here: what a client needs in order to connect, and what its errors say of the server. Not here: a server on this machine
(`connect_server.py`) or at Amazon EMR (`emr_session.py`), sessions (`spark/session.py`).
"""

import socket
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from lake_assets.errors import with_causes
from lake_assets.spark.connect.connect_token import token_at
from lake_assets.spark.internals.pyspark_private import channel_builder
from lake_assets.spark.preflight import PreflightError

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
CONNECT_SECONDS = 10.0
UNAUTHENTICATED = "StatusCode.UNAUTHENTICATED"
SERVER_LOST = (
    "StatusCode.UNAVAILABLE",
    "NO_ACTIVE_SESSION",
    "INVALID_HANDLE.SESSION",
    "SESSION_CHANGED",
    "SESSION_CLOSED",
    "INVALID_CURSOR.DISCONNECTED",
    "failed to connect to all addresses",
    "RETRIES_EXCEEDED",
    # Each server has a token of its own.
    UNAUTHENTICATED,
    # Proxies before a server that has ended, such as EMR's: HTTP's 403 and 404, which no Spark Connect server sends.
    "StatusCode.PERMISSION_DENIED",
    "StatusCode.UNIMPLEMENTED",
)
"""Parts of the errors of the client or of gRPC when the server has died, or another one has replaced it."""
DEFAULT_PORT = 15002
KEEPALIVE = {
    # By default, a call waits forever for a server that hangs, or whose machine was switched off. A working server
    # reports progress every two seconds; gRPC pings a silent one, and not so often that the server refuses the pings.
    "grpc.keepalive_time_ms": 60_000,
    "grpc.keepalive_timeout_ms": 20_000,
}


class SparkRefused(PreflightError):
    """A Spark Connect server answers, but refuses this user's token."""


class ConnectAddress(NamedTuple):
    """How a client reaches a server."""

    remote: str
    """`sc://host:port/;parameters`."""
    token: str | None = None
    """The token, if it is not among the parameters."""
    headers: Callable[[], Mapping[str, str]] | None = None
    """Returns the headers that each call needs at that moment."""

    def builder(self) -> Any:
        """PySpark's builder of channels to the server. Raises ImportError."""
        return channel_builder(self.remote, self.token, [*KEEPALIVE.items()], self.headers)


def connect_address(remote: str) -> ConnectAddress:
    """The address with the token of the server that this user has started on this machine, if it has none."""
    host, port = server_address(remote)
    if host not in LOCAL_HOSTS:
        return ConnectAddress(remote)
    # `localhost` is the only host to which PySpark sends a token without TLS.
    return ConnectAddress(_named_localhost(remote), token_at(port) if given_token(remote) is None else None)


def given_token(remote: str) -> str | None:
    """The token in an address (`sc://host:port/;token=…`), or None."""
    parameters = (part.partition("=") for part in remote.split(";")[1:])
    return next((unquote(value) for name, _, value in parameters if name == "token"), None)


def _named_localhost(remote: str) -> str:
    parts = urlsplit(remote)
    name = parts.netloc.replace("127.0.0.1", "localhost").replace("[::1]", "localhost")
    return urlunsplit(parts._replace(netloc=name))


def server_address(remote: str) -> tuple[str, int]:
    """Host and port of `sc://host:port/;parameters`; a parameter may be a token."""
    parts = urlsplit(remote)
    return parts.hostname or "localhost", parts.port or DEFAULT_PORT


def check_server(remote: str) -> None:
    """Raises PreflightError unless something listens at the address; Spark's client would take minutes to fail."""
    host, port = server_address(remote)
    try:
        socket.create_connection((host, port), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise PreflightError(
            f"No Spark Connect server answers at {host}:{port} ({error.strerror or error}): start one on this machine "
            "with `lake-assets spark start`, correct spark.remote in lake.yaml, or set spark.mode to embedded."
        ) from error


def refused(remote: str, error: Exception) -> PreflightError:
    """The error for a user, if a server that listens refuses the token or does not answer."""
    host, port = server_address(remote)
    if UNAUTHENTICATED not in str(error):
        return PreflightError(
            f"What listens at {host}:{port} does not answer as a Spark Connect server. Unless it has just died or "
            "begun, correct spark.remote in lake.yaml; where TLS is in front of the server, it ends with "
            ";use_ssl=true, and the certificate has to be known here."
        )
    if host in LOCAL_HOSTS:
        do = (
            "it was not started by this user with `lake-assets spark start` or `dev`: stop it and start it so, choose "
            "another port in spark.remote, or give its token, as in sc://localhost:15002/;token=${SPARK_TOKEN}."
        )
    else:
        do = "give its token in spark.remote, as in sc://host:443/;use_ssl=true;token=${SPARK_TOKEN}."
    return SparkRefused(f"The Spark Connect server at {host}:{port} refuses this user's token: {do}")


def server_lost(error: BaseException) -> bool:
    """Whether a statement failed because the server was lost, not because of the statement itself."""
    return any(
        sign in f"{type(cause).__name__} {cause}" for cause in with_causes(error) for sign in SERVER_LOST
    )
