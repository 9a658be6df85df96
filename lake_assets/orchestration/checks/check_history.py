"""The history of a check in Dagster's storage.

Here: reading evaluations. Not here: making them. No other module uses Dagster's storage of check executions, or their
record, which has no public name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import dagster as dg

from lake_assets.orchestration.dagster_private import check_statuses
from lake_assets.orchestration.shared.heartbeat import HEARTBEAT

DEPTH = 12
"""The number of executions read: the base back-off doubled eleven times exceeds any sensible maximum."""
OUTCOME = {"SUCCEEDED": True, "FAILED": False}
"""Whether the check passed, by the name of the execution's status."""

STATE = "state"
"""The metadata key of an evaluation's sentence, for checks on a schedule. The description is the same sentence."""
SNAPSHOTS = "snapshots"
"""The metadata key of the tables' snapshots before a command's evaluation."""
PROBLEMS = ("error", "problem")
"""Metadata keys under which a failed evaluation has its reason."""


@dataclass(frozen=True, slots=True)
class CheckExecution:
    """One planned execution of a check."""

    passed: bool | None
    """None: the run that should evaluate the check has ended, or is under way, without an evaluation."""
    at: float
    """The time of the evaluation, or else of the run's last sign of life, in seconds since the epoch."""
    snapshots: str | None = None
    """See SNAPSHOTS."""
    problem: str | None = None
    """Why the evaluation failed, from the metadata of `applied` or `row_count`."""
    is_warning: bool = False
    """Whether the evaluation has the severity WARN, with which no check blocks."""
    description: str | None = None
    """The evaluation in a sentence."""
    is_blocking: bool = False
    """Whether the check was to block when it was evaluated."""
    is_own: bool = False
    """Whether the evaluation is of a check that the lake defines, or once defined."""
    has_begun: bool = True
    """Whether the check's run did not end before it had begun."""


def check_executions(
    instance: dg.DagsterInstance, check: dg.AssetCheckKey, limit: int = DEPTH
) -> list[CheckExecution]:
    """The newest executions, newest first."""
    records = instance.event_log_storage.get_asset_check_execution_history(check, limit=limit)
    return [
        CheckExecution(
            OUTCOME.get(record.status.name),
            _evaluated_at(instance, record),
            has_begun=record.status.name in OUTCOME or not _ended_in_the_queue(instance, record),
        )
        for record in records
    ]


def earlier_values(
    instance: dg.DagsterInstance, check: dg.AssetCheckKey, name: str, limit: int
) -> list[float]:
    """The numbers under `name` in the metadata of the newest evaluations, the newest first."""
    records = _evaluated(instance, check, limit)
    given = [record.evaluation.metadata.get(name) for record in records if record.evaluation is not None]
    numbers = [entry.value for entry in given if isinstance(entry, dg.FloatMetadataValue)]
    return [number for number in numbers if number is not None]


def latest_evaluation(instance: dg.DagsterInstance, check: dg.AssetCheckKey) -> CheckExecution | None:
    """The newest execution in which the check was evaluated."""
    records = _evaluated(instance, check, 1)
    return _evaluation(instance, records[0]) if records else None


def latest_evaluations(
    instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey], *, broken_off: bool = False
) -> dict[dg.AssetCheckKey, CheckExecution]:
    """The `latest_evaluation` of each check, by one query for most of them. `broken_off`: an execution that began and
    ended without an evaluation counts, too. The newest is then the last that ended, not the last that was planned,
    because a user's checks are executed by runs side by side."""
    if broken_off:
        ended = {check: _last_ended(instance, check) for check in checks}
        return {check: last for check, last in ended.items() if last is not None}
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks)
    found = {
        # The newest execution of a check may be under way.
        check: _evaluation(instance, record)
        if record.status.name in OUTCOME
        else latest_evaluation(instance, check)
        for check, record in records.items()
    }
    return {check: newest for check, newest in found.items() if newest is not None}


def newest_runs(
    instance: dg.DagsterInstance, checks: Sequence[dg.AssetCheckKey]
) -> dict[dg.AssetCheckKey, str]:
    """By check, the run of the execution that Dagster shows, whether the check was evaluated in it or not. The text is
    empty for an execution outside of any run. Dagster keeps one execution of a check for each run, in the order they
    were planned in."""
    records = instance.event_log_storage.get_latest_asset_check_execution_by_key(checks) if checks else {}
    return {check: record.run_id for check, record in records.items()}


def _last_ended(instance: dg.DagsterInstance, check: dg.AssetCheckKey) -> CheckExecution | None:
    """The last execution that was evaluated or broke off. For one that broke off, what only an evaluation can say is
    taken from the last evaluation."""
    records = instance.event_log_storage.get_asset_check_execution_history(check, limit=DEPTH)
    evaluated = [_evaluation(instance, record) for record in records if record.status.name in OUTCOME]
    last = max(evaluated, key=lambda one: one.at) if evaluated else latest_evaluation(instance, check)
    others = [record for record in records if record.status.name not in OUTCOME]
    ends = [at for record in others if (at := _broke_off_at(instance, record)) is not None]
    if not ends or (last is not None and last.at > max(ends)):
        return last
    last = last or CheckExecution(None, 0)
    return replace(last, passed=None, at=max(ends), is_warning=last.is_warning and last.is_own)


def _broke_off_at(instance: dg.DagsterInstance, record: Any) -> float | None:
    """When an execution without an evaluation broke off: its step had begun and ended without success. None if it did
    not. An execution that had not begun says nothing: the run was canceled or died before, or an earlier step
    failed."""
    run = instance.get_run_by_id(record.run_id)
    if run is None or record.event is None or record.event.step_key is None:
        return None
    steps = instance.get_run_step_stats(run.run_id, [record.event.step_key])
    ended = {"FAILURE", "IN_PROGRESS"} if run.is_finished else {"FAILURE"}
    if not any(step.status is not None and step.status.name in ended for step in steps):
        return None
    return max(step.end_time or _evaluated_at(instance, record) for step in steps)


def _ended_in_the_queue(instance: dg.DagsterInstance, record: Any) -> bool:
    """Whether a user has canceled the run of an execution before it began."""
    run = instance.get_run_record_by_id(record.run_id) if record.run_id else None
    return (
        run is not None and run.dagster_run.status is dg.DagsterRunStatus.CANCELED and run.start_time is None
    )


def _evaluation(instance: dg.DagsterInstance, record: Any) -> CheckExecution:
    warns = record.evaluation is not None and record.evaluation.severity is dg.AssetCheckSeverity.WARN
    sentence = record.evaluation.description if record.evaluation is not None else None
    blocking = record.evaluation is not None and record.evaluation.blocking
    metadata = record.evaluation.metadata if record.evaluation is not None else {}
    state, snapshots = metadata.get(STATE), metadata.get(SNAPSHOTS)
    return CheckExecution(
        OUTCOME[record.status.name],
        _evaluated_at(instance, record),
        str(snapshots.value) if snapshots is not None else None,
        _problem(record),
        warns,
        sentence,
        blocking,
        is_own=state is not None and state.value == sentence,
    )


def _evaluated(instance: dg.DagsterInstance, check: dg.AssetCheckKey, limit: int) -> Sequence[Any]:
    """The newest executions in which the check was evaluated."""
    history = instance.event_log_storage.get_asset_check_execution_history
    statuses = check_statuses(*OUTCOME)
    if statuses is not None:
        return history(check, limit=limit, status=statuses)
    return [one for one in history(check, limit=limit + DEPTH) if one.status.name in OUTCOME][:limit]


def _problem(record: Any) -> str | None:
    given = record.evaluation.metadata if record.evaluation is not None else {}
    reasons = [str(given[name].value) for name in PROBLEMS if name in given]
    return reasons[0] if reasons else None


def _evaluated_at(instance: dg.DagsterInstance, record: Any) -> float:
    # Not the record's own time: Dagster creates the record with the run, perhaps long before the evaluation.
    if record.status.name in OUTCOME and record.event is not None:
        return float(record.event.timestamp)
    run = instance.get_run_record_by_id(record.run_id) if record.run_id else None
    if run is None:
        return float(record.create_timestamp)
    # Nor the end of a run that died: that is when its death was detected, and its tables have waited long enough by
    # then.
    beat = run.dagster_run.tags.get(HEARTBEAT)
    return float(beat or run.end_time or record.create_timestamp)
