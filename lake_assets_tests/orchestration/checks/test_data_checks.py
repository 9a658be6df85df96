"""The checks on a schedule: each is executed by itself in Dagster, on a lake that is right and on one that is not.

Here: breaking the data behind the lake's back, by an own Spark statement or in the bucket. Not here: the checks of a
batch (`assets/test_silver_checks.py`).
"""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.checks.quarantine_rule import quarantine_grows_less
from lake_assets.config import QuarantineGrowth, Reconcile
from lake_assets.errors import LakeError
from lake_assets.orchestration.backfill import backfill
from lake_assets.orchestration.checks.check_history import check_executions, latest_evaluation
from lake_assets.orchestration.lake_definitions import build_definitions, open_lake
from lake_assets.orchestration.sync import sync
from lake_assets.rounds.pending_work import SyncResult
from lake_assets.silver.reconcile.compare_slices import known_cycle
from lake_assets.silver.reconcile.repair import repair
from lake_assets_tests.helpers.orchestration.dagster_shop import (
    COLUMNS,
    DAILY,
    NOTES,
    QUIET,
    SALES,
    STOPS,
    TOTAL,
    Shop,
    days,
    open_shop,
)
from lake_assets_tests.helpers.reconcile.outside_writer import rewrite
from lake_assets_tests.helpers.reconcile.restored import restorer

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LANDED = dg.AssetKey(["bronze", "shop", "sales"])
TOTAL_KEY = dg.AssetKey(TOTAL.asset_key)
TABLES: dict[str, Any] = {
    "public.sales": {
        "columns": {**COLUMNS, "name": "string not null"},
        "primary_key": ["id"],
        "partition_by": ["day(at)"],
        "freshness": {"max_quiet": "1h"},
        "checks": {
            "allowed_names": {"rows": "name <> 'forbidden' -- by law", "blocking": True},
            "one_name_each": {"unique": ["name"], "severity": "warn", "schedule": "30 4 * * 1"},
            "usual_number": {"total": "count(*)", "drift": 0.5},
            "misspelt": "nome IS NOT NULL",
        },
        **STOPS,
    },
    "public.notes": {
        "columns": COLUMNS,
        "primary_key": ["id"],
        "checks": {"has_a_sale": {"references": {"table": "public.sales", "columns": {"id": "id"}}}},
        **STOPS,
    },
}
GOLD: dict[str, Any] = {
    "start_date": "2026-03-01",
    "checks": {"sales_total": {"all_sales": {"total": "sum(sales)", "equals": "count(*)", "of": "sales"}}},
}


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Shop]:
    """Two sales and a note, in all layers."""
    folder = tmp_path_factory.mktemp("shop")
    shop = open_shop(folder, tables=TABLES, gold=GOLD, checks={"mart_max_pending_age": "0s"})
    shop.change("sales", [1, 2])
    shop.change("notes", [1])
    shop.apply()
    compute_marts(shop)
    shop.instance.dispose()
    return restorer(shop)


@pytest.fixture
def shop(made: Callable[[], Shop]) -> Iterator[Shop]:
    shop = made()
    yield shop
    shop.instance.dispose()


def compute_marts(shop: Shop) -> None:
    for request in shop.tick("marts").run_requests or ():
        assert shop.run(request).success


def evaluate(shop: Shop, asset: dg.AssetKey, name: str) -> dg.AssetCheckEvaluation:
    """The check's evaluation in a run of nothing else."""
    key = dg.AssetCheckKey(asset, name)
    job = dg.define_asset_job("one_check", dg.AssetSelection.checks(key))
    graph = shop.definitions.get_repository_def().asset_graph
    run = job.resolve(asset_graph=graph).execute_in_process(
        instance=shop.instance, run_config=QUIET, raise_on_error=False
    )
    (found,) = run.get_asset_check_evaluations()
    assert found.asset_check_key == key
    return found


def state(evaluation: dg.AssetCheckEvaluation) -> str:
    return str(evaluation.metadata["state"].value)


def write(shop: Shop, statement: str) -> None:
    """A statement of another user of the catalog."""
    shop.lake.runtime.sessions.root().sql(statement.format(catalog=shop.lake.config.catalog.name))


INSERT = "INSERT INTO {{catalog}}.silver_shop.{table} VALUES ({id}, {name}, timestamp '2026-03-01 10:00:00')"


def insert(shop: Shop, table: str, key: int, name: str) -> None:
    write(shop, INSERT.format(table=table, id=key, name=name))


def test_a_right_lake_passes_every_check_on_the_schedule(shop: Shop) -> None:
    repository = shop.definitions.get_repository_def()
    assert {s.name: s.cron_schedule for s in repository.schedule_defs} == {
        "checks": "0 3 * * *",
        "checks_2": "30 4 * * 1",
    }
    run = repository.get_job("checks").execute_in_process(instance=shop.instance, run_config=QUIET)
    evaluated = {(e.asset_key.path[0], e.check_name): e.passed for e in run.get_asset_check_evaluations()}
    assert evaluated == {
        ("bronze", "row_count"): True,
        ("silver", "unique_key"): True,
        ("silver", "not_null"): True,
        ("silver", "quarantine_growth"): True,
        ("silver", "read_health"): True,
        ("silver", "allowed_names"): True,
        ("silver", "usual_number"): True,
        ("silver", "misspelt"): False,
        ("silver", "has_a_sale"): True,
        ("gold", "read_health"): True,
        ("gold", "all_sales"): True,
    }
    (misspelt,) = [e for e in run.get_asset_check_evaluations() if e.check_name == "misspelt"]
    assert "nome" in state(misspelt)


def test_a_file_does_not_wait_for_checks_on_the_schedule(shop: Shop) -> None:
    shop.change("sales", [3])
    done = shop.apply()
    names = {e.check_name for e in done.get_asset_check_evaluations()}
    assert names == {
        "applied",
        "row_count",
        "quarantine",
        "known_rows",
        "freshness",
        "every_table_applied",
        "known_files",
    }
    # Those of a mart that its runs evaluate read metadata only.
    for request in shop.tick("marts").run_requests or ():
        names = {e.check_name for e in shop.run(request).get_asset_check_evaluations()}
        assert names == {"row_count", "freshness"}


def test_a_repeated_key(shop: Shop) -> None:
    insert(shop, "sales", 2, "'again'")
    found = evaluate(shop, SALES, "unique_key")
    assert not found.passed
    assert state(found) == "1 value does not belong to one row only (id)."
    assert found.metadata["examples"].value == "id=2, rows=2"


def test_a_null_where_none_is_declared(shop: Shop) -> None:
    write(shop, "ALTER TABLE {catalog}.silver_shop.sales ALTER COLUMN name DROP NOT NULL")
    insert(shop, "sales", 7, "NULL")
    found = evaluate(shop, SALES, "not_null")
    assert not found.passed
    assert found.metadata["examples"].value == "id=7"
    assert evaluate(shop, SALES, "allowed_names").passed


def test_a_condition_holds_the_marts(shop: Shop) -> None:
    """Also a backfill of one, which evaluates it."""
    day = str(shop.rows("gold.sales_daily")[0]["day"])
    lake = open_lake(shop.lake.config, marts=shop.lake.marts)
    shop.change("sales", [3], name="forbidden")
    shop.apply()
    with pytest.raises(LakeError, match="waits for silver/shop/sales: allowed_names"):
        list(backfill(lake, shop.instance, "sales_daily", day, day))
    found = evaluate(shop, SALES, "allowed_names")
    assert not found.passed
    assert found.blocking
    assert found.metadata["examples"].value == "id=3"
    assert "waits for silver/shop/sales: allowed_names" in shop.refusal("marts")
    shop.change("sales", [3], op="U", name="allowed")
    shop.apply()
    assert list(backfill(lake, shop.instance, "sales_daily", day, day)) == [(day, day, 1)]
    assert evaluate(shop, SALES, "allowed_names").passed
    assert shop.tick("marts").run_requests


def test_a_condition_holds_the_marts_of_sync(shop: Shop) -> None:
    """It has no schedule: it evaluates the blocking checks of what the stale marts read, and reports the result."""

    def synced() -> SyncResult:
        return sync(open_lake(shop.lake.config, marts=shop.lake.marts), shop.instance)

    shop.change("sales", [3], name="forbidden")
    result = synced()
    assert result.waiting["gold.sales_total"] == "gold.sales_total waits for silver/shop/sales: allowed_names"
    assert (result.marts, len(shop.rows("gold.sales_total"))) == ({}, 1)
    key = dg.AssetCheckKey(SALES, "allowed_names")
    last = latest_evaluation(shop.instance, key)
    assert last is not None
    assert last.passed is False
    shop.change("sales", [3], op="U", name="allowed")
    assert set(synced().marts) == {"sales_total", "sales_daily"}
    assert shop.rows("gold.sales_total") == [{"sales": 3}]
    evaluations = len(check_executions(shop.instance, key))
    shop.change("notes", [2])
    synced()
    assert len(check_executions(shop.instance, key)) == evaluations, "nothing that the marts read has changed"


def test_a_quarantine_that_grows(shop: Shop) -> None:
    tables = {**TABLES, "public.sales": {**TABLES["public.sales"], "quarantine": {"max_rows": 5}}}
    shop = open_shop(
        shop.folder / "other", tables=tables, checks={"quarantine_growth": {"most": 1, "within": "1d"}}
    )
    shop.change("sales", [1])
    shop.spoil("sales")
    shop.apply()
    assert evaluate(shop, SALES, "quarantine_growth").passed, "one is within the limit"
    shop.spoil("sales")
    shop.apply()
    found = evaluate(shop, SALES, "quarantine_growth")
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert state(found).startswith("2 of the 2 rows and files in quarantine were quarantined within 1 day")
    assert "at" in str(found.metadata["newest"].value)
    (target,) = (target for target in shop.lake.targets if target.name == "sales")
    limit = QuarantineGrowth(most=1)
    later = quarantine_grows_less(target, limit, lambda: datetime.now(UTC) + timedelta(days=2))
    assert later(shop.lake.runtime, ()).passed, "they are old news then"


def test_rows_that_are_not_what_the_files_give(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard and the row counts have noticed nothing."""
    monkeypatch.setattr("lake_assets.silver.reconcile.apply_cost.SLICES", 1)
    checks = shop.lake.config.checks.model_copy(update={"reconcile": Reconcile(every=timedelta(days=1))})
    lake = open_lake(shop.lake.config.model_copy(update={"checks": checks}), marts=shop.lake.marts)
    shop = replace(shop, lake=lake, definitions=build_definitions(lake))
    rewrite(shop.lake, "silver_shop.sales", "id = 2", name="'flipped'")
    compute_marts(shop)
    assert evaluate(shop, SALES, "row_count").passed
    found = evaluate(shop, SALES, "equals_files")
    assert not found.passed
    shown = {name: value.value for name, value in found.metadata.items()}
    assert shown["differences"] == "1 row in all keys\nid=2: name is flipped, the files give n2"
    assert (shown["slices"], shown["rows"], shown["rows_different"]) == ("1", 2, 1)
    (target, *_) = shop.lake.targets
    cycle = known_cycle(shop.lake.runtime, target)
    assert cycle is not None
    assert repair(shop.lake.runtime, target, cycle, cycle.different).rows == 1
    assert evaluate(shop, SALES, "equals_files").passed
    requests = shop.tick("marts").run_requests or ()
    assert {key for request in requests for key in request.asset_selection or ()} == {
        dg.AssetKey(mart.asset_key) for mart in shop.lake.marts
    }


def test_a_repeated_value_is_a_warning(shop: Shop) -> None:
    shop.change("sales", [3, 4], name="same")
    shop.apply()
    found = evaluate(shop, SALES, "one_name_each")
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert found.metadata["examples"].value == "name=same, rows=2"


def test_a_row_without_the_row_that_it_refers_to(shop: Shop) -> None:
    shop.change("notes", [9])
    shop.apply()
    found = evaluate(shop, NOTES, "has_a_sale")
    assert not found.passed
    assert state(found) == "1 row does not have its row in silver_shop.sales."
    assert found.metadata["examples"].value == "id=9"
    shop.change("sales", [9])
    shop.apply()
    assert evaluate(shop, NOTES, "has_a_sale").passed


def test_a_total_that_drifts(shop: Shop) -> None:
    for _ in range(3):
        assert evaluate(shop, SALES, "usual_number").passed
    shop.change("sales", [3])
    shop.apply()
    assert evaluate(shop, SALES, "usual_number").passed
    shop.change("sales", [4])
    shop.apply()
    found = evaluate(shop, SALES, "usual_number")
    assert not found.passed
    assert state(found) == "count(*) is 4, the median of 4 earlier values is 2."


def test_a_mart_that_another_writer_has_changed(shop: Shop) -> None:
    assert evaluate(shop, TOTAL_KEY, "all_sales").passed
    write(shop, "INSERT INTO {catalog}.gold.sales_total VALUES (5)")
    total, rows = evaluate(shop, TOTAL_KEY, "all_sales"), evaluate(shop, TOTAL_KEY, "row_count")
    assert state(total) == "sum(sales) of gold.sales_total is 7, count(*) of silver_shop.sales is 2."
    assert not total.passed
    assert state(rows).startswith("rows after the table's newest batch: 1, now: 2.")
    assert not rows.passed
    shop.change("sales", [3])
    shop.apply()
    compute_marts(shop)
    assert evaluate(shop, TOTAL_KEY, "all_sales").passed
    assert evaluate(shop, TOTAL_KEY, "row_count").passed


def test_a_mart_behind_its_inputs(shop: Shop) -> None:
    assert evaluate(shop, TOTAL_KEY, "freshness").passed
    shop.change("sales", [3])
    shop.apply()
    found = evaluate(shop, TOTAL_KEY, "freshness")
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    # The total is compared with the snapshot that the mart has consumed.
    assert evaluate(shop, TOTAL_KEY, "all_sales").passed
    shop.tick("freshness")
    record = shop.instance.event_log_storage.get_asset_check_execution_history(found.asset_check_key, limit=1)
    assert record[0].event is not None
    assert record[0].run_id != ""
    (request,) = [r for r in shop.tick("marts").run_requests or () if days(r) is None]
    shop.run(request)
    assert evaluate(shop, TOTAL_KEY, "freshness").passed
    assert evaluate(shop, dg.AssetKey(DAILY.asset_key), "freshness").passed is False


def test_a_landed_file_with_other_rows(shop: Shop) -> None:
    (file,) = (shop.folder / "bronze/public/sales").iterdir()
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]))
    found = evaluate(shop, LANDED, "row_count")
    assert not found.passed
    assert state(found) == f"public/sales/{file.name} had 2 rows when it was logged, it now has 1"
    file.unlink()
    assert evaluate(shop, LANDED, "row_count").metadata["files_gone"].value == 1


def test_a_bucket_that_has_gone_quiet(spark: SparkSession, tmp_path: Path) -> None:
    shop = open_shop(tmp_path, tables=TABLES)
    file = tmp_path / "bronze" / shop.change("sales", [1])
    os.utime(file, (time.time() - 7200,) * 2)
    shop.apply()
    found = evaluate(shop, LANDED, "freshness")
    assert (found.passed, found.severity) == (False, dg.AssetCheckSeverity.WARN)
    assert "the limit is 1:00:00" in state(found)
    shop.change("notes", [1])
    shop.apply()
    assert evaluate(shop, dg.AssetKey(["bronze", "shop", "notes"]), "freshness").passed
