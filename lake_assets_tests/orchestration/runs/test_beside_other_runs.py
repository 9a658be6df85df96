"""What Dagster shows when several runs apply the same tables or execute the same checks.

Here: the continuous run after another one, and beside runs that a user launches. Not here: its rounds
(`test_continuous.py`), real daemons (`test_continuous_daemon.py`).
"""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterExecutionInterruptedError
from pyspark.sql import SparkSession

from lake_assets.config import ContinuousConfig
from lake_assets.orchestration.checks.blocking_checks import failed_inputs
from lake_assets.orchestration.checks.check_history import latest_evaluation
from lake_assets.orchestration.checks.silver_checks import check_specs
from lake_assets.orchestration.io_managers.iceberg_io_manager import IO_MANAGER_KEY, TableIOManager
from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets.orchestration.runs.continuous_job import continuous_job
from lake_assets.orchestration.runs.continuous_run import Continuous
from lake_assets.orchestration.runs.missed_positions import UnreportedPositions
from lake_assets.orchestration.shared.asset_metadata import figures_of
from lake_assets.orchestration.shared.heartbeat import HEARTBEAT
from lake_assets.silver.apply.engine import Turns
from lake_assets.silver.plan.table_state import table_states
from lake_assets_tests.helpers.orchestration.dagster_shop import QUIET
from lake_assets_tests.helpers.orchestration.kept_lake import ITEMS, ITEMS_NOW, Kept

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SILVER, MART = dg.AssetKey(["silver", "shop", "items"]), dg.AssetKey(["gold", "items_now"])


@pytest.fixture
def kept(spark: SparkSession, tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def continuous_run(kept: Kept, *before_rounds: Callable[[], object]) -> None:
    """A continuous run of as many rounds, which reports after each of them."""
    lake, real, todo = kept.bench.lake, Continuous.round, iter(before_rounds)

    def one(self: Continuous, wait_seconds: float = 0.0) -> Any:
        if (before := next(todo, None)) is None:
            raise DagsterExecutionInterruptedError
        before()
        return real(self, 0.0)

    job = continuous_job(lake.runtime, "shop", lake.targets, lake.marts, ContinuousConfig())
    tables = {IO_MANAGER_KEY: TableIOManager(lake.runtime)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Continuous, "round", one)
        patched.setattr("lake_assets.orchestration.runs.continuous_job.REPORT_SECONDS", 0.0)
        with pytest.raises(DagsterExecutionInterruptedError):
            job.execute_in_process(instance=kept.instance, resources=tables)


def killed_run(kept: Kept, before_round: Callable[[], object]) -> None:
    """A continuous run of one round, of which Dagster gets no event."""
    nothing: Sequence[Any] = ()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Continuous, "events", lambda self: iter(nothing))
        continuous_run(kept, before_round)


def materialize(kept: Kept, *keys: dg.AssetKey) -> None:
    """What a click on "Materialize" does."""
    kept.bench.look()
    job = build_definitions(kept.bench.lake).resolve_implicit_global_asset_job_def()
    run = job.execute_in_process(instance=kept.instance, asset_selection=list(keys), run_config=QUIET)
    assert run.success


def executions(kept: Kept, name: str) -> list[Any]:
    """Those of a check of the table, in the order in which Dagster has them."""
    check = dg.AssetCheckKey(SILVER, name)
    return list(kept.instance.event_log_storage.get_asset_check_execution_history(check, limit=50))


def newest(kept: Kept, key: dg.AssetKey) -> tuple[dg.AssetMaterialization, int]:
    """The newest event of an asset, and its number."""
    (record,) = kept.instance.fetch_materializations(key, limit=1).records
    assert record.asset_materialization is not None
    return record.asset_materialization, record.storage_id


def test_a_check_that_passes_is_reported_once_by_each_run(kept: Kept) -> None:
    numbers = itertools.count()

    def put() -> None:
        kept.put(ITEMS, next(numbers))

    continuous_run(kept, put, put)
    continuous_run(kept, put, put, put)
    assert len({record.run_id for record in executions(kept, "applied")}) == 2
    assert len(executions(kept, "applied")) == 2


def test_a_check_that_fails_after_another_run_has_executed_it(kept: Kept) -> None:
    """Dagster orders a check's executions by when their runs began, so that this run's would be hidden."""

    def change() -> None:
        passing = dg.AssetCheckEvaluation(SILVER, "quarantine", passed=True, metadata={})
        kept.instance.report_runless_asset_event(passing)
        kept.change(ITEMS, ("I", {"id": "no number", "v": "bad"}))

    continuous_run(kept, lambda: kept.put(ITEMS, 1), change)
    newest = latest_evaluation(kept.instance, dg.AssetCheckKey(SILVER, "quarantine"))
    assert newest is not None
    assert not newest.passed


def test_checks_are_of_the_newest_materialization(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if another run has executed them while the continuous run reported: Dagster's graph shows no others."""
    real, users = Continuous.events, [lambda: kept.put(ITEMS, 3), lambda: materialize(kept, SILVER)]

    def beside(self: Continuous) -> Iterator[Any]:
        for event in real(self):
            yield event
            while users and len(kept.bench.rows()) == 2:
                users.pop(0)()

    monkeypatch.setattr(Continuous, "events", beside)
    continuous_run(kept, *(lambda number=number: kept.put(ITEMS, number) for number in (1, 2, 4)))
    assert not users
    table = newest(kept, SILVER)[1]
    for spec in check_specs(kept.bench.lake.targets[0]):
        assert executions(kept, spec.name)[0].evaluation.target_materialization_data.storage_id == table


def test_a_run_of_silver_that_another_one_has_overtaken(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its evaluations are the newest, although it was planned first."""

    begin = Turns.begin

    def overtaken(*given: Any, **options: Any) -> None:
        passing = dg.AssetCheckEvaluation(SILVER, "quarantine", passed=True, metadata={})
        kept.instance.report_runless_asset_event(passing)
        begin(*given, **options)

    monkeypatch.setattr(Turns, "begin", overtaken)
    kept.change(ITEMS, ("I", {"id": "no number", "v": "bad"}), ("I", {"id": 1, "v": "good"}))
    materialize(kept, SILVER)
    shown = executions(kept, "quarantine")[0]
    assert shown.status.name == "FAILED"
    assert shown.evaluation.target_materialization_data.storage_id == newest(kept, SILVER)[1]
    assert len(executions(kept, "applied")) == 1


@pytest.mark.parametrize("last", ["fails", "raises"])
def test_a_blocking_check_is_held_by_what_was_evaluated_last(kept: Kept, last: str) -> None:
    """Not by what was planned last: one run executes a user's check while another one does."""
    lake, begun = kept.bench.lake, itertools.count()

    @dg.asset_check(asset=SILVER, blocking=True)
    def no_odd_item(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        if next(begun) > 0:
            return dg.AssetCheckResult(passed=True)
        kept.instance.add_run_tags(context.run.run_id, {HEARTBEAT: str(time.time())})
        assert execute().success
        assert failed_inputs(kept.instance, ITEMS_NOW, repository) == []
        assert last == "fails", "it cannot be evaluated"
        return dg.AssetCheckResult(passed=False)

    mine = dg.Definitions(asset_checks=[no_odd_item])
    repository = dg.Definitions.merge(build_definitions(lake), mine).get_repository_def()
    alone = dg.define_asset_job("alone", dg.AssetSelection.checks(no_odd_item))
    job = alone.resolve(asset_graph=repository.asset_graph)

    def execute() -> dg.ExecuteInProcessResult:
        return job.execute_in_process(instance=kept.instance, raise_on_error=False)

    assert not execute().success
    assert failed_inputs(kept.instance, ITEMS_NOW, repository) == ["silver/shop/items: no_odd_item"]
    assert execute().success
    assert failed_inputs(kept.instance, ITEMS_NOW, repository) == []


def test_silver_without_news_makes_no_mart_stale(kept: Kept) -> None:
    """In Dagster's UI, which compares versions. A run for other assets, too, materializes a table without news."""
    continuous_run(kept, lambda: kept.put(ITEMS, 1))
    before, number = newest(kept, SILVER)
    materialize(kept, SILVER, MART)
    after, later = newest(kept, SILVER)
    assert later > number
    assert (after.tags or {})["dagster/data_version"] == (before.tags or {})["dagster/data_version"]


def test_the_newest_event_of_a_table_is_that_of_its_rows(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if another run has applied more before the continuous run tells of its batch."""
    real, users = Continuous.events, [lambda: kept.put(ITEMS, 2, 3), lambda: materialize(kept, SILVER)]

    def beside(self: Continuous) -> Iterator[Any]:
        while users:
            users.pop(0)()
        yield from real(self)

    monkeypatch.setattr(Continuous, "events", beside)
    continuous_run(kept, lambda: kept.put(ITEMS, 1))
    figures = figures_of(newest(kept, SILVER)[0].metadata)
    assert figures["dagster/row_count"] == len(kept.bench.rows()) == 3
    assert figures["batches"] == 1


def test_what_a_killed_run_has_quarantined_is_reported(kept: Kept) -> None:
    """With all other checks of the table: an event of the table without them makes Dagster's graph show no outcome."""
    killed_run(kept, lambda: kept.change(ITEMS, ("I", {"id": "no number"}), ("I", {"id": 1, "v": "a"})))
    lake = kept.bench.lake
    states = table_states(lake.runtime, lake.targets, datetime.now(UTC))
    found = UnreportedPositions(lake.runtime).events(kept.instance, states, time.time(), {})
    passed = {event.check_name: event.passed for event in found if isinstance(event, dg.AssetCheckEvaluation)}
    assert passed == {spec.name: spec.name != "quarantine" for spec in check_specs(lake.targets[0])}
