"""The severity, the blocking and the schedule of the checks that every table has, on a lake in which all of them fail.

Not here: what each check finds (`test_data_checks.py`), mistakes in the settings (`test_check_mistakes.py`).
"""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.checks.data_check import DataCheck
from lake_assets.errors import LakeError
from lake_assets.gold.mart import Input
from lake_assets.orchestration.backfill import backfill
from lake_assets.orchestration.checks.blocking_checks import failed_inputs, failed_when_evaluated
from lake_assets.orchestration.checks.check_history import check_executions
from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets.orchestration.sync import sync
from lake_assets_tests.helpers.files.dms_files import Clock
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS as VALUES
from lake_assets_tests.helpers.lakes.changed_shop import changed, loaded
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS, small_lake
from lake_assets_tests.helpers.orchestration.dagster_shop import (
    BATCH,
    COLUMNS,
    QUIET,
    SALES,
    TOTAL,
    Shop,
    open_shop,
)
from lake_assets_tests.helpers.reconcile.restored import restorer

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LANDED, TOTALS = dg.AssetKey(["bronze", "shop", "sales"]), dg.AssetKey(TOTAL.asset_key)
OF_TABLE = {
    "bronze_row_count": dg.AssetCheckKey(LANDED, "row_count"),
    "bronze_freshness": dg.AssetCheckKey(LANDED, "freshness"),
    "unique_key": dg.AssetCheckKey(SALES, "unique_key"),
    "not_null": dg.AssetCheckKey(SALES, "not_null"),
    "quarantine_growth": dg.AssetCheckKey(SALES, "quarantine_growth"),
}
OF_MART = {
    "row_count": dg.AssetCheckKey(TOTALS, "row_count"),
    "freshness": dg.AssetCheckKey(TOTALS, "freshness"),
}
EVERY_CHECK = {*OF_TABLE.values(), *OF_MART.values()}
WARN, ERROR = dg.AssetCheckSeverity.WARN, dg.AssetCheckSeverity.ERROR
USUALLY_WARN = {OF_TABLE["bronze_freshness"], OF_TABLE["quarantine_growth"], OF_MART["freshness"]}


def opened(folder: Path, of_table: dict[str, Any], of_mart: dict[str, Any], **automation: Any) -> Shop:
    """The shop with these settings of the checks of its table and of a mart. Nothing may wait or be quiet."""
    sales = {
        "columns": {**COLUMNS, "name": "string not null"},
        "primary_key": ["id"],
        "freshness": {"max_quiet": "0s"},
        "quarantine": {"max_rows": 5},
        "foreign_commits": "tolerate",
        "checks": of_table,
    }
    return open_shop(
        folder,
        tables={"public.sales": sales},
        gold={"start_date": "2026-03-01", "checks": {"sales_total": of_mart}},
        checks={"mart_max_pending_age": "0s"},
        automation=automation,
        catalog={
            "name": "lake_of_failed_checks",
            "uri": str(folder / "catalog.db"),
            "warehouse": str(folder / "warehouse"),
        },
    )


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Shop]:
    """Each check of the table and of the mart fails. The marts lack a sale."""
    shop = opened(tmp_path_factory.mktemp("shop"), {}, {})
    file = shop.folder / "bronze" / shop.change("sales", [1, 2])
    shop.apply()
    for request in shop.tick("marts").run_requests or ():
        assert shop.run(request).success
    shop.change("sales", [3])
    shop.spoil("sales")
    shop.apply()
    lose_a_row(file)
    for statement in (
        "ALTER TABLE {catalog}.silver_shop.sales ALTER COLUMN name DROP NOT NULL",
        "INSERT INTO {catalog}.silver_shop.sales VALUES (2, NULL, timestamp '2026-03-01 10:00:00')",
        "INSERT INTO {catalog}.gold.sales_total VALUES (5)",
    ):
        shop.lake.runtime.sessions.root().sql(statement.format(catalog=shop.lake.config.catalog.name))
    shop.instance.dispose()
    return restorer(shop)


def lose_a_row(file: Path) -> None:
    """Joins the last two rows, so that a scan does not see that the file was written again."""
    before, (*first, last) = file.stat(), file.read_text().splitlines()
    file.write_text("\n".join(first) + f" {last}\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.fixture
def reopened(made: Callable[[], Shop]) -> Iterator[Callable[..., Shop]]:
    """Opens the lake with settings of its checks."""
    shops = [made()]

    def create(of_table: dict[str, Any], of_mart: dict[str, Any], **automation: Any) -> Shop:
        shops.append(opened(shops[0].folder, of_table, of_mart, **automation))
        return shops[-1]

    yield create
    for shop in shops:
        shop.instance.dispose()


@pytest.mark.parametrize("is_set", [False, True])
def test_a_failure_has_the_severity_that_is_set(reopened: Callable[..., Shop], is_set: bool) -> None:
    """By the schedule of their own: the usual severity of each check, or the other one."""

    def own(checks: dict[str, dg.AssetCheckKey]) -> dict[str, Any]:
        other = {name: "error" if key in USUALLY_WARN else "warn" for name, key in checks.items()}
        return {
            name: {"severity": other[name] if is_set else None, "schedule": "15 5 * * *"} for name in checks
        }

    shop = reopened(own(OF_TABLE), own(OF_MART))
    repository = shop.definitions.get_repository_def()
    (schedule,) = [one for one in repository.schedule_defs if one.cron_schedule == "15 5 * * *"]
    run = repository.get_job(schedule.job_name).execute_in_process(instance=shop.instance, run_config=QUIET)
    found = {found.asset_check_key: found for found in run.get_asset_check_evaluations()}
    assert set(found) == EVERY_CHECK
    assert [key for key, evaluation in found.items() if evaluation.passed] == []
    assert {key: evaluation.severity for key, evaluation in found.items()} == {
        key: WARN if (key in USUALLY_WARN) is not is_set else ERROR for key in EVERY_CHECK
    }


def test_a_schedule_takes_a_check_from_the_others(reopened: Callable[..., Shop]) -> None:
    """From the schedule of all, and from the sensor that evaluates freshness once a minute."""

    def scheduled(shop: Shop) -> set[dg.AssetCheckKey]:
        """The checks of the schedule of all, if any is left to it."""
        repository, usual = shop.definitions.get_repository_def(), shop.lake.config.checks.schedule
        jobs = [one.job_name for one in repository.schedule_defs if one.cron_schedule == usual]
        return {
            key for job in jobs for key in repository.get_job(job).asset_layer.asset_graph.asset_check_keys
        }

    def evaluated(shop: Shop) -> list[bool]:
        """Whether a tick of the sensor evaluates the freshness of bronze and of the mart."""
        keys = (OF_TABLE["bronze_freshness"], OF_MART["freshness"])
        before = [newest(shop, key) for key in keys]
        shop.tick("freshness")
        return [newest(shop, key) != was for key, was in zip(keys, before, strict=True)]

    def newest(shop: Shop, key: dg.AssetCheckKey) -> object:
        return next((execution for execution in check_executions(shop.instance, key)), None)

    own = {"schedule": "15 5 * * *"}
    shop = reopened(dict.fromkeys(OF_TABLE, own), dict.fromkeys(OF_MART, own))
    assert not scheduled(shop) & EVERY_CHECK, "only those of the other mart"
    assert evaluated(shop) == [False, False]
    shop = reopened({}, {})
    assert EVERY_CHECK - scheduled(shop) == {OF_TABLE["bronze_freshness"], *OF_MART.values()}
    assert evaluated(shop) == [True, True]


def test_each_check_that_blocks_holds_the_marts(reopened: Callable[..., Shop]) -> None:
    """In a command, which evaluates it; then in all other runs, by that evaluation. Also a check of bronze."""

    def named(reason: str) -> set[str]:
        """The checks that a mart waits for."""
        assert reason.startswith("gold.sales_")
        return set(reason.partition(" waits for ")[2].split(", "))

    shop = reopened({name: {"blocking": True} for name in OF_TABLE}, {}, marts_in_silver_runs=True)
    each = {f"{key.asset_key.to_user_string()}: {key.name}" for key in OF_TABLE.values()}
    with pytest.raises(LakeError) as refused:
        list(backfill(shop.lake, shop.instance, "sales_daily", "2026-03-01", "2026-03-01"))
    assert named(str(refused.value).removesuffix(": it is not computed while that check fails.")) == each
    found = sync(shop.lake, shop.instance)
    assert {mart: named(reason) for mart, reason in found.waiting.items()} == {
        mart.identifier: each for mart in shop.lake.marts
    }
    assert not found.marts
    (total,) = re.findall(r"gold\.sales_total waits for [^;]*", shop.refusal("marts"))
    assert named(total) == each
    shop.change("sales", [4])
    assert set(shop.request().asset_selection or ()) == {SALES, BATCH}, "not the mart, which else goes along"


def test_a_check_of_bronze_holds_each_shape_of_the_table(tmp_path: Path) -> None:
    """A mart may read the change log of the same files."""
    table = {**ITEMS, "also": ["change_log"], "freshness": {"max_quiet": "0s"}}
    changes = replace(TOTAL, inputs={"changes": Input("shop", "items_changes")})
    tables = {"public.items": {**table, "checks": {"bronze_freshness": {"blocking": True}}}}
    lake = small_lake(tmp_path, tables, [changes])
    repository = build_definitions(lake).get_repository_def()
    with dg.DagsterInstance.ephemeral() as instance:
        for target in lake.targets:
            found = failed_when_evaluated(lake.runtime, instance, lake.checks, [target])
            assert found == ["bronze/shop/items: freshness"], target.name
        assert failed_inputs(instance, changes, repository) == found


def test_a_table_that_is_written_while_its_check_reads(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The evaluation is newer than the commit, and is not about it."""
    bench = Bench(tmp_path, {"public.items": {**VALUES, "checks": {"unique_key": {"blocking": True}}}})
    lake, real, evaluated = bench.lake, DataCheck.evaluate, list[bool]()
    bench.put(loaded({1: "a"}))
    bench.apply()

    def evaluate(check: DataCheck, *given: Any) -> Any:
        outcome = real(check, *given)
        if not evaluated:
            bench.put(changed(Clock(), ("U", 1, "b")))
            bench.apply()
        evaluated.append(outcome.passed)
        return outcome

    monkeypatch.setattr(DataCheck, "evaluate", evaluate)
    with dg.DagsterInstance.ephemeral() as instance:
        for count in (1, 2, 2):
            assert not failed_when_evaluated(lake.runtime, instance, lake.checks, lake.targets)
            assert len(evaluated) == count


def test_a_source_that_has_gone_quiet_since_its_check_passed(reopened: Callable[..., Shop]) -> None:
    """The table has not been written since, and the check depends on the time."""
    key, own = OF_TABLE["bronze_freshness"], {"bronze_freshness": {"blocking": True}}
    shop = reopened(own, {})
    passed = dg.AssetCheckEvaluation(asset_key=key.asset_key, check_name=key.name, passed=True, metadata={})
    shop.instance.report_runless_asset_event(passed)
    assert "gold.sales_total" in sync(shop.lake, shop.instance).waiting


def test_a_check_that_does_not_block_any_more_holds_nothing(reopened: Callable[..., Shop]) -> None:
    """It is no check of the user, of which a command knows only that it has failed."""
    shop = reopened({"unique_key": {"blocking": True}}, {})
    assert not sync(shop.lake, shop.instance).marts
    shop = reopened({}, {})
    assert set(sync(shop.lake, shop.instance).marts) == {mart.name for mart in shop.lake.marts}


def test_a_check_that_warns_holds_nothing(reopened: Callable[..., Shop]) -> None:
    own = {"blocking": True, "severity": "warn"}
    shop = reopened(dict.fromkeys(OF_TABLE, own), {})
    assert set(sync(shop.lake, shop.instance).marts) == {mart.name for mart in shop.lake.marts}


@pytest.mark.parametrize("name", OF_MART)
def test_a_check_of_a_mart_that_blocks_holds_assets_that_read_it(
    reopened: Callable[..., Shop], name: str
) -> None:
    """Those of the user, in a run of both. No mart of the lake reads a mart."""
    shop = reopened({}, {name: {"blocking": True}})

    @dg.asset(deps=[TOTALS])
    def report() -> None: ...

    shop.definitions = dg.Definitions.merge(build_definitions(shop.lake), dg.Definitions(assets=[report]))
    done = shop.materialize([report.key], checks=[OF_MART[name]])
    assert [found.passed for found in done.get_asset_check_evaluations()] == [False]
    assert not done.get_asset_materialization_events()
    assert set(sync(shop.lake, shop.instance).marts) == {mart.name for mart in shop.lake.marts}
