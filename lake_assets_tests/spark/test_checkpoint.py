"""Rows that are computed once. Not here: the observations of a batch (`silver/changes/`)."""

import pytest

from lake_assets.spark.settings import class_archive_options
from lake_assets_tests.helpers.processes.child import environment, output_of, run_python

pytestmark = pytest.mark.spark

PROGRAM = """
from pyspark.sql import SparkSession, functions as F

from lake_assets.spark.checkpoint import checkpointed

builder = SparkSession.builder.master("local[4]").config("spark.driver.memory", "512m")
spark = builder.config("spark.ui.enabled", False).config("spark.sql.shuffle.partitions", 4).getOrCreate()
text = F.repeat(F.md5(F.col("id").cast("string")), F.lit(64))
rows = spark.range(0, 300_000, 1, 8).select((F.col("id") % 150_000).alias("key"), "id", text.alias("note"))
done = checkpointed(rows)
last = done.groupBy("key").agg(F.max_by(F.struct("id", "note"), F.struct("id")).alias("last"))
print(last.agg(F.count("*"), F.sum("last.id"), F.min(F.length("last.note"))).first())
"""


def test_rows_beyond_the_heap_are_sorted() -> None:
    """600 MB of texts, in a heap of 512 MB."""
    # Without the tests' compiler of Java, under which rows that are kept in memory rarely fail.
    java = environment(SPARK_SUBMIT_OPTS=class_archive_options())
    output = output_of(run_python("-c", PROGRAM, timeout=300, env=java))
    number, total = 150_000, sum(range(150_000, 300_000))
    assert f"Row(count(1)={number}, sum(last.id)={total}, min(length(last.note))=2048)" in output
