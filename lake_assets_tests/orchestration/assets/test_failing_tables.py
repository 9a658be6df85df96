"""Silver in Dagster: one step for many tables, in which a bad table fails alone.

Not here: what a turn reports of tables that are well (`test_materializations.py`), checks (`test_silver_checks.py`).
"""

import threading
from pathlib import Path

import dagster as dg
import pytest
from dagster import DagsterRunStatus
from dagster._core.execution.plan.state import KnownExecutionState
from pyspark.sql import SparkSession

from lake_assets.errors import RowCountMismatch
from lake_assets.orchestration.assets.batch_check import FAILED_TABLES, _failed_tables
from lake_assets.orchestration.checks.check_history import check_executions, latest_evaluation
from lake_assets.orchestration.sync import failure_of
from lake_assets.silver.apply import engine
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.lakes.small_lakes import sequence, small_lake, write_file
from lake_assets_tests.helpers.orchestration.dagster_shop import (
    BATCH,
    DAILY,
    HEADER,
    NOTES,
    SALES,
    Shop,
    failures,
    open_shop,
)
from lake_assets_tests.helpers.orchestration.silver_runs import materialized, outcomes, status

GOLD = dg.AssetKey(["gold", "sales_daily"])


def test_a_failing_table_stops_neither_the_others_nor_their_marts(shop: Shop) -> None:
    shop.change("sales", [1, 2])
    shop.spoil("notes")
    shop.tick()
    run = shop.materialize([SALES, NOTES, BATCH, GOLD], partition="2026-03-01")
    assert status(shop, run) is DagsterRunStatus.FAILURE
    done = materialized(run)
    assert set(done) == {"sales", "sales_daily", "shop_batch"}
    assert set(done["shop_batch"][FAILED_TABLES]) == {"silver_shop.notes"}  # type: ignore[call-overload]
    (cause,) = failures(run).values()
    assert "public/notes/" in cause
    assert outcomes(run) == {
        ("sales", "applied"): True,
        ("sales", "row_count"): True,
        ("sales", "quarantine"): True,
        ("sales", "known_rows"): True,
        ("sales", "freshness"): True,
        ("notes", "quarantine"): True,
        ("notes", "known_rows"): True,
        ("notes", "applied"): False,
        ("notes", "row_count"): True,
        ("notes", "freshness"): True,
        ("shop_batch", "known_files"): True,
        ("sales_daily", "row_count"): True,
        ("sales_daily", "freshness"): True,
        ("sales_daily", "read_health"): True,
    }
    # The step itself succeeds: it is the batch's check that fails the run.
    (failed,) = [event for event in run.all_events if event.is_step_failure]
    assert failed.step_key == "lake_ops__shop_batch_every_table_applied"
    # What the red step shows is the table's own error.
    described = failed.step_failure_data.user_failure_data
    assert described is not None
    assert described.description == f"{cause}\n1 table failed; the others were applied."
    assert [row["sales"] for row in shop.rows("gold.sales_daily")] == [2]
    # Its evaluation is logged, so that the run's own list does not have it.
    (evaluated,) = check_executions(shop.instance, dg.AssetCheckKey(BATCH, "every_table_applied"))
    assert evaluated.passed is False
    assert described.metadata["silver_shop.notes"].value == cause


def test_only_applied_is_shown_as_failed_for_columns_that_stop_a_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A check that its run leaves out is shown as failed when the run fails: also of a table with nothing to do."""
    shop = open_shop(tmp_path)
    shop.change("sales", [1])
    shop.apply()
    moment = "2026-03-01 12:00:00.000000"
    header = "Op,commit_ts,id,name,at,color,change_seq,BI_id"
    row = f"I,{moment},1,a,{moment},red,{sequence(1)},NULL"
    write_file(shop.folder, "public/notes/20260301-120000000.csv", [header, row])
    shop.tick()
    run = shop.materialize([SALES, NOTES, BATCH])
    assert status(shop, run) is DagsterRunStatus.FAILURE
    assert not outcomes(run)["notes", "applied"]
    for table in (SALES, NOTES):
        turn = check_executions(shop.instance, dg.AssetCheckKey(table, "row_count"))[0]
        assert turn.passed is True, table


def test_a_failing_table_holds_back_its_own_marts(shop: Shop) -> None:
    shop.spoil("sales")
    shop.change("notes", [1])
    shop.tick()
    run = shop.materialize([SALES, NOTES, BATCH, GOLD], partition="2026-03-01")
    assert status(shop, run) is DagsterRunStatus.FAILURE
    assert set(materialized(run)) == {"notes", "shop_batch"}
    assert shop.rows("gold.sales_daily") == []


def test_batches_before_the_one_that_failed_are_shown(spark: SparkSession, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, marts=[DAILY], automation={"max_files_per_batch": 1})
    shop.change("sales", [1, 2])
    shop.spoil("sales")
    shop.tick()
    run = shop.materialize([SALES, BATCH, GOLD], partition="2026-03-01")
    assert not run.success
    done = materialized(run)
    assert done["sales"]["dagster/row_count"] == 2
    assert done["sales"]["position"] == 1
    assert "sales_daily" not in done
    (fresh,) = [e for e in run.get_asset_check_evaluations() if e.check_name == "freshness"]
    # One, and not two: the freshness of a table that failed counts from where it is.
    assert fresh.metadata["pending_files"].value == 1


def test_the_runs_own_failures_decide_whatever_another_run_says_since(shop: Shop) -> None:
    shop.spoil("sales")
    run = shop.apply()
    shop.instance.report_runless_asset_event(dg.AssetMaterialization(BATCH, metadata={FAILED_TABLES: {}}))
    assert set(_failed_tables(shop.instance, run.run_id, BATCH)[0]) == {"silver_shop.sales"}
    assert _failed_tables(shop.instance, "another-run", BATCH) == ({}, False)


def test_a_table_that_fails_without_its_batch_asset_fails_the_step(shop: Shop) -> None:
    shop.spoil("sales")
    shop.tick()
    run = shop.materialize([SALES])
    assert status(shop, run) is DagsterRunStatus.FAILURE
    turn = latest_evaluation(shop.instance, dg.AssetCheckKey(SALES, "applied"))
    assert turn is not None
    assert turn.passed is False


def test_a_row_count_that_does_not_add_up_fails_both_checks(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def miscounted(runtime: object, target: Target, *_: object) -> TableResult:
        return TableResult(target, error=RowCountMismatch(target.table, "1 row is missing.", "Inspect it."))

    monkeypatch.setattr(engine, "apply_table", miscounted)
    shop.change("sales", [1])
    run = shop.apply()
    assert {key: passed for key, passed in outcomes(run).items() if key[1] in ("applied", "row_count")} == {
        ("sales", "applied"): False,
        ("sales", "row_count"): False,
    }


def test_a_run_that_is_executed_again_from_its_failure(shop: Shop) -> None:
    """It consists of the batch's check: the step of the tables had succeeded."""
    spoiled = shop.spoil("notes")
    shop.tick()
    failed = shop.materialize([NOTES, BATCH])
    run = shop.instance.get_run_by_id(failed.run_id)
    assert run is not None
    steps, _ = KnownExecutionState.build_resume_retry_reexecution(shop.instance, run)
    assert steps == ["lake_ops__shop_batch_every_table_applied"]
    check = dg.AssetCheckKey(BATCH, "every_table_applied")
    again = shop.materialize([], checks=[check])
    assert not again.success
    shown = check_executions(shop.instance, check)[0]
    assert shown.passed is False
    assert "this one applies nothing: materialize the tables" in str(failure_of(again))
    # The continuous run, or a click on the table alone, is no run of the batch.
    moment = "2026-03-01 10:00:00"
    write_file(shop.folder, spoiled, [HEADER, f"I,{moment},99,n,{moment},{sequence(100, 1)},NULL"])
    shop.tick()
    assert shop.materialize([NOTES]).success
    assert shop.materialize([], checks=[check]).success


def test_a_terminated_turn_does_not_wait_for_the_tables_whose_turn_has_not_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"id": "long not null"}
    tables = {f"public.t{number}": {"columns": columns, "primary_key": ["id"]} for number in range(20)}
    lake = small_lake(tmp_path, tables, automation={"apply_threads": 2})
    begun, go_on = [], threading.Event()

    def apply(runtime: object, target: Target, *_: object) -> TableResult:
        begun.append(target.name)
        if len(begun) > 1:
            go_on.wait(20)
        return TableResult(target)

    monkeypatch.setattr(engine, "apply_table", apply)
    turn = engine.apply_tables(lake.runtime, lake.targets)
    next(iter(turn))
    threading.Timer(0.3, go_on.set).start()
    turn.close()  # type: ignore[attr-defined]
    assert len(begun) < 6
