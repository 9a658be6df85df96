"""`python -m benchmarks.sorted_files [--rows N] [--repeat N]`: whether files in key order make later batches cheaper.

A table is loaded in key order and changed by batches of random keys, as a source does. Then its files are rewritten as
maintenance does, or sorted by key. Each copy gets batches that delete and append 100,000 random keys, and as many of
the newest 5 % of the keys. Prints the seconds, and those of the processor, of each rewrite and each batch. Here: the
measurement, by the statements of a batch. Not here: reading files and proofs, which do not depend on the layout.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
from pyspark.sql import SparkSession

from lake_assets.config import LakeConfig
from lake_assets.iceberg.table_io import TABLE_PROPERTIES
from lake_assets.orchestration.lake_definitions import open_lake

KEYED = {"columns": {"id": "long"}, "primary_key": ["id"]}
CHANGED = 100_000
CHANGES_BEFORE = 6
COLUMNS = (
    "id, concat('name of ', id) AS name, rand() AS price, timestamp_seconds(id * 7) AS at, id % 97 AS kind"
)


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and those of the processor in this process and Spark's."""
    spark = [psutil.Process(), *psutil.Process().children(recursive=True)]

    def used() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in spark if process.is_running())

    start, before = time.perf_counter(), used()
    work()
    return time.perf_counter() - start, used() - before


def batch(spark: SparkSession, table: str, rows: int, newest: bool) -> None:
    """Deletes the keys and appends their new rows."""
    first = rows * 95 // 100 if newest else 0
    keys = f"SELECT DISTINCT {first} + CAST(rand() * {rows - first} AS BIGINT) AS id FROM range({CHANGED})"
    spark.sql(keys).localCheckpoint().createOrReplaceTempView("keys")
    spark.sql(f"DELETE FROM {table} WHERE id >= {first} AND id IN (SELECT id FROM keys)")
    spark.sql(f"SELECT {COLUMNS} FROM keys").coalesce(1).writeTo(table).append()


def loaded(spark: SparkSession, table: str, rows: int) -> None:
    """The table, loaded in key order, after batches of random keys."""
    given = {**TABLE_PROPERTIES, "format-version": "3", "write.distribution-mode": "none"}
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
    spark.sql(
        f"CREATE OR REPLACE TABLE {table} USING iceberg TBLPROPERTIES ({properties}) AS "
        f"SELECT /*+ REPARTITION_BY_RANGE(8, id) */ {COLUMNS} FROM range({rows})"
    )
    for _ in range(CHANGES_BEFORE):
        batch(spark, table, rows, newest=False)


def measured(spark: SparkSession, rows: int, repeat: int) -> Iterator[str]:
    """A line for each rewrite and each kind of batch."""
    rewrites = {"binpack": "", "sort": ", strategy => 'sort', sort_order => 'id'"}
    for name, strategy in rewrites.items():
        table = f"lake.silver.{name}"
        loaded(spark, table, rows)
        options = f"map('rewrite-all', 'true', 'target-file-size-bytes', '{rows * 4}')"
        call = (
            f"CALL lake.system.rewrite_data_files(table => 'silver.{name}', options => {options}{strategy})"
        )
        yield line(f"{name}: rewrite", [timed(lambda call=call: spark.sql(call).collect())])  # type: ignore[misc]
        for newest in (False, True):
            found = [
                timed(lambda table=table, newest=newest: batch(spark, table, rows, newest))  # type: ignore[misc]
                for _ in range(repeat)
            ]
            yield line(f"{name}: {'newest 5 %' if newest else 'random keys'}", found)


def line(name: str, found: list[tuple[float, float]]) -> str:
    """The medians, as they are printed."""
    seconds, processor = (statistics.median(each) for each in zip(*found, strict=True))
    return f"{name:24} {seconds:6.2f} s, processor {processor:6.2f} s (medians of {len(found)})"


def main() -> None:
    """Reads the command line, and prints the lines."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        config = LakeConfig.model_validate(
            {
                "catalog": {
                    "name": "lake",
                    "uri": f"{folder}/catalog.db",
                    "warehouse": str(Path(folder, "warehouse")),
                },
                "sources": {"s": {"location": folder, "tables": {"public.t": KEYED}}},
            }
        )
        spark = open_lake(config).runtime.sessions.root()
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.silver")
        loaded(spark, "lake.silver.warm", 100_000)
        for text in measured(spark, given.rows, given.repeat):
            print(text, flush=True)


if __name__ == "__main__":
    main()
