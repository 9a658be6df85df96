"""The sensor by which freshness is evaluated while nothing runs."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster import DagsterRunStatus
from pyspark.sql import SparkSession

from lake_assets.commands.mend.quarantine_commands import discard
from lake_assets.errors import RowCountMismatch
from lake_assets.orchestration.checks.check_history import check_executions
from lake_assets.orchestration.checks.silver_checks import applied_evaluation, row_count_evaluation
from lake_assets.orchestration.runs.missed_positions import UnreportedPositions
from lake_assets.orchestration.shared.asset_metadata import figures_of
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.plan.table_state import table_states
from lake_assets_tests.helpers.lakes.small_lakes import sequence, write_file
from lake_assets_tests.helpers.orchestration.dagster_shop import (
    BATCH,
    COLUMNS,
    HEADER,
    NOTES,
    SALES,
    Shop,
    add_run,
)


def turns(shop: Shop, asset: dg.AssetKey) -> list[bool | None]:
    return [turn.passed for turn in check_executions(shop.instance, dg.AssetCheckKey(asset, "freshness"))]


def test_what_changed_is_evaluated_and_nothing_else(
    new_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = new_shop(source={"freshness": {"max_pending_age": "10m"}})
    assert shop.refusal("freshness") == "8 of 8 checks evaluated"
    assert shop.refusal("freshness") == "0 of 8 checks evaluated"
    shop.change("sales", [1])
    log_arrivals(shop.lake.runtime, "shop")
    assert shop.refusal("freshness") == "0 of 8 checks evaluated"  # pending, and within the limit
    later = SimpleNamespace(now=lambda zone: datetime.now(zone) + timedelta(minutes=11))
    monkeypatch.setattr("lake_assets.orchestration.sensors.freshness_sensor.datetime", later)
    assert shop.refusal("freshness") == "1 of 8 checks evaluated"
    assert turns(shop, SALES) == [False, True]
    assert turns(shop, NOTES) == [True]
    assert shop.refusal("freshness") == "0 of 8 checks evaluated"


def test_an_evaluation_is_repeated_after_an_hour(
    new_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = new_shop()
    shop.tick("freshness")
    later = SimpleNamespace(time=lambda: time.time() + 3601)
    monkeypatch.setattr("lake_assets.orchestration.sensors.freshness_sensor.time", later)
    assert shop.refusal("freshness") == "8 of 8 checks evaluated"


def test_without_dagsters_history_everything_is_evaluated_again(new_shop: Callable[..., Shop]) -> None:
    shop = new_shop()
    shop.tick("freshness")
    shop.forget_dagster()
    assert shop.refusal("freshness") == "8 of 8 checks evaluated"


# --- what Dagster has missed


def told(shop: Shop) -> list[dict[str, Any]]:
    """Metadata of the materializations of the sales table that Dagster has, the newest first."""
    records = shop.instance.fetch_materializations(SALES, limit=10).records
    events = [record.asset_materialization for record in records]
    return [figures_of(event.metadata) for event in events if event]


def applied(shop: Shop) -> list[bool | None]:
    return [turn.passed for turn in check_executions(shop.instance, dg.AssetCheckKey(SALES, "applied"))]


def test_a_table_that_dagster_has_forgotten_is_told_once(shop: Shop) -> None:
    shop.change("sales", [1, 2])
    shop.apply()
    shop.tick("freshness")
    (known,) = told(shop)  # by its run, and not once more
    shop.forget_dagster()
    shop.tick("freshness")
    shop.tick("freshness")
    (again,) = told(shop)
    same = ("dagster/row_count", "position", "snapshot_id", "newest_commit")
    assert {name: again[name] for name in same} == {name: known[name] for name in same}
    assert applied(shop) == [True]
    assert shop.instance.get_latest_materialization_event(NOTES) is None  # never applied, nothing to tell


def test_a_run_that_was_killed_after_its_commit_leaves_a_table_that_is_told(shop: Shop) -> None:
    run = add_run(shop.instance, [SALES], DagsterRunStatus.STARTED)
    shop.change("sales", [1])
    shop.tick()
    list(apply_tables(shop.lake.runtime, shop.lake.targets))
    shop.tick("freshness")
    assert told(shop) == []  # the run may be about to tell
    shop.instance.report_run_failed(run)
    shop.tick("freshness")
    assert [metadata["position"] for metadata in told(shop)] == [1]
    assert shop.refusal().startswith("no file is pending")


def test_what_a_run_that_stays_up_will_tell_is_left_to_it(shop: Shop) -> None:
    """A table whose position the run has not told though it had the time is told."""
    missed = UnreportedPositions(shop.lake.runtime)

    def look(at: float) -> list[str]:
        states = table_states(shop.lake.runtime, shop.lake.targets, datetime.now(UTC))
        found = missed.events(shop.instance, states, at, {"shop": 300.0})
        return [type(event).__name__ for event in found]

    for number in range(2):
        shop.change("sales", [number])
        shop.tick()
        list(apply_tables(shop.lake.runtime, shop.lake.targets))
        assert look(number * 200.0) == [], "it goes on"
    assert look(450.0) == []
    assert look(500.0)[0] == "AssetMaterialization"


def test_a_failure_of_meanwhile_is_not_over(shop: Shop) -> None:
    """A file may land, and be refused, between the look at the tables and that at their checks."""
    shop.change("sales", [1])
    shop.tick()
    list(apply_tables(shop.lake.runtime, shop.lake.targets))
    shop.tick("freshness")
    read_at = time.time()
    states = table_states(shop.lake.runtime, shop.lake.targets, datetime.now(UTC))
    (sales,) = (target for target in shop.lake.targets if target.name == "sales")
    failed = TableResult(sales, error=OSError("a row of the file that came next"))
    shop.instance.report_runless_asset_event(applied_evaluation(failed))
    assert UnreportedPositions(shop.lake.runtime).events(shop.instance, states, read_at, {}) == []
    assert len(UnreportedPositions(shop.lake.runtime).events(shop.instance, states, time.time(), {})) == 1


def outcomes(shop: Shop, asset: dg.AssetKey, name: str) -> list[bool | None]:
    """Of a check, the oldest first."""
    turns = check_executions(shop.instance, dg.AssetCheckKey(asset, name))
    return [turn.passed for turn in reversed(turns)]


def test_a_row_count_that_fails_no_more(shop: Shop) -> None:
    """Another run may have applied the files before the failure was reported."""
    shop.change("sales", [1])
    shop.apply()
    (sales,) = (target for target in shop.lake.targets if target.name == "sales")
    failed = TableResult(sales, error=RowCountMismatch("sales", "the files hold 2 rows", "look"))
    shop.instance.report_runless_asset_event(row_count_evaluation(failed))
    for _ in range(2):
        shop.tick("freshness")
    assert outcomes(shop, SALES, "row_count") == [True, False, True]


def test_rows_that_are_still_missing_fail_the_row_count(shop: Shop) -> None:
    shop.change("sales", [1, 2])
    shop.apply()
    table = f"{shop.lake.config.catalog.name}.silver_shop.sales"
    shop.lake.runtime.sessions.root().sql(f"DELETE FROM {table} WHERE id = 1")
    check = dg.AssetCheckKey(SALES, "row_count")
    shop.materialize([], checks=[check])
    assert outcomes(shop, SALES, "row_count") == [True, False]
    shop.tick("freshness")
    assert outcomes(shop, SALES, "row_count") == [True, False]


def test_a_quarantine_that_was_emptied(spark: SparkSession, new_shop: Callable[..., Shop]) -> None:
    """A command empties it, and no batch of the table follows."""
    shop = new_shop(tables={"public.sales": {"columns": COLUMNS, "primary_key": ["id"]}})
    shop.change("sales", [1])
    shop.spoil("sales")
    shop.apply()
    shop.tick("freshness")
    assert outcomes(shop, SALES, "quarantine") == [False]
    discard(shop.lake.runtime, shop.lake.runtime.quarantine.open("silver_shop.sales"))
    for _ in range(2):
        shop.tick("freshness")
    assert outcomes(shop, SALES, "quarantine") == [False, True]


def test_a_batch_whose_tables_have_been_applied_since(shop: Shop) -> None:
    """Not by a run of the batch: the continuous run is none."""
    spoiled = shop.spoil("notes")
    shop.tick()
    assert not shop.materialize([NOTES, BATCH]).success
    shop.tick("freshness")
    assert outcomes(shop, BATCH, "every_table_applied") == [False]
    moment = "2026-03-01 10:00:00"
    write_file(shop.folder, spoiled, [HEADER, f"I,{moment},99,n,{moment},{sequence(100, 1)},NULL"])
    shop.tick()
    assert shop.materialize([NOTES]).success
    for _ in range(2):
        shop.tick("freshness")
    assert outcomes(shop, BATCH, "every_table_applied") == [False, True]


def test_a_failure_that_is_over_is_told(shop: Shop) -> None:
    """What failed after the commit: nothing is left to apply, and marts would wait for the next file."""
    shop.change("sales", [1])
    shop.tick()
    list(apply_tables(shop.lake.runtime, shop.lake.targets))
    shop.tick("freshness")
    assert applied(shop) == [True]
    (sales,) = (target for target in shop.lake.targets if target.name == "sales")
    failed = TableResult(sales, error=OSError("the catalog did not answer"))
    shop.instance.report_runless_asset_event(applied_evaluation(failed))
    shop.tick("freshness")
    shop.tick("freshness")
    assert applied(shop) == [True, False, True]
