"""Silver in Dagster: one step for many tables, in which a bad table fails alone, and what a turn says of itself."""

import threading
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster import DagsterRunStatus
from pyspark.sql import SparkSession

from lake_assets.errors import RowCountMismatch
from lake_assets.orchestration.assets.batch_check import FAILED_TABLES, _failed_tables
from lake_assets.orchestration.assets.silver_assets import batch_keys
from lake_assets.orchestration.checks.check_history import check_executions, latest_evaluation
from lake_assets.orchestration.shared.asset_metadata import figures_of
from lake_assets.silver.apply import engine
from lake_assets.silver.table.targets import Target
from lake_assets.silver.write.batch import TableResult
from lake_assets_tests.helpers.lakes.small_lakes import sequence, small_lake, write_file
from lake_assets_tests.helpers.orchestration.dagster_shop import (
    BATCH,
    DAILY,
    NOTES,
    QUIET,
    SALES,
    Shop,
    failures,
    open_shop,
)

GOLD = dg.AssetKey(["gold", "sales_daily"])


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return open_shop(tmp_path, marts=[DAILY])


def outcomes(run: dg.ExecuteInProcessResult) -> dict[tuple[str, str], bool]:
    return {(e.asset_key.path[-1], e.check_name): e.passed for e in run.get_asset_check_evaluations()}


def materialized(run: dg.ExecuteInProcessResult) -> dict[str, dict[str, object]]:
    return {
        event.asset_key.path[-1]: figures_of(event.materialization.metadata)
        for event in run.get_asset_materialization_events()
        if event.asset_key
    }


def status(shop: Shop, run: dg.ExecuteInProcessResult) -> DagsterRunStatus:
    found = shop.instance.get_run_by_id(run.run_id)
    assert found is not None
    return found.status


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


def test_what_a_materialization_says(shop: Shop) -> None:
    sizes = 0
    for key in (
        shop.change("sales", [1, 2, 3]),
        shop.change("sales", [1], op="U"),
        shop.change("sales", [2], op="D"),
    ):
        sizes += (shop.folder / "bronze" / key).stat().st_size
    metadata = materialized(shop.apply())["sales"]
    expected = {
        "dagster/row_count": 2,
        "rows_read": 5,
        "rows_inserted": 3,
        "rows_updated": 1,
        "rows_deleted": 1,
        "rows_written": 2,
        "rows_removed": 0,
        "files": 3,
        "bytes": sizes,
        "position": 3,
    }
    assert {name: metadata.get(name, 0) for name in expected} == expected
    assert float(str(metadata["lag_seconds"])) > 0
    stages = {name: float(str(value)) for name, value in metadata.items() if name.startswith("seconds_")}
    assert {"seconds_read", "seconds_write", "seconds_publish"} <= set(stages)
    assert float(str(metadata["seconds"])) == pytest.approx(sum(stages.values()), abs=0.01)
    table = shop.lake.runtime.catalog.load_table("silver_shop.sales")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert metadata["snapshot_id"] == str(snapshot.snapshot_id)


def test_a_materialization_shows_few_figures_and_the_others_in_one_entry(shop: Shop) -> None:
    """Each number of an event is a plot in the UI; thirty plots, of which most are flat, hide those that matter."""
    shop.change("sales", [1, 2, 3])
    shop.change("sales", [1], op="U")
    run = shop.apply()
    (event,) = [e for e in run.get_asset_materialization_events() if e.asset_key == SALES]
    shown: dict[str, Any] = {name: value.value for name, value in event.materialization.metadata.items()}
    assert set(shown) == {
        "dagster/row_count",
        "position",
        "newest_commit",
        "lag_seconds",
        "latency_p50_seconds",
        "latency_p99_seconds",
        "rows_inserted",
        "rows_updated",
        "seconds",
        "seconds_by_stage",
        "details",
        "preview",
    }
    assert {"read", "write", "publish"} <= set(shown["seconds_by_stage"])
    assert shown["details"]["rows_read"] == 4
    assert 0 not in shown["details"].values()
    assert shown["latency_p50_seconds"] <= shown["latency_p99_seconds"]


def test_an_update_of_a_row_that_nobody_knows_is_told(shop: Shop) -> None:
    shop.change("sales", [1])
    shop.apply()
    shop.change("sales", [77], op="U")
    run = shop.apply()
    assert materialized(run)["sales"]["unseen_updates"] == 1
    told = [event.message or "" for event in shop.instance.all_logs(run.run_id)]
    assert any("1 update is of rows that the table did not have" in message for message in told)


def test_a_change_of_columns_is_an_event_on_the_asset(shop: Shop) -> None:
    shop.change("sales", [1])
    shop.apply()
    moment = "2026-03-01 12:00:00.000000"
    lines = ["Op,commit_ts,id,at,change_seq,BI_id", f"I,{moment},2,{moment},{sequence(9_000)},NULL"]
    write_file(shop.folder, "public/sales/20260301-120000000.csv", lines)
    run = shop.apply()
    (event,) = run.filter_events(lambda event: event.event_type == dg.DagsterEventType.ASSET_OBSERVATION)
    observed = event.asset_observation_data.asset_observation
    assert (observed.asset_key, observed.description) == (SALES, "keep column name, NULL from now on")
    assert observed.metadata["position"].value == 2
    assert materialized(run)["sales"]["schema_changes"] == observed.description


def test_every_check_is_evaluated_and_none_is_left_planned(shop: Shop) -> None:
    shop.change("sales", [1])
    run = shop.apply()
    assert outcomes(run) == {
        ("sales", "applied"): True,
        ("sales", "row_count"): True,
        ("sales", "quarantine"): True,
        ("sales", "known_rows"): True,
        ("sales", "freshness"): True,
        ("shop_batch", "every_table_applied"): True,
        ("shop_batch", "known_files"): True,
    }
    for asset, name in outcomes(run):
        path = ["silver", "shop", asset] if asset == "sales" else ["lake_ops", asset]
        (turn,) = check_executions(shop.instance, dg.AssetCheckKey(dg.AssetKey(path), name))
        assert turn.passed is True, name
    (counted,) = [e for e in run.get_asset_check_evaluations() if e.check_name == "row_count"]
    assert counted.metadata["rows_counted_in_files"].value == counted.metadata["rows_read"].value == 1


def test_a_turn_with_nothing_pending_materializes_no_table(shop: Shop) -> None:
    shop.change("sales", [1])
    shop.apply()
    snapshots = shop.snapshots("silver_shop.sales")
    run = shop.materialize([SALES, NOTES, BATCH])
    assert run.success
    assert set(materialized(run)) == {"shop_batch"}
    assert outcomes(run)["sales", "applied"]
    assert outcomes(run)["notes", "freshness"]
    assert shop.snapshots("silver_shop.sales") == snapshots


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
    assert set(_failed_tables(shop.instance, run.run_id, BATCH)) == {"silver_shop.sales"}
    assert _failed_tables(shop.instance, "another-run", BATCH) == {}


def look(shop: Shop) -> dict[str, dg.AssetCheckEvaluation]:
    """Executes all checks of the sales table without the table."""
    job = shop.definitions.resolve_implicit_global_asset_job_def()
    checks = {
        dg.AssetCheckKey(SALES, name)
        for name in ("applied", "row_count", "quarantine", "known_rows", "freshness")
    }
    alone = job.get_subset(asset_selection=set(), asset_check_selection=checks)
    run = alone.execute_in_process(instance=shop.instance, run_config=QUIET)
    return {evaluation.check_name: evaluation for evaluation in run.get_asset_check_evaluations()}


def passed(found: dict[str, dg.AssetCheckEvaluation]) -> dict[str, bool]:
    return {name: evaluation.passed for name, evaluation in found.items()}


GREEN = dict.fromkeys(("applied", "row_count", "quarantine", "known_rows", "freshness"), True)


def test_checks_that_are_executed_by_themselves_look_and_apply_nothing(shop: Shop) -> None:
    """Files that wait for their turn do not stop a table, so that its marts are computed."""
    shop.change("sales", [1])
    shop.tick()
    assert passed(look(shop)) == GREEN
    assert shop.rows("silver_shop.sales") == []
    shop.materialize([SALES, BATCH])
    shop.change("sales", [2])
    shop.tick()
    found = look(shop)
    assert passed(found) == GREEN
    assert (
        found["row_count"].metadata["rows"].value == found["row_count"].metadata["rows_in_files"].value == 1
    )
    assert shop.materialize([GOLD], partition="2026-03-01").success


def test_a_stopped_table_stays_red_when_its_check_is_executed_by_itself(shop: Shop) -> None:
    shop.spoil("sales")
    (cause,) = failures(shop.apply()).values()
    applied = look(shop)["applied"]
    assert not applied.passed
    assert applied.metadata["error"].value == cause
    assert not shop.materialize([GOLD], partition="2026-03-01").success


def test_a_row_count_that_is_executed_by_itself_sees_rows_of_strangers(shop: Shop) -> None:
    shop.change("sales", [1, 2])
    shop.apply()
    shop.change("sales", [2], op="D")
    shop.apply()
    assert look(shop)["row_count"].metadata["rows_in_files"].value == 1
    table = f"{shop.lake.config.catalog.name}.silver_shop.sales"
    shop.lake.runtime.sessions.root().sql(f"INSERT INTO {table} SELECT * FROM {table}")
    counted = look(shop)["row_count"]
    assert not counted.passed
    assert counted.metadata["problem"].value == (
        "rows after the table's newest batch: 1, now: 2. Another writer has changed the table"
    )


def test_a_batch_that_does_not_add_up_stays_red_when_it_is_looked_at(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def miscounted(runtime: object, target: Target, *_: object) -> TableResult:
        return TableResult(target, error=RowCountMismatch(target.table, "1 row is missing.", "Inspect it."))

    with monkeypatch.context() as patched:
        patched.setattr(engine, "apply_table", miscounted)
        shop.change("sales", [1])
        shop.apply()
    assert passed(look(shop)) == GREEN | {"applied": False, "row_count": False}
    shop.materialize([SALES, BATCH])
    assert passed(look(shop)) == GREEN


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


# --- without Spark


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


def test_a_source_of_many_tables_is_cut_into_chunks_with_a_batch_asset_each(tmp_path: Path) -> None:
    columns = {"id": "long not null"}
    tables = {f"public.t{number}": {"columns": columns, "primary_key": ["id"]} for number in range(120)}
    targets = small_lake(tmp_path, tables).targets
    assert {key.path[-1] for key in batch_keys("shop", targets, targets)} == {
        "shop_batch",
        "shop_batch_2",
        "shop_batch_3",
    }
    assert {key.path[-1] for key in batch_keys("shop", targets, [targets[50], targets[99]])} == {
        "shop_batch_2"
    }
