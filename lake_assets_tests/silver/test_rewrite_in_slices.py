"""A rewrite of files beside commits that change one partition all the time: what it loses, and when it is made good.

Here: a table of Iceberg. Not here: batches and their positions (`apply/test_races.py`).
"""

import itertools
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake_assets.config import MaintenanceConfig
from lake_assets.iceberg.table_io import load_table
from lake_assets.iceberg.upkeep.table_maintenance import MOST_PARTS, TableMaintenance
from lake_assets.lake import Lake
from lake_assets.silver.table.position import SILVER
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS, small_lake

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TABLE = "gold.busy"
COLD, HOT, FILES = 4, 4, 8
"""Partitions 0 to 3 are cold, 4 is hot; each has so many files."""
ROWS = 600_000
"""Nearly all are in the hot partition, whose rewrite then takes longer than a change."""


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    found = small_lake(tmp_path, {"public.items": ITEMS})
    session, name = found.runtime.sessions.root(), f"{found.config.catalog.name}.{TABLE}"
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS {found.config.catalog.name}.gold")
    session.sql(
        f"CREATE TABLE {name} (id BIGINT, part BIGINT, v STRING) USING iceberg PARTITIONED BY (part) TBLPROPERTIES "
        "('format-version' = '3', 'write.delete.mode' = 'merge-on-read', 'write.distribution-mode' = 'none')"
    )
    part = F.when(F.col("id") < 20 * COLD * FILES, F.col("id") % COLD).otherwise(HOT)
    rows = session.range(ROWS).select("id", part.alias("part"), F.sha1(F.col("id").cast("string")).alias("v"))
    rows.repartitionByRange(FILES, F.hash("id")).writeTo(name).append()
    return found


def maintenance(lake: Lake) -> TableMaintenance:
    runtime = lake.runtime
    return TableMaintenance(runtime.sessions.root(), runtime.catalog, TABLE, SILVER, MaintenanceConfig())


def files_by_partition(lake: Lake) -> Counter[int]:
    table = load_table(lake.runtime.catalog, TABLE)
    assert table is not None
    return Counter(task.file.partition[0] for task in table.scan().plan_files())


@contextmanager
def changing(lake: Lake, partition: int) -> Iterator[None]:
    """Deletes a row of the partition again and again, as batches do."""
    ended, begun = threading.Event(), threading.Event()
    name = f"{lake.config.catalog.name}.{TABLE}"

    def change() -> None:
        with lake.runtime.sessions.isolated() as session:
            for number in itertools.count():
                session.sql(f"DELETE FROM {name} WHERE part = {partition} AND id = {ROWS - 1 - number}")
                begun.set()
                if ended.is_set():
                    return

    thread = threading.Thread(target=change)
    thread.start()
    try:
        assert begun.wait(60)
        yield
    finally:
        ended.set()
        thread.join(120)
    assert not thread.is_alive()


def test_only_the_partition_that_changes_is_lost(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert files_by_partition(lake) == dict.fromkeys(range(COLD + 1), FILES)
    parts: list[int] = []
    plain = TableMaintenance._rewrite

    def noted(self: TableMaintenance, *given: object) -> int:
        parts.append(given[-1])  # type: ignore[arg-type]
        return plain(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(TableMaintenance, "_rewrite", noted)
    with changing(lake, HOT):
        rewritten = maintenance(lake).compact()
    found = files_by_partition(lake)
    assert {part: found[part] for part in range(COLD)} == dict.fromkeys(range(COLD), 1)
    # In a machine that stops and goes, the rewrite may come first.
    was_lost = found[HOT] == FILES
    assert rewritten == (COLD if was_lost else COLD + 1) * FILES
    assert not was_lost or parts[-1] == MOST_PARTS, "a rewrite that was lost whole is repeated in parts"
    rows = maintenance(lake).spark.table(f"{lake.config.catalog.name}.{TABLE}").count()

    assert maintenance(lake).compact() == (FILES if was_lost else 0), "the next one takes it"
    assert files_by_partition(lake) == dict.fromkeys(range(COLD + 1), 1)
    assert maintenance(lake).spark.table(f"{lake.config.catalog.name}.{TABLE}").count() == rows
    parts.clear()
    assert maintenance(lake).compact() == 0
    assert parts == [1], "nothing to do, and no other commit"
