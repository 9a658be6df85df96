"""`python -m benchmarks.read_health [--repeat N]`: full scans of tables with many files and deleted rows, each beside a
freshly written copy, and how far the lake's estimate of their ratio is off.

Spark and PyIceberg read every column of every row, from this machine's disk. The last lines have the seconds of a scan,
a file, a deletion vector and a MB that fit these scans best, from which the constants of
`iceberg/upkeep/table_health.py` are taken. Here: the measurement. Not here: scans of a bucket, where each file takes
longer.
"""

import argparse
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path

import numpy as np
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from lake_assets.config import LakeConfig, MaintenanceConfig
from lake_assets.iceberg.table_io import TABLE_PROPERTIES
from lake_assets.iceberg.upkeep.table_health import Files, health
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets.silver.table.position import SILVER

KEYED = {"columns": {"id": "long"}, "primary_key": ["id"]}
ROWS, FILES, DELETED = (100_000, 2_000_000), (1, 20, 100, 400), (0, 30)
"""`DELETED`: per cent of the rows."""
WARM_UPS = 20
"""Scans of the first tables, in which the JVM compiles what scans."""


@dataclass(frozen=True)
class Scanned:
    """One table, and the seconds that full scans of it took."""

    files: Files
    seconds: dict[str, float]
    """By engine."""


def scans(
    spark: SparkSession, load: Callable[[str], Table], repeat: int
) -> Iterator[tuple[Scanned, Scanned]]:
    """Each table as it was written and marked, and its copy."""
    columns = "id, concat('name of ', id) AS name, rand(1) AS price, timestamp_seconds(id * 7) AS at, id % 97 AS kind"
    given = {**TABLE_PROPERTIES, "format-version": "3"}
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
    create = f"CREATE OR REPLACE TABLE lake.silver.{{}} USING iceberg TBLPROPERTIES ({properties}) AS"
    times = WARM_UPS
    for rows, files, deleted in product(ROWS, FILES, DELETED):
        many = f"SELECT /*+ REPARTITION({files}) */ {columns} FROM range({rows})"
        spark.sql(f"{create.format('worn')} {many}")
        if deleted:
            spark.sql(f"DELETE FROM lake.silver.worn WHERE id % 100 < {deleted}")
        spark.sql(f"{create.format('fresh')} SELECT /*+ REPARTITION(1) */ * FROM lake.silver.worn")
        yield scanned(spark, load, times or repeat)
        times = 0


def scanned(
    spark: SparkSession,
    load: Callable[[str], Table],
    repeat: int,
    names: tuple[str, str] = ("silver.worn", "silver.fresh"),
    catalog: str = "lake",
) -> tuple[Scanned, Scanned]:
    """The fastest of some scans of each, because other work on the machine only adds to them. The two take turns.
    `names`: of the table and of its copy."""
    ways: dict[str, Callable[[str], object]] = {
        "Spark": lambda name: spark.table(f"{catalog}.{name}").write.format("noop").mode("overwrite").save(),
        "PyIceberg": lambda name: load(name).scan().to_arrow(),
    }
    seconds = {name: dict[str, float]() for name in names}
    for _, (way, read), (name, of_table) in product(range(repeat), ways.items(), seconds.items()):
        begin = time.perf_counter()
        read(name)
        of_table[way] = min(of_table.get(way, math.inf), time.perf_counter() - begin)
    worn, fresh = (
        Scanned(health(load(name), MaintenanceConfig(), datetime.now(UTC), SILVER).files, of_table)
        for name, of_table in seconds.items()
    )
    return worn, fresh


def fitted(found: list[Scanned], way: str) -> np.ndarray:
    """Seconds of a scan, a file, a delete file and a MB: those with the smallest relative errors."""
    taken = np.array([one.seconds[way] for one in found])
    parts = np.array(
        [[1, one.files.number, one.files.delete_files, one.files.bytes / 2**20] for one in found]
    )
    return np.linalg.lstsq(parts / taken[:, None], np.ones(len(found)), rcond=None)[0]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = LakeConfig.model_validate(
            {
                "catalog": {"uri": f"{folder}/catalog.db", "warehouse": f"{folder}/warehouse"},
                "spark": {"conf": {"spark.driver.memory": "3g"}},
                "sources": {"shop": {"location": folder, "tables": {"public.items": KEYED}}},
            }
        )
        lake = open_lake(config, marts=())
        spark, catalog = lake.runtime.sessions.root(), lake.runtime.catalog
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.silver")
        print(f"{os.cpu_count()} cores, {Path(folder).parent}")
        heads = "rows|files|deleted %|MB|estimate|Spark|PyIceberg|Spark s|PyIceberg s"
        print(f"| {heads.replace('|', ' | ')} |\n|{'---|' * 9}")
        found, off = list[Scanned](), dict[str, list[float]]()
        for worn, fresh in scans(spark, catalog.load_table, given.repeat):
            found += [worn, fresh]
            files, estimate = worn.files, worn.files.scan_ratio
            ratios = {way: worn.seconds[way] / fresh.seconds[way] for way in worn.seconds}
            for way, ratio in ratios.items():
                off.setdefault(way, []).append(estimate / ratio)
            cells = [f"{files.rows:,}", str(files.number), f"{100 * files.deleted_rows / files.rows:.0f}"]
            cells += [f"{files.bytes / 2**20:.1f}", f"{estimate:.2f}"]
            cells += [f"{ratio:.2f}" for ratio in ratios.values()]
            cells += [f"{seconds:.3f}" for seconds in worn.seconds.values()]
            print(f"| {' | '.join(cells)} |", flush=True)
    for way, shares in off.items():
        errors = sorted(max(share, 1 / share) for share in shares)
        print(
            f"{way}: the estimate is off by a factor of {statistics.median(errors):.2f} (half of the tables), at most "
            f"{errors[-1]:.2f}; it is {statistics.geometric_mean(shares):.2f} times the measured ratio on average"
        )
        scan, file, vector, megabyte = fitted(found, way)
        print(
            f"  best fit: {scan:.3f} s a scan, {1000 * file:.2f} ms a file, {1000 * vector:.2f} ms a deletion vector, "
            f"{1000 * megabyte:.2f} ms a MB"
        )


if __name__ == "__main__":
    main()
