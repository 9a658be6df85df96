"""Maintenance by itself in Dagster: the sensor's requests, and what a run does and reports.

Not here: which tables are due (`rounds/test_due_maintenance.py`), `sync` (`commands/test_maintain_commands.py`).
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.log import file_log_maintenance
from lake_assets.checks.lake_checks import READ_HEALTH
from lake_assets.config import ContinuousConfig
from lake_assets.iceberg.upkeep import ops_maintenance, table_health
from lake_assets.iceberg.upkeep.table_maintenance import TableMaintenance
from lake_assets.orchestration.checks.check_history import check_executions, latest_evaluation
from lake_assets.orchestration.runs import maintenance_job
from lake_assets.orchestration.runs.continuous_job import continuous_job
from lake_assets.rounds.maintenance import maintain_silver
from lake_assets_tests.helpers.orchestration.dagster_shop import QUIET, SALES, Shop, open_shop
from lake_assets_tests.helpers.reconcile.restored import restorer

pytestmark = pytest.mark.usefixtures("keep_little")
SENSOR = "tables_stay_small"
DUE = {"maintenance": {"keep_snapshots": "0s"}}


@pytest.fixture(scope="module")
def made(
    spark: SparkSession, keep_little: None, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Shop]:
    """Two tables that have had one batch, one of them a second one."""
    shop = open_shop(tmp_path_factory.mktemp("shop"), marts=(), **DUE)
    for table in ("sales", "notes"):
        shop.load(table, [1])
        shop.change(table, [2])
    shop.apply()
    shop.change("sales", [3])
    shop.apply()
    shop.instance.dispose()
    return restorer(shop)


@pytest.fixture
def due(made: Callable[[], Shop], monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """The shop, whose sales are due."""
    monkeypatch.setattr(table_health, "SNAPSHOTS", 2)
    shop = made()
    yield shop
    shop.instance.dispose()


def run(shop: Shop) -> dg.ExecuteInProcessResult:
    job = shop.definitions.resolve_job_def(maintenance_job.NAME)
    return job.execute_in_process(instance=shop.instance, run_config=QUIET, raise_on_error=False)


def observed(shop: Shop, key: dg.AssetKey = SALES) -> list[dict[str, Any]]:
    records = shop.instance.fetch_observations(key, limit=10).records
    return [
        {name: value.value for name, value in record.asset_observation.metadata.items()}
        for record in records
        if record.asset_observation is not None
    ]


def test_a_run_is_requested_for_what_is_due_and_ends_it(due: Shop) -> None:
    request = due.request(SENSOR)
    assert request.tags["tables"] == "1 table"
    before = due.snapshots("silver_shop.sales")
    assert run(due).success
    assert due.snapshots("silver_shop.sales") == 1
    (shown,) = observed(due)
    assert (shown["snapshots_before"], shown["snapshots_after"]) == (before, 1)
    assert shown["maintenance_seconds"] > 0
    assert due.refusal(SENSOR) == "no table is due"
    assert [row["id"] for row in due.rows("silver_shop.sales")] == [1, 2, 3]


def test_a_table_that_is_slow_to_read_fails_its_check_until_it_is_maintained(
    spark: SparkSession, new_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sensor and the run evaluate it, whatever its schedule, but only if its outcome changes."""
    monkeypatch.setattr(table_health, "SMALL_FILES", 3)
    shop = new_shop(marts=(), automation={"rewrite_below_mb": 0})
    check = dg.AssetCheckKey(SALES, READ_HEALTH)

    def evaluations() -> list[bool | None]:
        return [found.passed for found in check_executions(shop.instance, check)]

    shop.load("sales", [1])
    for number in range(2, 7):
        shop.change("sales", [number])
        shop.apply()
    shop.request(SENSOR)
    assert evaluations() == [], "it is due, but not behind"
    shop.change("sales", [7])
    shop.apply()
    for _ in range(2):
        shop.request(SENSOR)
        assert evaluations() == [False]
    last = latest_evaluation(shop.instance, check)
    assert last is not None
    assert last.is_warning
    assert (last.description or "").startswith(
        "It has 6 small files. A full scan opens 6 data files, 6 of them"
    )
    assert run(shop).success
    assert evaluations() == [True, False]
    (shown,) = observed(shop)
    assert (shown["small_files_before"], shown["files_after"]) == (6, 1)
    assert shown["scan_ratio_before"] > 1


def test_the_lakes_own_tables(due: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(due).success
    assert due.refusal(SENSOR) == "no table is due"
    monkeypatch.setattr(ops_maintenance, "KEEP_SNAPSHOTS", 1)
    monkeypatch.setattr(file_log_maintenance, "MAX_SNAPSHOTS", 2)
    for number in range(2):
        due.lake.runtime.findings.note("failure", "silver_shop.sales", {"reason": str(number)})
    assert due.request(SENSOR).tags["tables"] in ("1 table", "2 tables"), "the log of contracts may have two"
    assert run(due).success
    assert due.snapshots("lake_ops.findings") == 1
    assert due.lake.runtime.findings.of("failure")["silver_shop.sales"].content == {"reason": "1"}


def test_superseded_files(spark: SparkSession, new_shop: Callable[..., Shop]) -> None:
    """They are deleted once, and the run reports them on the asset of their table."""
    shop = new_shop(marts=(), maintenance={"keep_snapshots": "0s", "keep_superseded_files": "30d"})
    shop.load("sales", [1], day=1)
    shop.change("sales", [2], day=2)
    shop.change("sales", [3], day=3)
    shop.apply()
    shop.load("sales", [1, 2], day=20)
    shop.change("sales", [4], day=21)
    shop.apply()
    for target in shop.lake.targets:
        assert maintain_silver(shop.lake.runtime, (), target).error is None
    assert shop.refusal(SENSOR) == "no table is due", "the window is not over"
    object.__setattr__(shop.lake.config.maintenance, "keep_superseded_files", timedelta(0))
    assert shop.request(SENSOR).tags["tables"] == "1 table"
    assert run(shop).success
    (shown,) = observed(shop, dg.AssetKey(["bronze", "shop", "sales"]))
    assert (shown["files_removed"], shown["bytes_removed"] > 0) == (1, True)
    assert shop.refusal(SENSOR) == "no table is due"
    shop.change("sales", [5], day=22)
    shop.apply()
    assert [row["id"] for row in shop.rows("silver_shop.sales")] == [1, 2, 4, 5]


def test_one_run_at_a_time(due: Shop) -> None:
    job = due.definitions.resolve_job_def(maintenance_job.NAME)
    begun = due.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    assert due.refusal(SENSOR) == f"run {begun.run_id[:8]} is under way"


def test_a_table_that_fails_is_reported_and_the_others_are_maintained(
    due: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    due.change("notes", [3])
    due.apply()
    plain = TableMaintenance.expire

    def refused(self: TableMaintenance) -> int:
        if self.identifier == "silver_shop.sales":
            raise OSError("the disk is full")
        return plain(self)

    monkeypatch.setattr(TableMaintenance, "expire", refused)
    done = run(due)
    assert not done.success
    (failure,) = [event for event in done.all_events if event.is_step_failure]
    assert "silver_shop.sales: the disk is full" in str(failure.step_failure_data)
    assert due.snapshots("silver_shop.notes") == 1
    assert due.snapshots("silver_shop.sales") > 1
    assert "the next one is requested in" in due.refusal(SENSOR), "it is tried again with a pause"


def test_a_long_run_leaves_the_rest_to_the_next_one(due: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance_job, "RUN_SECONDS", -1.0)
    assert run(due).success
    assert observed(due) == []
    assert due.request(SENSOR).tags["tables"] == "1 table"


def test_tables_of_a_continuous_run_are_left_to_it_for_a_while(
    spark: SparkSession, new_shop: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It counts commits from its own beginning, so that a table with few of them would never have its turn."""
    monkeypatch.setattr(table_health, "SNAPSHOTS", 2)
    shop = new_shop(marts=(), automation={"continuous": True}, **DUE)
    shop.load("sales", [1])
    shop.change("sales", [2])
    shop.apply()
    shop.change("sales", [3])
    shop.apply()
    assert shop.request(SENSOR).tags["tables"] == "1 table", "none is alive"
    lake = shop.lake
    job = continuous_job(lake.runtime, "shop", lake.targets, lake.marts, ContinuousConfig())
    shop.instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    assert shop.refusal(SENSOR) == "no table is due"
    monkeypatch.setattr(table_health, "SNAPSHOTS", 1)
    assert shop.request(SENSOR).tags["tables"] == "1 table"
