"""The checks of silver tables, with a turn and executed by themselves.

Not here: checks on a schedule (`checks/test_data_checks.py`).
"""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.errors import RowCountMismatch
from lake_assets.orchestration.checks.check_history import check_executions
from lake_assets.silver.apply import engine
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.orchestration.dagster_shop import (
    BATCH,
    DAILY,
    QUIET,
    SALES,
    TABLES,
    Shop,
    failures,
    open_shop,
)
from lake_assets_tests.helpers.orchestration.silver_runs import outcomes

GOLD = dg.AssetKey(["gold", "sales_daily"])


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


def loose_shop(folder: Path, **settings: Any) -> Shop:
    """A shop whose table of sales has these settings, too."""
    return open_shop(folder, marts=[DAILY], tables={"public.sales": TABLES["public.sales"] | settings})


def reds(shop: Shop, run: dg.ExecuteInProcessResult) -> tuple[set[str], set[str]]:
    """The checks of the sales table that failed in the run, and that fail when they are executed by themselves."""
    after = {name for (asset, name), passed in outcomes(run).items() if asset == "sales" and not passed}
    return after, {name for name, passed in passed(look(shop)).items() if not passed}


def test_rows_that_are_quarantined_are_seen(spark: SparkSession, tmp_path: Path) -> None:
    shop = loose_shop(tmp_path, quarantine={"max_rows": 5})
    shop.change("sales", [1])
    shop.spoil("sales")
    assert reds(shop, shop.apply()) == ({"quarantine"}, {"quarantine"})
    assert "not a valid timestamptz" in str(look(shop)["quarantine"].metadata["newest"].value)
    assert shop.tick("marts").run_requests, "a warning"


def test_a_change_of_an_unknown_row_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    shop = loose_shop(tmp_path)
    shop.load("sales", [1])
    shop.change("sales", [2])
    assert reds(shop, shop.apply()) == (set(), set())
    shop.change("sales", [7], op="U")
    assert reds(shop, shop.apply()) == ({"known_rows"}, {"known_rows"})
    assert "updates referred to 1 row that" in str(look(shop)["known_rows"].metadata["reason"].value)
    assert shop.tick("marts").run_requests, "a warning"


def test_a_file_that_waits_too_long_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    """Before its batch, and after one that failed."""
    shop = loose_shop(tmp_path, freshness={"max_pending_age": "0s"})
    shop.change("sales", [1])
    shop.tick()
    assert passed(look(shop)) == GREEN | {"freshness": False}
    assert reds(shop, shop.apply()) == (set(), set())
    shop.spoil("sales")
    assert reds(shop, shop.apply()) == ({"applied", "freshness"}, {"applied", "freshness"})


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
