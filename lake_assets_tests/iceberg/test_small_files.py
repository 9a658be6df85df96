"""Which data files the rewrite takes: a large one waits until the smaller ones are worth writing it again.

Here: the rule, what it costs over many batches, and that Iceberg's rewrite takes the files that the health counts. Not
here: from how many small files on a table is due (`test_table_health.py`), a rewrite beside batches
(`silver/test_rewrite_in_slices.py`).
"""

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake_assets.config import MaintenanceConfig
from lake_assets.iceberg.table_io import current_snapshot, load_table
from lake_assets.iceberg.upkeep.parts_and_limits import (
    FILE_SIZE,
    LARGE,
    MIN_SMALL_FILES,
    WORN_SHARE,
    small_size,
)
from lake_assets.iceberg.upkeep.table_health import SMALL_FILES, Files, read_files
from lake_assets.iceberg.upkeep.table_maintenance import TableMaintenance
from lake_assets.lake import Lake
from lake_assets.silver.table.position import SILVER
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS, small_lake

TABLE = "gold.grown"


def test_a_file_is_small_up_to_the_bytes_of_all_smaller_ones() -> None:
    batches = [10] * 5
    assert small_size([[*batches, 50]]) == 51
    assert small_size([[*batches, 51]]) == 11
    assert small_size([[1, *batches]]) == 11, "one tiny file hides nothing"


def test_too_few_small_files_are_no_measure() -> None:
    few = [10] * (MIN_SMALL_FILES - 1)
    assert small_size([]) == small_size([few]) == small_size([[*few, 1000]]) == 0
    assert small_size([[*few, 1000], [*few, 10]]) == 11


def test_the_partition_with_the_largest_small_file_decides() -> None:
    assert small_size([[10] * 5, [20] * 5, [10, 1000]]) == 21


def test_no_large_file_is_small() -> None:
    assert small_size([[LARGE - 1] * 5]) == LARGE
    assert small_size([[LARGE] * 5 + [10] * 5]) == 11


@pytest.mark.parametrize(
    ("batch", "table"), [(20_000, 32 << 20), (20_000, 1 << 30), (1_000, 95 << 20), (2 << 20, 0)]
)
def test_a_thousand_batches_write_few_bytes_again(batch: int, table: int) -> None:
    """Bytes of batches, and of the table before them; merged as soon as SMALL_FILES are small."""
    random, rest = Random(batch), table % FILE_SIZE
    files = [FILE_SIZE] * (table // FILE_SIZE) + [rest]
    added = written = 0
    most = 0
    for _ in range(1_000):
        size = round(batch * random.uniform(0.5, 1.5))
        added += size
        files.append(size)
        limit = small_size([files])
        small = [size for size in files if size < limit]
        if len(small) >= SMALL_FILES:
            files = [*(size for size in files if size >= limit), sum(small)]
            written += sum(small)
            assert small_size([files]) == 0
        most = max(most, len(files))
    print(f"{added:,} bytes added, {written / added:.1f} times as many written again; at most {most} files")
    assert written < 5 * added + (rest if added > rest else 0)
    assert most <= (table + added) // LARGE + SMALL_FILES + 12


@pytest.mark.parametrize("seed", range(300))
def test_a_merge_leaves_nothing_to_merge(seed: int) -> None:
    """In any partition: else a table would be due again and again."""
    random = Random(seed)
    partitions = [
        [round(2 ** random.uniform(10, 27)) for _ in range(random.randint(0, 30))]
        for _ in range(random.randint(1, 60))
    ]
    limit = small_size(partitions)
    for sizes in partitions:
        small = [size for size in sizes if size < limit]
        if len(small) >= MIN_SMALL_FILES:
            sizes[:] = [*(size for size in sizes if size >= limit), sum(small)]
    assert small_size(partitions) == 0


def test_partitions_with_one_large_file_each_wait() -> None:
    assert small_size([[60 << 20, 1000, 1000, 1000]] * 40) == 0


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Lake:
    return small_lake(tmp_path, {"public.items": ITEMS})


def grown(lake: Lake, random: Random) -> None:
    """A table of files of random sizes, some of which have lost rows."""
    session, name = lake.runtime.sessions.root(), f"{lake.config.catalog.name}.{TABLE}"
    session.sql(f"CREATE NAMESPACE IF NOT EXISTS {lake.config.catalog.name}.gold")
    session.sql(
        f"CREATE TABLE {name} (id BIGINT, part BIGINT, v STRING) USING iceberg PARTITIONED BY (part) TBLPROPERTIES "
        f"('format-version' = '{random.choice([2, 3])}', 'write.delete.mode' = 'merge-on-read', "
        "'write.distribution-mode' = 'none')"
    )
    partitions, first = random.randint(1, 3), 0
    for _ in range(random.randint(8, 20)):
        rows = random.choice([20, 50, 200, 3_000, 20_000])
        part, text = random.randrange(partitions), F.sha1(F.col("id").cast("string"))
        table = session.range(first, first + rows, numPartitions=1)
        table.select("id", F.lit(part).cast("long").alias("part"), text.alias("v")).writeTo(name).append()
        lost = random.choice([0.0, 0.0, WORN_SHARE - 0.05, WORN_SHARE])
        if lost:
            session.sql(f"DELETE FROM {name} WHERE id >= {first} AND id < {first + round(rows * lost)}")
        first += rows


def files_of(lake: Lake) -> tuple[Files, dict[str, int]]:
    """The health's figures, and the bytes of each data file."""
    table = load_table(lake.runtime.catalog, TABLE)
    head = current_snapshot(table)
    assert table is not None
    assert head is not None
    sizes = {task.file.file_path: task.file.file_size_in_bytes for task in table.scan().plan_files()}
    return read_files(table, head), sizes


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))]
)
def test_iceberg_takes_the_files_that_count(lake: Lake, seed: int) -> None:
    grown(lake, Random(seed))
    counted, before = files_of(lake)
    runtime = lake.runtime
    maintenance = TableMaintenance(
        runtime.sessions.root(), runtime.catalog, TABLE, SILVER, MaintenanceConfig()
    )
    rewritten = maintenance.compact()
    after, left = files_of(lake)
    gone = before.keys() - left.keys()
    print(counted, after)
    assert (rewritten, sum(before[path] for path in gone)) == (len(gone), counted.rewritten_bytes)
    assert (after.worn, after.mergeable, after.rewritten_bytes) == (0, 0, 0)
    assert maintenance.compact() == 0
