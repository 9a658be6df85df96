"""One Spark for the whole test session: starting one takes longer than most tests."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lake_assets.spark.session import ICEBERG, S3_JARS, SQLITE_JDBC


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that every lake of the tests takes its own from; with the jars for S3, which must be there before
    Spark starts."""
    session = (
        SparkSession.builder.master("local[2]")
        .appName("lake_assets tests")
        .config("spark.jars.packages", ",".join((ICEBERG, SQLITE_JDBC, *S3_JARS)))
        .config("spark.jars.excludes", "software.amazon.awssdk:bundle")
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    yield session
    session.stop()
