"""A value that is too long for the folder of its partition: which column it is, and what to do.

Not here: which partitions a column may have (`config/test_models.py`).
"""

from pathlib import Path

import dagster as dg
import pandas as pd
import pytest
from pyspark.sql import SparkSession

from lake_assets.errors import PartitionMismatch
from lake_assets.iceberg.partitioning import too_long_for_a_path
from lake_assets.orchestration.io_managers.iceberg_io_manager import TableIOManager
from lake_assets.orchestration.io_managers.run_partitions import PARTITION_BY
from lake_assets.rounds.maintenance import maintain_silver
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS, small_lake

HEADER = "Op,commit_ts,change_seq,id,name,price,at,BI_id"
THAI = "ก" * 42
"""Nine characters of a path each."""
LONG_FOLDER = "Mkdirs failed to create file:/lake/data/at_day=2026-03-01/" + "name_trunc=" + "%E0%B8%81" * 42


def row(number: int, name: str) -> str:
    return f"I,2026-03-01 12:00:00,,{number},{name},1.00,2026-03-01 12:00:00,"


@pytest.mark.parametrize(
    ("error", "wanted", "named"),
    [
        (LONG_FOLDER, ["day(at)", "truncate(42, name)", "city"], "a value of name is too long"),
        ("Your key is too long (Service: S3)", ["day(at)", "name", "city"], "a value of name or city is too long"),
        ("File name too long", ["truncate(42, name)"], "write bucket(16, name) or truncate(10, name) instead of"),
        (LONG_FOLDER, ["day(at)", "bucket(16, name)"], None),
        ("Mkdirs failed to create file:/lake/data/name=kiel", ["name"], None),
        ("No space left on device", ["name"], None),
    ],
)  # fmt: skip
def test_the_partition_is_named_if_the_path_is_at_fault(
    error: str, wanted: list[str], named: str | None
) -> None:
    found = too_long_for_a_path(error, wanted)
    assert (found is None) == (named is None)
    assert named is None or named in str(found)


@pytest.mark.spark
def test_a_batch_that_fails_for_it_says_what_to_do(spark: SparkSession, tmp_path: Path) -> None:
    """On a disk: no S3 server here limits the length of a key."""
    bench = Bench(tmp_path, {"public.items": {**ITEMS, "partition_by": ["name"]}})
    bench.put_text("public/items/LOAD00000001.csv", HEADER, row(1, "kiel"))
    bench.apply()
    bench.put_text("public/items/20260301-120200000.csv", HEADER, row(2, THAI))
    error = str(bench.turn()["items"].error)
    assert "public/items/20260301-120200000.csv failed: a value of name is too long" in error
    assert "write bucket(16, name) or truncate(10, name) instead of name, and run " in error
    assert "`lake-assets maintain --source shop --table public.items`." in error
    # With that advice, the table goes on.
    bench.edit({"public.items": {**ITEMS, "partition_by": ["truncate(10, name)"]}})
    maintain_silver(bench.lake.runtime, [], bench.lake.targets[0])
    bench.apply()
    assert {stored["name"] for stored in bench.stored()} == {"kiel", THAI}


@pytest.mark.spark
def test_an_asset_of_ones_own_says_so_too(spark: SparkSession, tmp_path: Path) -> None:
    @dg.asset(key=["gold", "own"], io_manager_key="io", metadata={PARTITION_BY: ["name"]})
    def own() -> pd.DataFrame:
        return pd.DataFrame({"name": ["kiel", THAI]})

    resources = {"io": TableIOManager(small_lake(tmp_path).runtime)}
    with pytest.raises(PartitionMismatch, match=r"a value of name is too long .* Nothing was written\."):
        dg.materialize([own], resources=resources, instance=dg.DagsterInstance.ephemeral())
