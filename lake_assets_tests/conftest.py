"""One Spark and one S3 server for the whole test session: starting them takes longer than most tests."""

import gc
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pyspark.sql import SparkSession

from lake_assets.commands.demo.kafka_broker import kafka_broker
from lake_assets.config import S3Config
from lake_assets.spark.connect.connect_server import SESSION_TIMEOUT, ConnectServer
from lake_assets.spark.jars import S3_EXCLUDES, every_jar
from lake_assets.spark.preflight import free_port
from lake_assets.spark.session import SparkSessions
from lake_assets_tests.helpers.constants.little_kept import little_kept
from lake_assets_tests.helpers.lakes.small_lakes import REMOTE, SPARK, lake_config, spark_of_environment
from lake_assets_tests.helpers.orchestration.cheap_dagster import remember_engines, remember_migrations
from lake_assets_tests.helpers.processes.child import java_options
from lake_assets_tests.helpers.servers.cheap_spark import (
    pass_plain_arguments,
    remember_classes,
    with_plain_files,
)
from lake_assets_tests.helpers.servers.dms_task import Dms, replication_task
from lake_assets_tests.helpers.servers.postgresql import postgresql_server, psycopg_engine
from lake_assets_tests.helpers.servers.s3 import ACCESS, resource, s3_server

# A tenth of Python's time in the tests was the search for garbage among everything that they import.
gc.set_threshold(20_000, 10, 10)
# Every Spark that a test starts reads it: in this process, as a Spark Connect server, in processes of its own.
os.environ["SPARK_SUBMIT_OPTS"] = java_options()
remember_engines()
remember_migrations()


@sa.event.listens_for(sa.Engine, "connect")
def _does_not_wait_for_the_disk(connection: Any, record: Any) -> None:
    """Of Dagster's storage and of catalogs, in SQLite: what a process that is killed has written is there without.
    Only a machine that loses its power would lose it; and to wait takes longer than a small run of Dagster."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


KEPT_SECONDS = "6m"
"""How long the server of the tests keeps a session that nobody uses: longer than a lake takes one up again
(`session.LONGEST_REST`), and so short that it does not hold the sessions and catalogs of all lakes of the tests."""


def pytest_configure(config: pytest.Config) -> None:
    """With LAKE_TEST_SPARK=connect, starts the one Spark Connect server of all test processes, unless one of them
    runs this."""
    if os.environ.get("LAKE_TEST_SPARK") == "connect" and not SPARK:
        os.environ[REMOTE] = f"sc://127.0.0.1:{free_port()}"
        SPARK.update(spark_of_environment())
        folder = Path(tempfile.mkdtemp(prefix="lake_assets_spark_"))
        config.add_cleanup(partial(_stop_server, _start_server(folder), folder))


def _start_server(folder: Path) -> ConnectServer:
    conf = {
        # With the jars for S3, which must be there before the server starts.
        "spark.jars.packages": every_jar(),
        "spark.jars.excludes": S3_EXCLUDES,
        "spark.driver.memory": "3g",
        # As below.
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
        SESSION_TIMEOUT: KEPT_SECONDS,
    }
    server = ConnectServer(lake_config(folder, spark={"conf": conf}), folder)
    server.start()
    return server


def _stop_server(server: ConnectServer, folder: Path) -> None:
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all that use Spark. Modules that are slow go first: one that begins last keeps a process waiting for the
    other."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that every lake of the tests takes its own from; with the jars for S3, which must be there before
    Spark starts. With LAKE_TEST_SPARK=connect, a session of the tests' server."""
    if SPARK:
        yield from _connected()
    else:
        yield from _embedded()


def _connected() -> Iterator[SparkSession]:
    session = SparkSessions(lake_config(Path())).root()
    over = threading.Event()

    def use() -> None:
        """The server keeps it, however long only the sessions of lakes are used."""
        while not over.wait(60):
            session.conf.get("spark.sql.session.timeZone")

    user = threading.Thread(target=use, name="keep-session", daemon=True)
    user.start()
    yield session
    over.set()
    user.join()


def _embedded() -> Iterator[SparkSession]:
    remember_classes()
    pass_plain_arguments()
    session = (
        SparkSession.builder.master("local[2]")
        .appName("lake_assets tests")
        .config("spark.jars.packages", every_jar())
        .config("spark.jars.excludes", S3_EXCLUDES)
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.driver.memory", "2g")
        # Short work on two cores, shared by two of these: a parallel collector only costs. With room for what one test
        # makes, there is less to collect.
        .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -Xms1g -Xmn600m")
        # As the sessions of a lake: otherwise PySpark asks the JVM five times more for each column.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        # What Spark keeps for its web page, which is off: descriptions of plans, and of jobs of former tests.
        .config("spark.sql.ui.explainMode", "simple")
        .config("spark.sql.ui.retainedExecutions", "20")
        .config("spark.ui.retainedJobs", "20")
        .config("spark.ui.retainedStages", "20")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    with_plain_files(session)
    # PySpark puts its jars before all else on Python's path: every import after it would look into each of them.
    sys.path[:] = [place for place in sys.path if not place.endswith(".jar")]
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Config]:
    """A local S3 server, and how to reach it."""
    with s3_server() as endpoint:
        yield S3Config(endpoint=endpoint, path_style=True, **ACCESS)


@pytest.fixture(scope="module")
def keep_little() -> Iterator[None]:
    """As `little_kept`, for the tests of a module."""
    with little_kept():
        yield


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker."""
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of a PostgreSQL server; skips where PostgreSQL is not installed."""
    with postgresql_server() as address:
        yield address


@pytest.fixture(scope="session")
def new_database(postgresql: str) -> Callable[[str], str]:
    """Makes a database with what the SQL says in it, and returns its address."""
    server = psycopg_engine(postgresql, isolation_level="AUTOCOMMIT")
    numbers = count(1)

    def create(sql: str) -> str:
        name = f"shop_{next(numbers)}"
        with server.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name}"))
        address = postgresql.replace("/postgres?", f"/{name}?")
        database = psycopg_engine(address)
        with database.begin() as connection:
            connection.exec_driver_sql(sql)
        database.dispose()
        return address

    return create


@pytest.fixture
def dms(s3: S3Config, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dms]:
    """A DMS task on the same server."""
    with replication_task(s3, monkeypatch) as found:
        yield found


@pytest.fixture(scope="session")
def new_bucket(s3: S3Config) -> Callable[[], Any]:
    """Makes empty boto3 buckets. Spark keeps the access to a bucket by its name, and on one Spark Connect server two
    workers use it, each with a server of S3 of its own."""
    buckets = resource("s3", s3.endpoint)
    numbers, worker = count(), os.environ.get("PYTEST_XDIST_WORKER", "gw0")

    def create() -> Any:
        bucket = buckets.Bucket(f"bucket-{worker}-{next(numbers)}")
        bucket.create()
        return bucket

    return create
