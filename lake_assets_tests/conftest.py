"""One Spark and one S3 server for the whole test session: starting them takes longer than most tests."""

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pyspark.sql import SparkSession

from lake_assets.config import S3Config
from lake_assets.spark.connect_server import ConnectServer
from lake_assets.spark.preflight import free_port
from lake_assets.spark.session import SparkSessions
from lake_assets.spark.settings import EVERY_JAR, S3_EXCLUDES
from lake_assets_tests.helpers.lakes.small_lakes import SPARK, lake_config
from lake_assets_tests.helpers.processes.child import java_options
from lake_assets_tests.helpers.servers.dms_task import Dms, replication_task
from lake_assets_tests.helpers.servers.postgresql import postgresql_server, psycopg_engine
from lake_assets_tests.helpers.servers.s3 import ACCESS, resource, s3_server

# Every Spark that a test starts reads it: in this process, as a Spark Connect server, in processes of its own.
os.environ["SPARK_SUBMIT_OPTS"] = java_options()


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
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that every lake of the tests takes its own from; with the jars for S3, which must be there before
    Spark starts. With LAKE_TEST_SPARK=connect, every lake of the tests uses a Spark Connect server instead."""
    if os.environ.get("LAKE_TEST_SPARK") == "connect":
        yield from _connected(tmp_path_factory.mktemp("spark"))
    else:
        yield from _embedded()


def _connected(folder: Path) -> Iterator[SparkSession]:
    SPARK.update(mode="connect", remote=f"sc://127.0.0.1:{free_port()}")
    # With the jars for S3, which must be there before the server starts.
    jars = {
        "spark.jars.packages": EVERY_JAR,
        "spark.jars.excludes": S3_EXCLUDES,
        # The session of this fixture may rest for longer than the lake's own sessions do.
        "spark.connect.session.manager.defaultSessionTimeout": "12h",
    }
    server = ConnectServer(lake_config(folder, spark={"conf": jars}), folder)
    server.start()
    try:
        yield SparkSessions(lake_config(folder)).root()
    finally:
        server.stop()


def _embedded() -> Iterator[SparkSession]:
    session = (
        SparkSession.builder.master("local[2]")
        .appName("lake_assets tests")
        .config("spark.jars.packages", EVERY_JAR)
        .config("spark.jars.excludes", S3_EXCLUDES)
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.driver.memory", "2g")
        # Short work on two cores, shared by two of these: a parallel collector only costs.
        .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Config]:
    """A local S3 server, and how to reach it."""
    with s3_server() as endpoint:
        yield S3Config(endpoint=endpoint, path_style=True, **ACCESS)


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
    """Makes empty boto3 buckets."""
    buckets = resource("s3", s3.endpoint)
    numbers = count()

    def create() -> Any:
        bucket = buckets.Bucket(f"bucket-{next(numbers)}")
        bucket.create()
        return bucket

    return create
