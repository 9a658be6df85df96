"""`python -m lake_assets.spark.fetch`: download Spark's jars into the machine's cache, those for S3 included.

It runs once, at installation, so that later runs need no network, and two processes never download the same jar at the
same time. Not here: which jars (`settings.py`).
"""

import sys

from pyspark.sql import SparkSession

from lake_assets.spark.preflight import PreflightError, check_java
from lake_assets.spark.settings import ICEBERG, S3_EXCLUDES, S3_JARS, SQLITE_JDBC


def fetch() -> None:
    """Starts Spark with all the jars and stops it. Raises PreflightError without a supported Java."""
    check_java()
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False)
    builder = builder.config("spark.jars.packages", ",".join((ICEBERG, SQLITE_JDBC, *S3_JARS)))
    builder.config("spark.jars.excludes", S3_EXCLUDES).getOrCreate().stop()


if __name__ == "__main__":
    try:
        fetch()
    except PreflightError as error:
        sys.exit(str(error))
