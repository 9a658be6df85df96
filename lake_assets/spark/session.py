"""Spark sessions: a shared one for reading, and a separate one for each unit of work.

Here: starting Spark in this process, or connecting to a Spark Connect server. Not here: settings (`settings.py`),
reading or writing data. Except for `checkpoint.py`, no other module should depend on which of the two is used. Every
command imports this module, so that PySpark is imported with the first session.
"""

import atexit
import contextlib
import os
import shlex
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from py4j.protocol import Py4JNetworkError

from lake_assets.config import LakeConfig
from lake_assets.config.aws.secret_references import refers
from lake_assets.config.secrets import hidden_in
from lake_assets.errors import ApplyConflict, SparkLost, TableStopped, with_causes
from lake_assets.spark.causes import root_cause
from lake_assets.spark.connect.connect_address import (
    ConnectAddress,
    SparkRefused,
    check_server,
    connect_address,
    refused,
    server_lost,
)
from lake_assets.spark.connect.emr_session import EmrSession
from lake_assets.spark.internals.pyspark_private import (
    activate,
    close,
    close_catalog,
    connected,
    given_settings,
    has_jvm,
    import_pyspark,
    running,
    start_jvm,
)
from lake_assets.spark.jars import submit_options
from lake_assets.spark.preflight import PreflightError, check_jars, check_java
from lake_assets.spark.properties import java_environment, properties_file
from lake_assets.spark.settings import filled, is_submitted, session_conf, spark_conf
from lake_assets.storage.aws_client import Aws

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONGEST_REST = 300.0
"""Seconds of rest after which a session on Spark Connect is not used again: the server may have closed it. The lake's
own server does so after ten minutes, others after an hour."""
_STARTING = threading.Lock()
"""One lock for the process, which has one JVM, however many lakes it opens."""


EXACT_NAMES = {
    # A source may have both `v` and `V`. `schema/` decides which of them silver takes.
    "spark.sql.caseSensitive": "true",
    # A column's name may contain `${`, which Spark would replace, even within backticks.
    "spark.sql.variable.substitute": "false",
}
"""Settings of the sessions that the engine works in, not of the shared one: marts are computed in it, and their authors
write their own SQL."""

INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings with which Spark compiles nothing for a query. For few rows, compiling takes longer than the query."""
PLANNED_ONCE = {"spark.sql.adaptive.enabled": "false"}
"""Settings of the shared session for few rows: Spark would plan a mart again after each of its stages."""
FEW_ROWS = 200_000
"""Up to so many rows that are read count as few."""


class SparkSessions:
    """Starts Spark, or connects to it, on first use, and provides sessions.

    Each unit of work gets a session of its own. Iceberg's snapshot properties for SQL statements are session settings,
    which would mark every later commit of the session; and temporary views are visible in the whole session. The
    sessions share the JVM, the executors and the jars.
    """

    def __init__(self, lake: LakeConfig, spark_log: Path | None = None, aws: Aws | None = None) -> None:
        """`spark_log`: the file for Spark's own messages, which a command line should not print. `aws`: for the
        references in the configuration, and for a session at EMR."""
        self._lake = lake
        aws = aws or Aws(lake.secrets)
        self._secrets = aws.secrets if refers(lake) else None
        self._connects = lake.spark.is_remote
        self._emr = EmrSession(lake, aws) if lake.spark.application is not None else None
        self._spark_log = spark_log
        self._is_brief = False
        self._lock = threading.Lock()
        self._with_secrets: LakeConfig | None = None if self._secrets else lake
        """The configuration of the sessions that are open."""
        self._roots: dict[bool, tuple[SparkSession, float]] = {}
        """The shared sessions, by whether they are for few rows; each with the time at which it was last asked for. The
        time is in seconds of the wall clock, which goes on while a machine sleeps."""
        self._idle: dict[bool, list[tuple[SparkSession, float]]] = {False: [], True: []}
        """Sessions that are not in use, by whether they are for few rows: opening one takes longer than a small
        statement, and Iceberg's caches of manifests and connections to S3 are a session's own. Each with the time since
        which it rests."""

    def root(self, *, few_rows: bool = False) -> "SparkSession":
        """The lake's shared session, for reading; `few_rows`: no more than FEW_ROWS. Raises PreflightError without a
        supported Java, or without a server."""
        with self._lock:
            lake = self._of_now()
            session, used = self._roots.get(few_rows, (None, 0.0))
            if session is None or self._is_old(used):
                more = _settings(lake, {}, INTERPRETED | PLANNED_ONCE if few_rows else {})
                session = self._connected(lake, more) if self._connects else self._embedded(lake, more)
            self._roots[few_rows] = session, time.time()
            activate(session)
            return session

    def _is_old(self, used: float) -> bool:
        return self._connects and time.time() - used > LONGEST_REST

    def _of_now(self) -> LakeConfig:
        """The configuration; when a secret has been rotated, drops the sessions that have it."""
        if self._secrets is None:
            return self._lake
        lake = filled(self._lake, self._secrets.value)
        if lake != self._with_secrets:
            self._with_secrets = lake
            self._drop()
        return lake

    def _drop(self) -> None:
        self._roots, self._idle = {}, {False: [], True: []}

    def begin(self, *, brief: bool = False) -> None:
        """Starts Spark, or connects to it, in the background. `root` waits for that, and tries again if it failed.
        `brief`: see `spark_conf`."""
        self._is_brief = brief
        # Not in the thread: its modules import each other, and two threads that import them find them half imported.
        import_pyspark(connect=self._connects)
        threading.Thread(target=self._begun, name="spark-start", daemon=True).start()

    def _begun(self) -> None:
        with contextlib.suppress(Exception):  # the caller of `root` gets its own
            self.root()

    @contextlib.contextmanager
    def isolated(self, *, few_rows: bool = False) -> "Iterator[SparkSession]":
        """A session with settings and temporary views of its own, which takes names exactly; `few_rows` and errors as
        of `root`."""
        with self._lock:
            lake = self._of_now()
            idle = self._idle[few_rows]
            session, used = idle.pop() if idle else (None, 0.0)
        if session is None or self._is_old(used):
            more = _settings(lake, EXACT_NAMES, INTERPRETED if few_rows else {})
            session = self._connected(lake, more) if self._connects else _new(self.root(), lake, more)
        activate(session)
        try:
            yield session
        except (ApplyConflict, TableStopped):
            # These say nothing of the session. A new one would open another connection to the catalog's database, and
            # Java closes the old one only when it collects the session.
            self._rest(session, lake, few_rows=few_rows)
            raise
        except Exception:
            # After any other error a session may be unusable, and is not used again.
            if not self._connects:
                close_catalog(session, lake.catalog.name)
            raise
        self._rest(session, lake, few_rows=few_rows)

    def _rest(self, session: "SparkSession", lake: LakeConfig, *, few_rows: bool) -> None:
        with self._lock:
            if lake == self._with_secrets:
                self._idle[few_rows].append((session, time.time()))

    def forget(self) -> None:
        """Drops all sessions of a server that is gone: the next ones connect to the server that answers then."""
        with self._lock:
            if self._connects:
                self._drop()
        if self._emr is not None:
            self._emr.forget()

    def lost(self, during: str, error: BaseException) -> SparkLost | None:
        """The error for a user, if `error` says that the server was lost or does not answer; None for any other error.
        The next sessions connect to the server that answers then. `during`: what was lost with it."""
        if isinstance(error, SparkRefused):
            return None  # the user's token is wrong, however often it is repeated
        if isinstance(error, PreflightError) and self._connects:
            return SparkLost(str(error))
        if not server_lost(error):
            return None
        self.forget()
        reason = hidden_in(self._lake, root_cause(error))
        return SparkLost(f"Spark at {self._lake.spark.address} was lost during {during} ({reason}).")

    def _embedded(self, lake: LakeConfig, more: Mapping[str, str]) -> "SparkSession":
        from pyspark.sql import SparkSession

        with _STARTING:
            _quiet_pyspark()
            conf, submitted = spark_conf(lake, brief=self._is_brief), is_submitted()
            if not (submitted or has_jvm()):  # `spark-submit` has started the JVM
                check_java()
                with _opened(self._spark_log) as log:
                    _launch_jvm(conf, log)
            base = running() or SparkSession.builder.config(map={**conf}).getOrCreate()
            if submitted:  # also if it runs already: the thread of `begin` drops its error
                check_jars(base, lake.catalog.name, submit_options(lake))
            return _new(base, lake, more)

    def _connected(self, lake: LakeConfig, more: Mapping[str, str]) -> "SparkSession":
        from pyspark.errors import PySparkException

        if self._emr is None:
            address = connect_address(lake.spark.remote)
            check_server(address.remote)
        else:
            address = self._emr.address()
        _quiet_pyspark()
        # PySpark's own builder sets it, but takes no channel.
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
        try:
            session: Any = connected(address, {**session_conf(lake), **more})
        except PySparkException as error:
            if self._emr is None and server_lost(error):
                raise refused(lake.spark.remote, error) from error
            raise
        # The server would keep the session and its cached data for an hour. Not `stop()`, which closes what all
        # sessions of the process share, and hangs when a frame is garbage-collected meanwhile.
        atexit.register(_release, session, address)
        found: SparkSession = session
        return found


def _settings(lake: LakeConfig, fixed: Mapping[str, str], usual: Mapping[str, str]) -> dict[str, str]:
    """The settings of a session besides those of its Spark. Those of lake.yaml win over `usual`."""
    return {**fixed, **{key: value for key, value in usual.items() if key not in lake.spark.conf}}


def _new(base: "SparkSession", lake: LakeConfig, more: Mapping[str, str]) -> "SparkSession":
    session = base.newSession()
    # If another lake, or other code, started Spark in this process, its sessions have other settings.
    given = given_settings(session)
    for key, value in {**session_conf(lake), **more}.items():
        if given.get(key) == value:
            continue
        if key.startswith(("fs.", "spark.sql.catalog.")) or session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session


def _quiet_pyspark() -> None:
    """Disables the loggers by which PySpark logs each error that it also raises, with Spark's trace: they would log
    even a lost race as ERROR, and secrets in an error as well. The first one is disabled by default, but setting up
    logging in a process, as Dagster does, enables it."""
    from pyspark.logger import PySparkLogger

    if "SPARK_CONNECT_LOG_LEVEL" not in os.environ:
        for name in ("pyspark.sql.connect.logging", "SQLQueryContextLogger", "DataFrameQueryContextLogger"):
            PySparkLogger.getLogger(name).disabled = True


def _release(session: Any, address: ConnectAddress) -> None:
    with contextlib.suppress(Exception):
        check_server(address.remote)  # without a server, each release would be retried
        session.client.release_session()
    # The client's exit hook and frames that are garbage-collected last would still send calls.
    close(session)


def check_spark(lake: LakeConfig) -> None:
    """Raises PreflightError without Spark: without a supported Java to start it, or a server that answers."""
    if lake.spark.mode == "connect":
        check_server(lake.spark.remote)
    elif not (lake.spark.is_remote or is_submitted()):
        check_java()


def process_lost(error: BaseException) -> bool:
    """Whether a statement failed because the Spark of this process has died; the process cannot start it again."""
    return any(isinstance(cause, Py4JNetworkError | ConnectionRefusedError) for cause in with_causes(error))


def _launch_jvm(conf: Mapping[str, str], log: IO[bytes] | None) -> None:
    """Starts the JVM of this process with its settings in a file: PySpark would put all of them, keys of buckets
    included, on a command line that every user can read. Its messages go to `log`."""
    before = {**os.environ}
    with properties_file(conf) as path:
        own = f"--properties-file {shlex.quote(path)} --load-spark-defaults"
        arguments = f"{own} {before.get('PYSPARK_SUBMIT_ARGS') or 'pyspark-shell'}"
        os.environ.update(java_environment(before) | {"PYSPARK_SUBMIT_ARGS": arguments})
        try:
            start_jvm(log)
        finally:
            for name in ("LC_ALL", "PYSPARK_SUBMIT_ARGS"):
                os.environ.pop(name, None)
                if name in before:
                    os.environ[name] = before[name]


def _opened(log: Path | None) -> contextlib.AbstractContextManager[IO[bytes] | None]:
    """The file for the messages of the JVM: this process's own standard error stays where it is, because a command
    prints while Spark starts."""
    if log is None:
        return contextlib.nullcontext()
    log.parent.mkdir(parents=True, exist_ok=True)
    return log.open("ab")
