"""One Spark and one S3 server for the whole test session: starting them takes longer than most tests."""

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.config import S3Config
from lake_assets.spark.connect_server import ConnectServer
from lake_assets.spark.preflight import free_port
from lake_assets.spark.session import SparkSessions
from lake_assets.spark.settings import ICEBERG, S3_EXCLUDES, S3_JARS, SQLITE_JDBC
from lake_assets_tests.dms_task import Dms, replication_task
from lake_assets_tests.lakes import ACCESS, SPARK, lake_config


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Modules that are slow go first: one that begins last keeps a process waiting for the other."""
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
        "spark.jars.packages": ",".join((ICEBERG, SQLITE_JDBC, *S3_JARS)),
        "spark.jars.excludes": S3_EXCLUDES,
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
        .config("spark.jars.packages", ",".join((ICEBERG, SQLITE_JDBC, *S3_JARS)))
        .config("spark.jars.excludes", S3_EXCLUDES)
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.driver.memory", "2g")
        # Short work on two cores, shared by two of these: the second compiler and a parallel collector only cost.
        .config(
            "spark.driver.extraJavaOptions",
            "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        )
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
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield S3Config(endpoint=f"http://{host}:{port}", path_style=True, **ACCESS)
    server.stop()


@pytest.fixture
def dms(s3: S3Config, monkeypatch: pytest.MonkeyPatch) -> Iterator[Dms]:
    """A DMS task on the same server."""
    with replication_task(s3, monkeypatch) as found:
        yield found


@pytest.fixture(scope="session")
def new_bucket(s3: S3Config) -> Callable[[], Any]:
    """Makes empty boto3 buckets."""
    import boto3

    assert s3.access_key_id is not None
    assert s3.secret_access_key is not None
    resource = boto3.resource(
        "s3",
        region_name=s3.region,
        endpoint_url=s3.endpoint,
        aws_access_key_id=s3.access_key_id.get_secret_value(),
        aws_secret_access_key=s3.secret_access_key.get_secret_value(),
    )
    numbers = count()

    def create() -> Any:
        bucket = resource.Bucket(f"bucket-{next(numbers)}")
        bucket.create()
        return bucket

    return create
