"""A mart of a table whose foreign commits are tolerated (`foreign_commits`).

Not here: commits that stop a table (`silver/test_outside_changes.py`).
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets.gold.mart import Mart
from lake_assets.orchestration.assets.mart_runs import mart_work
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets_tests.gold.test_random_marts import FIRST_DAY, MOVED, RENTS, TABLE, Rents
from lake_assets_tests.helpers.files.dms_files import cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.marts.direct_runs import run_marts
from lake_assets_tests.helpers.oracles.mart_oracle import midnight


def compute(bench: Bench, *marts: Mart) -> list[list[tuple[object, ...]]]:
    """The rows of each mart after all runs that are needed."""
    bench.lake = open_lake(bench.lake.config, marts=marts)
    for run in mart_work(bench.lake.runtime, bench.lake.marts).runs:
        run_marts(bench.lake, run)
    tables = [bench.lake.runtime.catalog.load_table(mart.identifier) for mart in marts]
    return [sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist()) for table in tables]


@pytest.mark.spark
def test_a_day_that_another_writer_changed_is_computed_with_the_next_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    bench = Bench(tmp_path, {RENTS: TABLE | {"partition_by": [], "foreign_commits": "tolerate"}})
    rents = Rents(bench)
    begun = [midnight(FIRST_DAY) + timedelta(days=number) for number in range(5)]
    rows = [{"id": number, "began": at, "ended": at, "paid": number} for number, at in enumerate(begun)]
    bench.put(load_file(RENTS, rows))
    bench.apply()
    rents.clock.now = datetime(2026, 4, 4, tzinfo=UTC)
    bench.put(cdc_file(RENTS, rents.clock.now, [rents.clock.change("U", rows[4] | {"paid": 2})]))
    bench.apply()
    compute(bench, MOVED)
    table = f"{bench.lake.config.catalog.name}.silver_shop.rents"
    bench.lake.runtime.sessions.root().sql(f"UPDATE {table} SET paid = 1000 WHERE id = 1")
    later = rents.clock.now + timedelta(minutes=1)
    bench.put(cdc_file(RENTS, later, [rents.clock.change("U", rows[3] | {"paid": 77})]))
    bench.apply()
    kept, fresh = compute(bench, MOVED, replace(MOVED, name="fresh"))
    assert kept == fresh
