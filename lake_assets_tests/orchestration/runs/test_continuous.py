"""The run that stays up: its rounds, what Dagster is told of them, and its end.

Here: rounds in this process, and the job in Dagster's own executor. Not here: applying (`silver/`), maintenance
(`test_between_rounds.py`), real daemons.
"""

import itertools
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterExecutionInterruptedError
from pyspark.sql import SparkSession

from lake_assets.config import ContinuousConfig
from lake_assets.orchestration.io_managers.iceberg_io_manager import IO_MANAGER_KEY, TableIOManager
from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets.orchestration.runs import in_flight
from lake_assets.orchestration.runs.continuous_job import alive_runs, continuous_job, continuous_sensor
from lake_assets.orchestration.runs.continuous_run import Continuous
from lake_assets.orchestration.sensors.file_sensor import ready_targets
from lake_assets.orchestration.shared.heartbeat import HEARTBEAT
from lake_assets.rounds import backoff
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply import engine
from lake_assets.silver.apply.turn import Turn
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.plan import plan
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.orchestration.dagster_shop import ORIGIN, open_instance
from lake_assets_tests.helpers.orchestration.kept_lake import ITEMS, NOTES, TABLE, Kept
from lake_assets_tests.helpers.processes.child import output_of, run_python

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def resources(runtime: LakeRuntime) -> dict[str, Any]:
    """What the job needs, and takes from Dagster's definitions in a deployment."""
    return {IO_MANAGER_KEY: TableIOManager(runtime)}


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that hands over after a second, and reports after each round."""
    monkeypatch.setattr("lake_assets.orchestration.runs.continuous_job.HAND_OVER_SECONDS", 1.0)
    monkeypatch.setattr("lake_assets.orchestration.runs.continuous_job.REPORT_SECONDS", 0.0)


@pytest.fixture
def kept(spark: SparkSession, tmp_path: Path) -> Kept:
    return Kept(tmp_path)


def test_a_check_that_still_passes_is_not_reported_each_time(kept: Kept) -> None:
    def reported() -> tuple[set[str], int]:
        events = list(kept.rounds.events())
        checks = {event.check_name for event in events if isinstance(event, dg.AssetCheckEvaluation)}
        return checks, sum(isinstance(event, dg.AssetMaterialization) for event in events)

    kept.put(ITEMS, 1)
    kept.rounds.round()
    assert {"applied", "row_count", "freshness"} <= reported()[0]
    kept.put(ITEMS, 2)
    kept.rounds.round()
    checks, tables = reported()
    assert checks == set()
    assert tables >= 2, "silver and bronze"
    # Unless another run has: beside a newer materialization, Dagster's graph shows its outcome no more.
    silver = dg.AssetKey(["silver", "shop", "items"])
    kept.instance.report_runless_asset_event(
        dg.AssetCheckEvaluation(silver, "applied", passed=True, metadata={})
    )
    kept.put(ITEMS, 3)
    kept.rounds.round()
    assert reported()[0] == {"applied"}
    # Until something is wrong, and then until it is not.
    for _ in range(2):
        event = dg.AssetCheckEvaluation(dg.AssetKey("a"), "c0", passed=False, metadata={})
        assert kept.rounds._is_news(event)
    passing = dg.AssetCheckEvaluation(dg.AssetKey("a"), "c0", passed=True, metadata={})
    assert kept.rounds._is_news(passing)
    assert not kept.rounds._is_news(passing)


def test_rounds_are_told_as_one(kept: Kept) -> None:
    for number in range(3):
        kept.put(ITEMS, 10 * number, 10 * number + 1)
        done = kept.rounds.round()
        assert (done.files, done.batches, done.marts, done.failed) == (1, 1, 1, [])
        assert kept.items() == 2 * (number + 1)
    kept.put(NOTES, 1)
    assert kept.rounds.round().batches == 1
    told = kept.told()
    assert (told["silver/shop/items"]["batches"], told["silver/shop/items"]["rows_read"]) == (3, 6)
    assert told["silver/shop/notes"]["rows_read"] == 1
    assert told["gold/items_now"]["refreshed"] >= 3
    assert {"bronze/shop/items", "bronze/shop/notes"} <= set(told)
    done = kept.rounds.round()
    assert (done.files, done.batches, done.marts) == (0, 0, 0)
    assert not [key for key in kept.told() if key.startswith(("silver", "gold"))]
    assert kept.branches() == {"silver_shop.items": 1, "gold.items_now": 1}, "gone on with"
    kept.rounds.close()
    assert kept.branches() == {"silver_shop.items": 0, "gold.items_now": 0}


def test_a_table_that_fails_is_tried_again_later_and_stops_nobody(kept: Kept) -> None:
    kept.put(ITEMS, 1)
    kept.bench.put_text(
        "public/notes/20260301-120000000.csv", "Op,commit_ts,change_seq", "I,2026-03-01 12:00:00,"
    )
    done = kept.rounds.round()
    assert (done.batches, done.marts, len(done.failed)) == (1, 1, 1)
    checks = {
        (event.asset_key.path[-1], event.check_name): event.passed
        for event in kept.rounds.events()
        if isinstance(event, dg.AssetCheckEvaluation)
    }
    assert checks["notes", "applied"] is False
    assert checks["items", "applied"] is True
    kept.put(ITEMS, 2)
    done = kept.rounds.round()
    assert (done.batches, done.failed) == (1, [])
    kept.now += 3600
    assert len(kept.rounds.round().failed) == 1


def test_a_blocking_check_that_failed_holds_a_mart(kept: Kept) -> None:
    """A user's check, one of a batch, and one of the files that the table is made of."""
    lake = kept.bench.lake
    silver, bronze = (dg.AssetKey([layer, "shop", "items"]) for layer in ("silver", "bronze"))

    @dg.asset_check(asset=silver, blocking=True)
    def no_odd_item() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    @dg.asset_check(asset=bronze, blocking=True)
    def no_odd_file() -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=True)

    mine = dg.Definitions(asset_checks=[no_odd_item, no_odd_file])
    repository = dg.Definitions.merge(build_definitions(lake), mine).get_repository_def()
    kept.rounds = Continuous(
        lake.runtime, "shop", lake.targets, lake.marts, kept.instance, repository=repository
    )
    checks = ((silver, "no_odd_item"), (silver, "row_count"), (bronze, "no_odd_file"))
    for number, ((key, check), passed) in enumerate(itertools.product(checks, (False, True))):
        kept.put(ITEMS, number)
        evaluation = dg.AssetCheckEvaluation(
            asset_key=key, check_name=check, passed=passed, blocking=True, metadata={}
        )
        kept.instance.report_runless_asset_event(evaluation)
        done = kept.rounds.round()
        assert (done.batches, done.marts, done.failed) == (1, int(passed), []), check
    assert kept.items() == 6


def test_a_blocking_check_that_raises_holds_a_mart(kept: Kept) -> None:
    lake, key = kept.bench.lake, dg.AssetKey(["silver", "shop", "items"])

    @dg.asset_check(asset=key, blocking=True)
    def no_odd_item() -> dg.AssetCheckResult:
        assert kept.bench.rows() != [], "there are none"
        return dg.AssetCheckResult(passed=True)

    merged = dg.Definitions.merge(build_definitions(lake), dg.Definitions(asset_checks=[no_odd_item]))
    alone = dg.define_asset_job("alone", dg.AssetSelection.checks(no_odd_item))
    job = alone.resolve(asset_graph=merged.get_repository_def().asset_graph)
    kept.rounds = Continuous(
        lake.runtime,
        "shop",
        lake.targets,
        lake.marts,
        kept.instance,
        repository=merged.get_repository_def(),
    )
    for number in (0, 1):
        done = job.execute_in_process(instance=kept.instance, raise_on_error=False)
        assert done.success == bool(number)
        kept.put(ITEMS, number)
        assert kept.rounds.round().marts == number


@pytest.fixture
def slow_notes(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Turns of `notes` wait for the event; three pending rows are much to do."""
    go_on, apply_table = threading.Event(), engine.apply_table

    def apply(runtime: LakeRuntime, target: Target, *given: Any) -> TableResult:
        if target.name == "notes":
            assert go_on.wait(60)
        return apply_table(runtime, target, *given)

    monkeypatch.setattr(engine, "apply_table", apply)
    monkeypatch.setattr(plan, "LARGE_ROWS", 3)
    return go_on


def test_a_turn_with_much_to_do_delays_no_round(kept: Kept, slow_notes: threading.Event) -> None:
    kept.put(NOTES, 1, 2, 3)
    for number in range(2):
        kept.put(ITEMS, number)
        kept.put(NOTES, 10 + number)
        done = kept.rounds.round()
        assert (done.batches, done.marts, done.failed) == (1, 1, [])
        assert "silver/shop/notes" not in kept.told()
    slow_notes.set()
    read = 0
    while read < 5:
        assert kept.rounds.round().failed == []
        read += kept.told().get("silver/shop/notes", {}).get("rows_read", 0)
    assert kept.bench.rows() == kept.bench.truth(ITEMS)
    assert kept.bench.rows("notes") == kept.bench.truth(NOTES)


def test_a_run_that_hands_over_waits_for_turns_under_way(kept: Kept, slow_notes: threading.Event) -> None:
    kept.put(NOTES, 1, 2, 3)
    assert kept.rounds.round().batches == 0
    threading.Timer(0.5, slow_notes.set).start()
    kept.rounds.finish()
    assert kept.told()["silver/shop/notes"]["rows_read"] == 3
    kept.rounds.close()


@pytest.mark.usefixtures("brief")
def test_the_job_hands_over_and_tells_what_it_did(kept: Kept, tmp_path: Path) -> None:
    lake = kept.bench.lake
    job = continuous_job(lake.runtime, "shop", lake.targets, lake.marts, ContinuousConfig())
    kept.put(ITEMS, 1, 2, 3)
    # A run of an instance in memory has no heartbeat.
    with open_instance(tmp_path / "dagster") as instance:
        run = job.execute_in_process(instance=instance, resources=resources(lake.runtime))
        assert run.success
        record = instance.get_run_record_by_id(run.run_id)
        assert record is not None
        assert HEARTBEAT in record.dagster_run.tags
        event = instance.get_latest_materialization_event(dg.AssetKey(["silver", "shop", "items"]))
    assert event is not None
    assert event.run_id == run.run_id
    assert kept.items() == 3


def test_a_terminated_run_tells_what_it_has_applied(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, real = kept.bench.lake, Continuous.round

    def interrupted(self: Continuous, wait_seconds: float = 0.0) -> Any:
        real(self, 0.0)
        raise DagsterExecutionInterruptedError

    monkeypatch.setattr(Continuous, "round", interrupted)
    job = continuous_job(lake.runtime, "shop", lake.targets, lake.marts, ContinuousConfig())
    kept.put(ITEMS, 1)
    with pytest.raises(DagsterExecutionInterruptedError):
        job.execute_in_process(instance=kept.instance, resources=resources(lake.runtime))
    assert (
        kept.instance.get_latest_materialization_event(dg.AssetKey(["silver", "shop", "items"])) is not None
    )


def test_one_run_is_kept_alive_and_the_sensors_stand_by(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, instance = kept.bench.lake, kept.instance
    job = continuous_job(lake.runtime, "shop", lake.targets, lake.marts, ContinuousConfig())
    sensor = continuous_sensor(lake.runtime, "shop", job)
    context = dg.build_sensor_context(instance=instance)
    assert isinstance(sensor(context), dg.RunRequest)
    run = instance.create_run_for_job(job, status=dg.DagsterRunStatus.STARTED)
    kept.put(ITEMS, 1)
    kept.bench.look()
    assert alive_runs(instance, lake.runtime, ["shop"]) == [run.run_id]
    assert isinstance(sensor(context), dg.SkipReason)
    ready, reasons = ready_targets(instance, lake.runtime, lake.targets)
    assert ready == []
    assert "keeps its tables current" in reasons[0]
    instance.add_run_tags(run.run_id, {HEARTBEAT: "1.0"})
    monkeypatch.setattr(in_flight, "SILENT_SECONDS", -1.0)
    refusal = sensor(context)
    assert isinstance(refusal, dg.SkipReason), "it is declared failed"
    assert "died young" in str(refusal.skip_message)
    monkeypatch.setattr(backoff, "FIRST_WAIT", timedelta(0))
    assert isinstance(sensor(context), dg.RunRequest), "it is started anew"
    assert [target.name for target in ready_targets(instance, lake.runtime, lake.targets)[0]] == ["items"]


def test_jobs_and_sensors_are_there_only_if_wanted(kept: Kept, tmp_path: Path) -> None:
    definitions = build_definitions(kept.bench.lake)
    assert definitions.resolve_job_def("shop_continuous").name == "shop_continuous"
    without = Bench(tmp_path / "other", {ITEMS: TABLE}).lake
    assert "shop_stays_current" not in [sensor.name for sensor in build_definitions(without).sensors or ()]


def test_a_queued_run_keeps_nothing_current(kept: Kept) -> None:
    """All slots may be taken for hours; the sensors go on meanwhile."""
    lake, instance = kept.bench.lake, kept.instance
    job = continuous_job(lake.runtime, "shop", lake.targets, lake.marts, ContinuousConfig())
    instance.create_run_for_job(job, status=dg.DagsterRunStatus.QUEUED, remote_job_origin=ORIGIN)
    refusal = continuous_sensor(lake.runtime, "shop", job)(dg.build_sensor_context(instance=instance))
    assert isinstance(refusal, dg.SkipReason)
    assert "max_concurrent_runs" in str(refusal.skip_message)
    kept.put(ITEMS, 1)
    kept.bench.look()
    assert [target.name for target in ready_targets(instance, lake.runtime, lake.targets)[0]] == ["items"]


def test_what_fails_after_the_commit_keeps_no_mart_waiting(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.put(ITEMS, 1)
    with monkeypatch.context() as patched:
        patched.setattr(Turn, "ends_at", lambda *given: 1 / 0)
        assert kept.rounds.round().failed == ["silver_shop.items: division by zero (ZeroDivisionError)"]
    assert kept.bench.rows() != []
    assert kept.rounds.round().failed == []
    assert kept.items() == 1
    checks = [event for event in kept.rounds.events() if isinstance(event, dg.AssetCheckEvaluation)]
    assert [event.passed for event in checks if event.check_name == "applied"] == [True]


def test_a_process_without_its_spark_ends(tmp_path: Path) -> None:
    """It cannot start another; a fresh run can."""
    done = run_python("-m", "lake_assets_tests.helpers.processes.dying.dying_spark", tmp_path, timeout=300)
    assert "SparkLost" in output_of(done)
