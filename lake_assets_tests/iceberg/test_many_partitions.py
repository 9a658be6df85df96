"""Rows of many partitions are written with little memory."""

from pathlib import Path

import pytest

from lake_assets_tests.helpers.processes.child import output_of, run_python

WRITES = """
import sys
from pathlib import Path

from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.iceberg.publish import attempt
from lake_assets.iceberg.table_io import create_table
from lake_assets_tests.helpers.lakes.small_lakes import TINY, small_lake
from lake_assets_tests.helpers.servers.cheap_spark import with_plain_files

conf = TINY | {"spark.driver.memory": "500m"}
runtime = small_lake(Path(sys.argv[1]), spark={"conf": conf}).runtime
catalog = runtime.lake.catalog.name
with runtime.sessions.isolated() as spark:
    with_plain_files(spark)
    columns = (parse_column("at", "timestamptz"), parse_column("id", "long"))
    create_table(spark, runtime.catalog, "gold.hours", columns, 3, ("hour(at)",))
    rows = spark.range(1000).select(F.timestamp_seconds(F.col("id") % 700 * 3600).alias("at"), "id")
    with attempt(spark, catalog, "gold.hours", None) as current:
        current.writer(rows, {}).append()
        current.publish()
print(len(runtime.catalog.load_table("gold.hours").inspect.partitions()))
"""


@pytest.mark.spark
def test_seven_hundred_partitions_in_half_a_gigabyte(tmp_path: Path) -> None:
    """Iceberg's own way, a file that is open for each partition, needs more than twice as much."""
    assert output_of(run_python("-c", WRITES, tmp_path, timeout=240)).split()[-1] == "700"
