"""Partitioned tables by chance: changes in the partitions' folders, or in transaction files under the partitions'
names, loads of the table or of each partition, reloads of one, late and repeated files, deaths.

Here: random histories. Not here: situations of one's own choice (`test_partition_folders.py`).
`LAKE_HISTORIES=100:40` runs forty others, from seed 100 on.
"""

import os
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.files.dms_files import folder_of
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.transaction_tables import TRANSACTIONS
from lake_assets_tests.helpers.oracles.random_partitions import (
    COLUMNS,
    KEY,
    PARTITIONS,
    SALES,
    of_partitions,
    partitioned_history,
)
from lake_assets_tests.helpers.processes.random_deaths import turn_with_a_chance_of_death

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FIRST, COUNT = (int(number) for number in os.environ.get("LAKE_HISTORIES", "0:8").split(":"))


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.long) for seed in range(FIRST, FIRST + COUNT)]
)
def test_silver_is_the_union_of_the_partitions(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    told = partitioned_history(seed)
    table = {"columns": COLUMNS, "primary_key": KEY, "folders": ["sales_*"]}
    automation = {"max_files_per_batch": told.max_files, "rewrite_below_mb": seed % 2}
    bench = Bench(
        tmp_path, {SALES: table}, TRANSACTIONS if told.transactions else {}, {"automation": automation}
    )
    random = Random(seed)
    for files in told.turns:
        bench.put(*files)
        turn_with_a_chance_of_death(bench, random)
        bench.apply()
    assert bench.rows("sales_all") == bench.as_silver(SALES, told.rows), f"seed {seed}"
    assert bench.rows("sales_all") == bench.as_silver(SALES, of_partitions(list(bench.bucket.values())))


def test_histories_are_of_the_kinds_they_should_be() -> None:
    """Equal names in several folders, rows that change their partition, and reloads of one partition all occur."""
    told = [partitioned_history(seed) for seed in range(8)]
    files = [[file for turn in history.turns for file in turn] for history in told]
    seen = {
        "transactions": {history.transactions for history in told} == {True, False},
        "equal names": any(len({f.name for f in found}) < len(found) for found in files),
        "a load of the table": any(f.key.startswith("public/sales.all/") for found in files for f in found),
        "a reload": any(
            len([f for f in found if f.key == f"{folder_of(name)}/LOAD00000001.csv"]) > 1
            for found in files
            for name in PARTITIONS
        ),
    }
    assert all(seen.values()), seen
