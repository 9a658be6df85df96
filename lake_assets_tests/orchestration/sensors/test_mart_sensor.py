"""The mart sensor on a real Dagster instance: exactly the days that silver touched, and when it refrains."""

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster import DagsterRunStatus
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.gold.mart import MartRequest
from lake_assets.gold.write import write_mart
from lake_assets.orchestration.assets.mart_assets import OUTSIDE
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets.orchestration.sensors import mart_hold as hold
from lake_assets.orchestration.shared.run_tags import BACKFILL, SCOPE, mart_tag
from lake_assets.silver.apply.engine import apply_tables
from lake_assets_tests.helpers.orchestration.dagster_shop import (
    DAILY,
    NOTES,
    SALES,
    TABLES,
    Shop,
    add_run,
    days,
    open_shop,
    pass_time,
    sales_steady,
)

STEADY = replace(DAILY, name="sales_steady", compute=sales_steady)
"""The same days as DAILY, and nothing breaks it."""
HOUR = 3600.0


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return open_shop(tmp_path)


def march(first: int, last: int | None = None) -> tuple[date, date]:
    return date(2026, 3, first), date(2026, 3, last or first)


def requested(shop: Shop) -> list[tuple[list[str], tuple[date, date] | None]]:
    return [(names(request), days(request)) for request in shop.tick("marts").run_requests or ()]


def names(request: dg.RunRequest) -> list[str]:
    return [key.path[-1] for key in request.asset_selection or ()]


def compute(shop: Shop) -> list[bool]:
    return [shop.run(request).success for request in shop.tick("marts").run_requests or ()]


def daily(shop: Shop, mart: str = "sales_daily") -> dict[int, int]:
    return {row["day"].day: row["sales"] for row in shop.rows(f"gold.{mart}")}


def test_exactly_the_touched_days_in_one_run_for_each_stretch(shop: Shop) -> None:
    assert shop.refusal("marts") == "every mart is up to date"  # no file, no table, nothing to do
    shop.change("sales", [1, 2], day=1)
    shop.change("sales", [3], day=8)
    assert shop.apply().success
    # The first time every day from the first to the last.
    expected = [(["sales_total"], None), (["sales_daily"], march(1, 8))]
    assert requested(shop) == expected
    assert requested(shop) == expected  # nothing is remembered: only runs change the answer
    (total, *_) = shop.tick("marts").run_requests or ()
    assert total.tags[SCOPE] == "gold"
    assert mart_tag("sales_total") in total.tags

    assert compute(shop) == [True, True]
    assert daily(shop) == {1: 2, 8: 1}
    assert shop.rows("gold.sales_total") == [{"sales": 3}]
    assert shop.refusal("marts") == "every mart is up to date"
    partitions = shop.instance.get_materialized_partitions(dg.AssetKey(["gold", "sales_daily"]))
    assert partitions == {f"2026-03-0{day}" for day in range(1, 9)}

    # New rows on the 5th and the 6th, and one that moves from the 8th to the 3rd: these days, and no other.
    shop.change("sales", [4], day=5)
    shop.change("sales", [5], day=6)
    shop.change("sales", [3], day=8, op="U", at="2026-03-03 08:00:00.000000")
    assert shop.apply().success
    assert requested(shop) == [
        (["sales_total"], None),
        (["sales_daily"], march(3)),
        (["sales_daily"], march(5, 6)),
        (["sales_daily"], march(8)),
    ]
    assert compute(shop) == [True] * 4
    assert daily(shop) == {1: 2, 3: 1, 5: 1, 6: 1}

    # Dagster forgets; the marts know what they have consumed.
    shop.forget_dagster()
    assert shop.refusal("marts") == "every mart is up to date"


def test_changes_before_the_first_partition_are_told(shop: Shop) -> None:
    shop.change("sales", [1], at="2026-02-01 08:00:00.000000")
    shop.change("sales", [2])
    assert shop.apply().success
    assert requested(shop) == [(["sales_total"], None), (["sales_daily"], march(1))]
    assert compute(shop) == [True, True]
    told = shop.refusal("marts")
    assert "leaves out the rows with silver_shop.sales.at in 1 day outside" in told
    assert "2026-02-01. Partitions go from gold.start_date (2026-03-01)" in told


@pytest.mark.parametrize(
    "table",
    [
        pytest.param({}, id="partitioned"),
        pytest.param({"partition_by": []}, id="not partitioned", marks=pytest.mark.long),
    ],
)
def test_markers_are_told_and_compute_no_days(
    new_shop: Callable[..., Shop], spark: SparkSession, table: dict[str, Any]
) -> None:
    """With the default start_date; before, all days since 2000 had an event."""
    tables = {name: config | table for name, config in TABLES.items()}
    shop = new_shop(gold={}, tables=tables)
    shop.change("sales", [1])
    shop.change("sales", [2], at="1900-01-01 08:00:00.000000")
    shop.change("sales", [3], at="9999-12-31 08:00:00.000000")
    assert shop.apply().success
    asset = dg.AssetKey(["gold", "sales_daily"])
    for request in shop.tick("marts").run_requests or ():
        assert shop.run(request).success
    assert shop.instance.get_materialized_partitions(asset) == {"2026-03-01"}
    event = shop.instance.get_latest_materialization_event(asset)
    assert event is not None
    assert event.asset_materialization is not None
    told = str(event.asset_materialization.metadata[OUTSIDE].value)
    assert "silver_shop.sales.at in 2 days outside of its partitions: 1900-01-01, 9999-12-31" in told
    assert told in shop.refusal("marts")


@pytest.mark.parametrize("status", [DagsterRunStatus.QUEUED, DagsterRunStatus.STARTED])
def test_a_run_of_marts_in_flight_blocks(new_shop: Callable[..., Shop], status: DagsterRunStatus) -> None:
    shop = new_shop()
    add_run(shop.instance, [dg.AssetKey(["gold", "sales_total"])], status)
    assert shop.refusal("marts") == "a run of marts is under way"


def test_a_backfill_does_not_block(new_shop: Callable[..., Shop]) -> None:
    shop = new_shop()
    total = dg.AssetKey(["gold", "sales_total"])
    add_run(shop.instance, [total], DagsterRunStatus.QUEUED, {BACKFILL: "of 400 days"})
    assert shop.refusal("marts") == "every mart is up to date"


def test_a_mart_waits_for_the_run_that_is_applying_its_inputs(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    applying = add_run(shop.instance, [SALES, NOTES], DagsterRunStatus.STARTED)
    shop.change("sales", [1])
    shop.tick()
    list(apply_tables(shop.lake.runtime, shop.lake.targets))  # what that run has committed so far
    assert f"gold.sales_total waits for run {applying.run_id[:8]}" in shop.refusal("marts")
    # The run that begins after it is not waited for as well: under a steady feed there is always one.
    shop.instance.report_run_canceled(applying)
    following = add_run(shop.instance, [SALES], DagsterRunStatus.STARTED)
    assert requested(shop) == [(["sales_total"], None), (["sales_daily"], march(1))]

    shop.restart()
    assert f"gold.sales_total waits for run {following.run_id[:8]}" in shop.refusal("marts")
    # Nor is a run that takes long.
    monkeypatch.setattr(hold, "PATIENCE", 0.0)
    assert requested(shop) == [(["sales_total"], None), (["sales_daily"], march(1))]


def test_a_failed_check_of_an_input_holds_its_marts_back(shop: Shop) -> None:
    shop.change("sales", [1])
    assert shop.apply().success
    shop.spoil("sales")
    assert not shop.apply().success
    reason = shop.refusal("marts")
    assert "gold.sales_daily waits for silver/shop/sales: applied" in reason
    assert "gold.sales_total waits for silver/shop/sales: applied" in reason
    # Nor does a run that somebody launches by hand compute from it.
    assert not shop.materialize([dg.AssetKey(["gold", "sales_total"])]).success
    assert shop.rows("gold.sales_total") == []


@pytest.mark.long
def test_a_failing_mart_backs_off_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = open_shop(tmp_path, marts=[DAILY, STEADY])
    shop.change("sales", [1], name="broken")
    assert shop.apply().success
    # Both in one run, which fails because one of them does.
    assert requested(shop) == [(["sales_daily", "sales_steady"], march(1))]
    assert compute(shop) == [False]
    assert daily(shop, "sales_steady") == {1: 1}

    assert "gold.sales_daily failed and is tried again in 3" in shop.refusal("marts")
    shop.change("sales", [2], day=2)
    assert shop.apply().success
    assert requested(shop) == [(["sales_steady"], march(2))]
    assert compute(shop) == [True]

    with monkeypatch.context() as later:
        pass_time(later, HOUR + 60)
        assert requested(shop) == [(["sales_daily"], march(1, 2))]
        assert compute(shop) == [False]
        assert "tried again" in shop.refusal("marts")  # twice as long now
    shop.change("sales", [1], day=3, op="U", at="2026-03-01 09:00:00.000000")
    assert shop.apply().success
    with monkeypatch.context() as later:
        pass_time(later, 2 * HOUR + 60)
        assert compute(shop) == [True, True]
    assert daily(shop) == {1: 1, 2: 1}
    assert shop.refusal("marts") == "every mart is up to date"


@pytest.mark.long
def test_a_mart_that_fails_on_one_stretch_backs_off_though_it_succeeded_on_another(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in (1, 3, 5):
        shop.change("sales", [day], day=day)
    assert shop.apply().success
    assert compute(shop) == [True, True]
    shop.change("sales", [11], day=1)
    shop.change("sales", [33], day=3, name="broken")
    shop.change("sales", [55], day=5)
    assert shop.apply().success
    assert compute(shop) == [True, True, False, True]
    assert daily(shop) == {1: 2, 3: 1, 5: 2}
    # The newest of its runs succeeded, after the one that failed: one more attempt comes at once, and then it waits.
    assert requested(shop) == [(["sales_daily"], march(3))]
    assert compute(shop) == [False]
    assert "gold.sales_daily failed and is tried again" in shop.refusal("marts")
    pass_time(monkeypatch, HOUR + 60)
    assert requested(shop) == [(["sales_daily"], march(3))]


def with_state(request: MartRequest) -> Any:
    """Sales per day, with a second column."""
    return sales_steady(request).withColumn("state", F.lit("open"))


def test_a_new_column_makes_every_day_stale_until_it_is_computed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.change("sales", [1], day=1)
    shop.change("sales", [2], day=8)
    assert shop.apply().success
    assert compute(shop) == [True, True]
    assert shop.refusal("marts") == "every mart is up to date"

    columns = (*DAILY.columns, parse_column("state", "string"))
    shop.lake = open_lake(shop.lake.config, marts=(replace(DAILY, columns=columns, compute=with_state),))
    shop.restart()

    def dies(*_: Any) -> int:
        raise RuntimeError("after the column was added")

    with monkeypatch.context() as patched:
        patched.setattr(write_mart, "_commit", dies)
        assert compute(shop) == [False]
    assert "state" in shop.rows("gold.sales_daily")[0]
    pass_time(monkeypatch, 5 * HOUR)
    assert requested(shop) == [(["sales_daily"], march(1, 8))]
    assert compute(shop) == [True]
    assert {row["state"] for row in shop.rows("gold.sales_daily")} == {"open"}
    assert shop.refusal("marts") == "every mart is up to date"
    graph = shop.definitions.resolve_asset_graph()
    assert graph.get(dg.AssetKey(["gold", "sales_daily"])).code_version
