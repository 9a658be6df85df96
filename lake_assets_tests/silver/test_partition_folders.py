"""Partitioned tables of PostgreSQL, whose changes are in the partitions' folders: what a user meets.

Here: reloads, dropped partitions, unknown folders, a lost log, on real tables. Not here: plans case by case
(`test_partition_plans.py`), random histories (`test_random_partitions.py`).
"""

import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.mend.recover import recover
from lake_assets.commands.show.status import status
from lake_assets.errors import TableStopped
from lake_assets.silver.apply.rebuild import rebuild
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, cdc_file, load_file, transaction_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.transaction_tables import TRANSACTIONS

pytestmark = [pytest.mark.spark, pytest.mark.slow]
COLUMNS = {"id": "long not null", "v": "string"}
SALES, JAN, FEB, OTHER = "public.sales", "public.sales_2026_01", "public.sales_2026_02", "public.other"
TABLE = {"columns": COLUMNS, "primary_key": ["id"]}
HOUR = timedelta(hours=1)


def row(key: int, value: str | None) -> dict[str, Any]:
    return {"id": key, "v": value}


def shop(folder: Path, dms: dict[str, Any] | None = None, **more: Any) -> Bench:
    """Two partitions with a load each, in files of one name, and a change of each."""
    sales = TABLE | {"folders": ["sales_*"]} | more
    bench = Bench(folder, {OTHER: TABLE, SALES: sales}, dms or {})
    clock = Clock(NOON + HOUR)
    bench.put(load_file(OTHER, [row(1, "o")]))
    bench.put(
        load_file(JAN, [row(1, "jan"), row(2, "jan")]), load_file(FEB, [row(11, "feb"), row(12, "feb")])
    )
    changes = [
        (JAN, clock.change("U", row(1, "changed"))),
        (FEB, clock.change("D", row(11, None))),
        (FEB, clock.change("I", row(13, "new"))),
    ]
    if dms:
        bench.put(transaction_file(NOON + 2 * HOUR, changes))
    else:
        for name in (JAN, FEB):
            bench.put(cdc_file(name, NOON + 2 * HOUR, [change for of, change in changes if of == name]))
    bench.apply()
    return bench


def values(bench: Bench) -> dict[int, Any]:
    return bench.stored_by_id("v", "sales")


LOADED = {1: "changed", 2: "jan", 12: "feb", 13: "new"}


@pytest.mark.parametrize("dms", [{}, pytest.param(TRANSACTIONS, marks=pytest.mark.long)])
def test_a_reload_of_one_partition(spark: SparkSession, tmp_path: Path, dms: dict[str, Any]) -> None:
    bench = shop(tmp_path, dms)
    assert values(bench) == LOADED
    clock = Clock(NOON + 5 * HOUR)
    # DMS has lost the delete of 12.
    bench.put(load_file(FEB, [row(13, "reloaded"), row(14, "lost before")], at=NOON + 4 * HOUR))
    changes = [(JAN, clock.change("D", row(2, None))), (FEB, clock.change("U", row(14, "after")))]
    if dms:
        bench.put(transaction_file(NOON + 6 * HOUR, changes))
    else:
        bench.put(*(cdc_file(of, NOON + 6 * HOUR, [change]) for of, change in changes))
    bench.apply()
    assert values(bench) == {1: "changed", 13: "reloaded", 14: "after"}
    (target,) = (t for t in bench.lake.targets if t.name == "sales")
    assert rebuild(bench.lake.runtime, target, publish=False).equal
    (line,) = (line for line in status(bench.lake) if line.table == "silver_shop.sales")
    assert (line.state, line.rows) == ("up to date", 3)


def drop(bench: Bench, partition: str) -> None:
    """As DMS does it when the partition is dropped: its files are gone."""
    assert bench.location is not None
    for key in [key for key in bench.bucket if key.startswith(partition.replace(".", "/") + "/")]:
        (bench.location / key).unlink()
        del bench.bucket[key]


@pytest.mark.parametrize(
    ("on_vanished", "left"),
    [
        ("keep", LOADED),
        ("drop", {12: "feb", 13: "new"}),
        pytest.param("truncate", {12: "feb", 13: "new"}, marks=pytest.mark.long),
    ],
)
def test_a_dropped_partition(
    spark: SparkSession, tmp_path: Path, on_vanished: str, left: dict[int, Any]
) -> None:
    bench = shop(tmp_path, on_vanished=on_vanished)
    drop(bench, JAN)
    bench.apply()
    assert values(bench) == left
    clock = Clock(NOON + 5 * HOUR)
    bench.put(cdc_file(FEB, NOON + 6 * HOUR, [clock.change("U", row(12, "later"))]))
    bench.apply()
    assert values(bench) == left | {12: "later"}
    # The month comes back, with other rows.
    bench.put(load_file(JAN, [row(2, "back")], at=NOON + 7 * HOUR))
    bench.apply()
    assert values(bench) == {2: "back", 12: "later", 13: "new"}


def test_a_load_of_the_whole_table_beside_one_of_a_partition(spark: SparkSession, tmp_path: Path) -> None:
    bench = shop(tmp_path)
    bench.put(load_file(SALES, [row(1, "whole"), row(99, "deleted since")], at=NOON + 3 * HOUR))
    error = bench.turn()["sales"].error
    assert isinstance(error, TableStopped)
    assert "public/sales/LOAD00000001.csv and public/sales_2026_0" in str(error)
    assert "delete all files of the table's own folder" in str(error)
    assert values(bench) == LOADED
    drop(bench, SALES)
    bench.apply()
    assert values(bench) == LOADED


def test_a_log_that_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    bench = shop(tmp_path)
    bench.lake.runtime.catalog.drop_table("lake_ops.bronze_files")
    bench.lake = bench.reopened()
    list(recover(bench.lake))
    bench.lake = bench.reopened()
    assert all(not batches for batches in bench.apply().values())
    clock = Clock(NOON + 5 * HOUR)
    bench.put(cdc_file(JAN, NOON + 6 * HOUR, [clock.change("D", row(2, None))]))
    bench.apply()
    assert values(bench) == {key: value for key, value in LOADED.items() if key != 2}


def test_folders_that_are_set_later(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A lake whose user has not known that the changes are in other folders."""
    clock = Clock(NOON + HOUR)
    with_folders = {SALES: TABLE | {"folders": ["sales_*"]}}
    bench = Bench(tmp_path, with_folders)
    bench.put(load_file(SALES, [row(1, "loaded"), row(2, "loaded")]))
    bench.put(cdc_file(JAN, NOON + 2 * HOUR, [clock.change("U", row(1, "changed"))]))
    bench.edit({SALES: TABLE})
    with caplog.at_level(logging.WARNING):
        bench.apply()
    said = " ".join(caplog.messages)
    assert f"1 file of {JAN}, which lake.yaml does not configure" in said
    assert f'add `folders: ["sales_*"]` to {SALES}' in said
    assert values(bench) == {1: "loaded", 2: "loaded"}
    bench.edit(with_folders)
    bench.apply()
    assert values(bench) == {1: "changed", 2: "loaded"}
