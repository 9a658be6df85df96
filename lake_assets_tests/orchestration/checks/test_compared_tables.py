"""Checks that compare two tables while one is ahead of the other: references, and a mart's total with its input's.

Here: which state of each table is compared. Not here: executing a check in Dagster (`test_data_checks.py`).
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.checks.data_check import Outcome
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.orchestration.dagster_shop import DAILY, Shop, open_shop

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TABLES: dict[str, dict[str, Any]] = {
    "public.orders": {"columns": {"id": "long not null"}, "primary_key": ["id"]},
    "public.lines": {
        "columns": {"id": "long not null", "order_id": "long"},
        "primary_key": ["id"],
        "checks": {
            "has_its_order": {"references": {"table": "public.orders", "columns": {"order_id": "id"}}}
        },
    },
}
CUT = {"interval": "10s", "margin": "2s", "every": "1s"}


def outcome(lake: Lake, name: str) -> Outcome:
    """Of the check as it is now."""
    (check,) = (check for check in lake.checks if check.name == name)
    return check.evaluate(lake.runtime)


def write(bench: Bench, clock: Clock, orders: list[int], lines: list[int]) -> None:
    """Files of these orders, and of a line for each of these numbers; of the order with the same number. They are
    flushed so much later that all of their rows are before the cut."""
    changes = {
        "public.orders": [clock.change("I", {"id": key}) for key in orders],
        "public.lines": [clock.change("I", {"id": key, "order_id": key}) for key in lines],
    }
    clock.now += timedelta(seconds=20)
    bench.put(*(cdc_file(table, clock.now, rows) for table, rows in changes.items() if rows))


def heads(bench: Bench) -> tuple[set[int], set[int]]:
    """The orders and the orders of lines at the newest snapshots."""
    return {row["id"] for row in bench.stored("orders")}, {row["order_id"] for row in bench.stored("lines")}


def test_references_are_those_at_the_cut(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = Bench(tmp_path, TABLES, source={"consistent_cut": CUT}), Clock()
    write(bench, clock, [1], [1])
    bench.apply()
    write(bench, clock, [2], [2])
    bench.apply(only=["lines"])
    assert heads(bench) == ({1}, {1, 2}), "the line is ahead of its order"
    assert outcome(bench.lake, "has_its_order").passed
    write(bench, clock, [], [9])
    bench.apply()
    found = outcome(bench.lake, "has_its_order")
    assert (found.passed, found.figures["examples"]) == (False, "id=9, order_id=9")
    write(bench, clock, [9, 3], [3])
    bench.apply(only=["orders"])
    assert heads(bench) == ({1, 2, 3, 9}, {1, 2, 9}), "the order has come, after the newest common cut"
    assert not outcome(bench.lake, "has_its_order").passed
    bench.apply()
    assert outcome(bench.lake, "has_its_order").passed


def test_without_a_cut_a_line_may_be_ahead_of_its_order(spark: SparkSession, tmp_path: Path) -> None:
    bench, clock = Bench(tmp_path, TABLES), Clock()
    write(bench, clock, [1], [1])
    bench.apply()
    write(bench, clock, [2], [2])
    bench.apply(only=["lines"])
    assert not outcome(bench.lake, "has_its_order").passed
    bench.apply()
    assert outcome(bench.lake, "has_its_order").passed


def of_days(shop: Shop, *days: int) -> None:
    """Computes these days of March, each in a run of its own."""
    for day in days:
        assert shop.materialize([dg.AssetKey(DAILY.asset_key)], partition=f"2026-03-{day:02d}").success


def test_a_total_of_a_mart_by_day(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is compared while days are pending; then one wrong day is found."""
    every_sale = {"total": "sum(sales)", "equals": "count(*)", "of": "sales"}
    gold = {"start_date": "2026-03-01", "checks": {"sales_daily": {"every_sale": every_sale}}}
    shop = open_shop(tmp_path, marts=(DAILY,), gold=gold)
    for day in (1, 2, 3):
        shop.change("sales", [10 * day, 10 * day + 1], day=day)
    shop.apply()
    assert outcome(shop.lake, "every_sale").state == "The mart has no rows yet."
    of_days(shop, 1)
    found = outcome(shop.lake, "every_sale")
    assert (found.passed, found.state) == (
        True,
        "Not compared: 2 days of the mart are still to be computed.",
    )
    of_days(shop, 2, 3)
    found = outcome(shop.lake, "every_sale")
    assert (found.passed, found.figures) == (True, {"value": 6, "expected": 6})
    shop.change("sales", [22, 23], day=2)
    shop.apply()
    assert outcome(shop.lake, "every_sale").passed, (
        "it is compared with the snapshot that the mart has consumed"
    )
    of_days(shop, 2)
    assert outcome(shop.lake, "every_sale").figures == {"value": 8, "expected": 8}
    catalog = shop.lake.config.catalog.name
    wrong = f"UPDATE {catalog}.gold.sales_daily SET sales = 5 WHERE day = date '2026-03-02'"
    shop.lake.runtime.sessions.root().sql(wrong)
    found = outcome(shop.lake, "every_sale")
    assert not found.passed
    assert found.state == "sum(sales) of gold.sales_daily is 9, count(*) of silver_shop.sales is 8."
    shop.instance.dispose()
