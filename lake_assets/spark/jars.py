"""The jars that Spark is started with, by the version of Spark that is installed.

Here: Maven coordinates. Not here: how Spark gets them (`settings.py`, `fetch.py`), whether a Spark that another program
started has them (`preflight.py`).
"""

from typing import NamedTuple

from lake_assets.config import LakeConfig
from lake_assets.spark.catalog_conf import uri

SQLITE_JDBC = "org.xerial:sqlite-jdbc:3.50.3.0"
POSTGRESQL_JDBC = "org.postgresql:postgresql:42.7.7"
S3_EXCLUDES = "software.amazon.awssdk:bundle"
"""A dependency of hadoop-aws of 600 MB, of another version than Iceberg's; the lake uses only two of its modules."""


class _Versions(NamedTuple):
    iceberg: str
    hadoop: str
    aws_sdk: str
    """That of Iceberg's bundle: an executor has the jars in any order, and takes a class from the first that has it."""


_OF_SPARK = {
    # Iceberg's last release for Spark 4.0. Its 1.10 fails on catalogs in SQLite ("database is locked").
    "4.0": _Versions("1.11.0", hadoop="3.4.1", aws_sdk="2.44.4"),
    "4.1": _Versions("1.12.0", hadoop="3.4.2", aws_sdk="2.54.17"),
}


def iceberg_jar() -> str:
    """Iceberg for the installed Spark."""
    spark = _spark()
    return f"org.apache.iceberg:iceberg-spark-runtime-{spark}_2.13:{_OF_SPARK[spark].iceberg}"


def s3_jars() -> tuple[str, ...]:
    """What reads and writes files in S3: for Spark's own readers, and for Iceberg."""
    versions = _OF_SPARK[_spark()]
    return (
        f"org.apache.hadoop:hadoop-aws:{versions.hadoop}",
        f"org.apache.iceberg:iceberg-aws-bundle:{versions.iceberg}",
        f"software.amazon.awssdk:apache-client:{versions.aws_sdk}",
        f"software.amazon.awssdk:s3-transfer-manager:{versions.aws_sdk}",
    )


def every_jar() -> str:
    """`spark.jars.packages` with all jars, whatever the catalog and the buckets."""
    return ",".join((iceberg_jar(), SQLITE_JDBC, POSTGRESQL_JDBC, *s3_jars()))


def packages(lake: LakeConfig) -> list[str]:
    """The Maven coordinates of the jars that the lake needs, and of those of lake.yaml. Only the latter where the
    lake's own are provided by the Spark that is used."""
    found = [] if lake.spark.jars == "provided" else _needed(lake)
    own = str(lake.spark.conf.get("spark.jars.packages", "")).split(",")
    # The last version of an artifact wins: that of lake.yaml.
    return [
        *{
            jar.rpartition(":")[0]: jar for jar in [*found, *(jar.strip() for jar in own if jar.strip())]
        }.values()
    ]


def submit_options(lake: LakeConfig) -> str:
    """The options by which `spark-submit` fetches these jars."""
    excluded = f" --exclude-packages {S3_EXCLUDES}" if uses_s3(lake) else ""
    return f"--packages {','.join(packages(lake))}{excluded}"


def _needed(lake: LakeConfig) -> list[str]:
    found = [iceberg_jar()]
    if lake.catalog.type == "sqlite":
        found.append(SQLITE_JDBC)
    if lake.catalog.type == "jdbc" and "postgresql" in uri(lake.catalog).partition("://")[0]:
        found.append(POSTGRESQL_JDBC)
    return [*found, *s3_jars()] if uses_s3(lake) else found


def uses_s3(lake: LakeConfig) -> bool:
    """Whether files or tables of the lake are in S3."""
    places = [lake.catalog.warehouse, *(source.location for source in lake.sources.values())]
    return any(place.startswith("s3://") for place in places)


def _spark() -> str:
    """The minor of the installed Spark, such as `4.1`."""
    # Every command imports this module, and few start Spark.
    from pyspark.version import __version__

    return ".".join(__version__.split(".")[:2])
