"""How long a failing asset waits, by the history that Dagster keeps."""

import time

import dagster as dg
import pytest
from dagster import DagsterRunStatus
from dagster._core.events import StepMaterializationData

from lake_assets.orchestration.checks.check_history import check_executions, latest_evaluation
from lake_assets.orchestration.runs.retry_wait import check_retry_wait, runs_retry_wait
from lake_assets.orchestration.shared.heartbeat import HEARTBEAT
from lake_assets.orchestration.shared.run_tags import mart_tag
from lake_assets_tests.helpers.orchestration.dagster_shop import SALES, add_run, plan_check

CHECK = dg.AssetCheckKey(SALES, "applied")
TAGS = {mart_tag("sales_total"): "1"}
TOTAL = dg.AssetKey(["gold", "sales_total"])


# --- by a check


def evaluated(instance: dg.DagsterInstance, *outcomes: bool) -> None:
    for passed in outcomes:
        event = dg.AssetCheckEvaluation(asset_key=SALES, check_name="applied", passed=passed, metadata={})
        instance.report_runless_asset_event(event)


def planned(
    instance: dg.DagsterInstance, status: DagsterRunStatus, tags: dict[str, str] | None = None
) -> dg.DagsterRun:
    """A run that was to evaluate the check and has not done so."""
    run = add_run(instance, [SALES], DagsterRunStatus.STARTED, tags)
    plan_check(instance, run)
    if status is DagsterRunStatus.FAILURE:
        instance.report_run_failed(run)
    return run


def waits(instance: dg.DagsterInstance) -> float:
    return check_retry_wait(instance, CHECK)


def test_without_history_there_is_no_wait(instance: dg.DagsterInstance) -> None:
    assert waits(instance) == 0
    assert runs_retry_wait(instance, TAGS, TOTAL) == 0


def test_failures_in_a_row_count_and_a_success_resets(instance: dg.DagsterInstance) -> None:
    evaluated(instance, False)
    assert waits(instance) == pytest.approx(15, abs=2)
    evaluated(instance, False, False)
    assert waits(instance) == pytest.approx(60, abs=2)
    assert check_retry_wait(instance, CHECK, now=time.time() + 61) == 0
    evaluated(instance, True)
    assert waits(instance) == 0
    evaluated(instance, False)
    assert waits(instance) == pytest.approx(15, abs=2)


def test_the_wait_has_an_end(instance: dg.DagsterInstance) -> None:
    evaluated(instance, *[False] * 20)
    assert waits(instance) == pytest.approx(900, abs=2)


def test_a_run_that_failed_before_the_check_counts_from_its_end(instance: dg.DagsterInstance) -> None:
    run = planned(instance, DagsterRunStatus.FAILURE)
    record = instance.get_run_record_by_id(run.run_id)
    assert record is not None
    assert record.end_time is not None
    (turn,) = check_executions(instance, CHECK)
    assert turn.passed is None
    assert turn.at == record.end_time
    assert check_retry_wait(instance, CHECK, now=record.end_time + 5) == pytest.approx(10)


def test_a_run_that_died_counts_from_its_last_heartbeat(instance: dg.DagsterInstance) -> None:
    # Its tables have waited for the timeout of the heartbeat already.
    planned(instance, DagsterRunStatus.FAILURE, {HEARTBEAT: str(time.time() - 60)})
    assert waits(instance) == 0
    for _ in range(3):
        planned(instance, DagsterRunStatus.FAILURE, {HEARTBEAT: str(time.time() - 60)})
    assert waits(instance) == pytest.approx(60, abs=2)


def test_runs_that_a_user_cancels_in_the_queue_are_no_failures(instance: dg.DagsterInstance) -> None:
    """Else the table would wait for a quarter of an hour although nothing has failed."""
    for _ in range(3):
        instance.report_run_canceled(planned(instance, DagsterRunStatus.QUEUED))
    assert waits(instance) == 0
    run = planned(instance, DagsterRunStatus.STARTING)
    instance.report_dagster_event(dg.DagsterEvent("PIPELINE_START", run.job_name), run.run_id)
    instance.report_run_canceled(run)
    assert waits(instance) == pytest.approx(15, abs=2)


def test_an_evaluation_counts_from_when_it_was_made(instance: dg.DagsterInstance) -> None:
    run = planned(instance, DagsterRunStatus.STARTED)
    (before,) = check_executions(instance, CHECK)
    time.sleep(1.1)
    event = dg.DagsterEvent(
        event_type_value=dg.DagsterEventType.ASSET_CHECK_EVALUATION.value,
        job_name=run.job_name,
        event_specific_data=dg.AssetCheckEvaluation(SALES, "applied", passed=False, metadata={}),
    )
    instance.report_dagster_event(event, run.run_id)
    (after,) = check_executions(instance, CHECK)
    assert after.passed is False
    assert after.at > before.at + 1


def test_the_latest_evaluation_is_not_hidden_by_runs_that_evaluated_nothing(
    instance: dg.DagsterInstance,
) -> None:
    assert latest_evaluation(instance, CHECK) is None
    evaluated(instance, False)
    for _ in range(15):
        planned(instance, DagsterRunStatus.FAILURE)
    turn = latest_evaluation(instance, CHECK)
    assert turn is not None
    assert turn.passed is False


# --- by runs


def ended(instance: dg.DagsterInstance, *, failed: bool, materializes: bool = False) -> None:
    run = add_run(instance, [TOTAL], DagsterRunStatus.STARTED, TAGS)
    if materializes:
        event = dg.DagsterEvent(
            event_type_value=dg.DagsterEventType.ASSET_MATERIALIZATION.value,
            job_name=run.job_name,
            event_specific_data=StepMaterializationData(dg.AssetMaterialization(TOTAL)),
        )
        instance.report_dagster_event(event, run.run_id)
    if failed:
        instance.report_run_failed(run)
    else:
        event = dg.DagsterEvent(dg.DagsterEventType.RUN_SUCCESS.value, run.job_name)
        instance.report_dagster_event(event, run.run_id)


def run_waits(instance: dg.DagsterInstance) -> float:
    return runs_retry_wait(instance, TAGS, TOTAL)


def test_runs_that_failed_in_a_row(instance: dg.DagsterInstance) -> None:
    ended(instance, failed=True)
    assert run_waits(instance) == pytest.approx(15, abs=3)
    ended(instance, failed=True)
    assert run_waits(instance) == pytest.approx(30, abs=3)
    ended(instance, failed=False)
    assert run_waits(instance) == 0


def test_a_run_that_failed_for_another_asset_does_not_count(instance: dg.DagsterInstance) -> None:
    ended(instance, failed=True)
    ended(instance, failed=True, materializes=True)
    assert run_waits(instance) == 0
    ended(instance, failed=True)
    assert run_waits(instance) == pytest.approx(15, abs=3)
