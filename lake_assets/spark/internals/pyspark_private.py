"""The parts of PySpark that the lake uses although they have no public name. No other module uses such parts.

A release of PySpark may move or change any of it. Then each function takes the public way, which is slower or prints
more. This module changes only the lake's own sessions. Not here: which sessions there are (`spark/session.py`).
"""

import atexit
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any
from urllib.parse import quote

MISSING = (ImportError, AttributeError, TypeError)
"""What an import, or the use of a name, raises in a release that does not have it."""


Headers = Callable[[], Mapping[str, str]]
_MARK = "\x00"
"""Separates settings, whose values may have any printable character."""


def import_pyspark(*, connect: bool) -> None:
    """Imports what every session needs. `connect`: of Spark Connect's client, too."""
    import pyspark.sql

    if connect:
        with contextlib.suppress(ImportError):
            import pyspark.sql.connect.session  # noqa: F401


def has_jvm() -> bool:
    """Whether this process has started its JVM."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    try:
        return SparkContext._gateway is not None
    except AttributeError:
        return SparkSession.getActiveSession() is not None


def running() -> Any:
    """The first embedded session of this process, or None. The public way, `getOrCreate`, would change its settings,
    although it may be of others."""
    from pyspark.sql import SparkSession

    try:
        session: Any = SparkSession._instantiatedSession
        return None if session is None or session._sc._jsc is None else session
    except AttributeError:
        return SparkSession.getActiveSession()


def start_jvm(stderr: IO[bytes] | None = None) -> None:
    """Starts the JVM of this process, with PYSPARK_SUBMIT_ARGS. `stderr`: where its messages go, for its whole life; by
    default to this process's standard error."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    try:
        from pyspark.java_gateway import launch_gateway

        launch: Any = launch_gateway
        SparkContext._ensure_initialized(gateway=launch(popen_kwargs={"stderr": stderr}))
    except MISSING:
        # Without settings, which would be on the command line of the JVM; they are in the file of its arguments.
        SparkSession.builder.getOrCreate()


def channel_builder(
    remote: str, token: str | None, options: Sequence[tuple[str, Any]], headers: Headers | None = None
) -> Any:
    """A builder of gRPC channels with these options, whose calls have these headers. Raises ImportError."""
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    if headers is None:
        found = DefaultChannelBuilder(remote, [*options])
    else:
        found = _with_headers(DefaultChannelBuilder, headers)(remote, [*options])
    if token is not None:
        found.set(DefaultChannelBuilder.PARAM_TOKEN, token)
    return found


def _with_headers(builder: Any, headers: Headers) -> Any:
    """The class of builders whose channels add the headers to each call. PySpark's own headers are those of when an
    execution began, which may outlive a token."""
    import grpc

    kinds = (
        grpc.UnaryUnaryClientInterceptor,
        grpc.UnaryStreamClientInterceptor,
        grpc.StreamUnaryClientInterceptor,
    )

    def add(self: Any, proceed: Any, call: Any, request: Any) -> Any:
        return proceed(_Call(call, headers()), request)

    methods = ("intercept_unary_unary", "intercept_unary_stream", "intercept_stream_unary")
    adding = type("Adding", kinds, dict.fromkeys(methods, add))

    class Builder(builder):  # type: ignore[misc]
        def toChannel(self) -> Any:
            return grpc.intercept_channel(super().toChannel(), adding())

    return Builder


class _Call:
    """The details of a call of gRPC, with further headers."""

    def __init__(self, call: Any, headers: Mapping[str, str]) -> None:
        self.method, self.timeout, self.credentials = call.method, call.timeout, call.credentials
        self.wait_for_ready, self.compression = call.wait_for_ready, call.compression
        self.metadata = [*(call.metadata or ()), *headers.items()]


def connected(address: Any, conf: Mapping[str, str]) -> Any:
    """A session with these settings at the address (a ConnectAddress) of a Spark Connect server. PySpark's own builder
    takes no options of the channel and no headers, and tries for ten minutes if the server does not answer."""
    try:
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        builder = ConnectSession.Builder().channelBuilder(address.builder())
        session = builder.create()
        settle(session)
        builder.config(map={**conf})._apply_options(session)
        return session
    except MISSING:
        if address.headers is not None:
            raise
        session = public_builder(address.remote, address.token).config(map={**conf}).create()
        settle(session)
        return session


def public_builder(remote: str, token: str | None) -> Any:
    """PySpark's builder of sessions at an address."""
    from pyspark.sql import SparkSession

    parameter = ""
    if token is not None:
        parameter = f"{'' if ';' in remote else '/'};token={quote(token, safe='')}"
    return SparkSession.builder.remote(remote.rstrip("/") + parameter)


def settle(session: Any) -> None:
    """Makes a new session on Spark Connect fail within seconds if its server is gone, and not hang at exit."""
    with contextlib.suppress(*MISSING):
        from pyspark.sql.connect.client.retries import DefaultPolicy

        # By default, the client retries a call to a server that is gone for minutes.
        session.client.set_retry_policies(
            [DefaultPolicy(max_retries=5, initial_backoff=50, max_backoff=2000)]
        )
    with contextlib.suppress(*MISSING):
        # PySpark's exit hook drops the session's models of Spark ML. It would run after the release, which drops them
        # as well, and fail.
        atexit.unregister(session.client._cleanup_ml_cache)


def activate(session: Any) -> None:
    """Makes this thread ask the session for settings. PySpark asks for settings for each literal of a time. By default,
    it asks the first session that the thread has opened, which the server may have closed."""
    with contextlib.suppress(*MISSING):
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        if isinstance(session, ConnectSession):
            ConnectSession._active_session.session = session


def given_settings(session: Any) -> dict[str, str]:
    """The settings with which an embedded session begins, from a single call of the JVM; the public way takes one for
    each. Without private names, none."""
    try:
        text: str = session._jsparkSession.sessionState().conf().getAllConfs().mkString(_MARK)
    except MISSING:
        return {}
    pairs = (entry[1:-1].partition(",") for entry in text.split(_MARK) if entry)
    return {key: value for key, _, value in pairs}


def close_catalog(session: Any, name: str) -> None:
    """Closes what an embedded session's catalog has open, such as connections to a database: the session is not used
    again. Otherwise Java closes them when it collects the session, which may be never."""
    with contextlib.suppress(Exception):  # the JVM may have died, and a release may have moved it
        session._jsparkSession.sessionState().catalogManager().catalog(name).icebergCatalog().close()


def close(session: Any) -> None:
    """Stops the calls of a session's Spark Connect client: they would fail, because the session or its server is gone,
    and Dagster's logging would print the errors."""
    with contextlib.suppress(*MISSING):
        session.client._closed = True


def note_no_stream(frame: Any) -> None:
    """Notes that the frame does not stream. Otherwise the client would ask the server with the whole plan: a round trip
    each time."""
    with contextlib.suppress(*MISSING):
        frame.__dict__["isStreaming"] = False


@contextlib.contextmanager
def active(session: Any) -> Iterator[None]:
    """Makes the session active in this thread: the client looks for a checkpoint in the active session, which is
    otherwise the first one created."""
    try:
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        threads: Any = ConnectSession._active_session
    except MISSING:
        yield
        return
    before = getattr(threads, "session", None)
    threads.session = session
    try:
        yield
    finally:
        threads.session = before
