"""What Dagster remembers of a check.

Here: reading evaluations back. Not here: making them. The only module that knows Dagster's record of a check run,
which has no public name.
"""

from dataclasses import dataclass

import dagster as dg
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
)

from lake_assets.orchestration.shared.heartbeat import HEARTBEAT

DEPTH = 12
"""As many turns as anyone asks for: twice the base back-off eleven times is beyond any maximum that makes sense."""
OUTCOME = {
    AssetCheckExecutionRecordStatus.SUCCEEDED: True,
    AssetCheckExecutionRecordStatus.FAILED: False,
}

PROBLEMS = ("error", "problem")
"""Metadata in which an evaluation that failed says why."""


@dataclass(frozen=True, slots=True)
class CheckTurn:
    """One turn of a check."""

    passed: bool | None
    """None: a run was to evaluate the check and ended, or is under way, without having done so."""
    at: float
    """Seconds since the epoch: of the evaluation, or else of the run's last sign of life."""
    problem: str | None = None
    """Of an evaluation that failed, why, as `applied` and `row_count` say it."""


def check_turns(instance: dg.DagsterInstance, check: dg.AssetCheckKey, limit: int = DEPTH) -> list[CheckTurn]:
    """The newest turns, newest first."""
    records = instance.event_log_storage.get_asset_check_execution_history(check, limit=limit)
    return [CheckTurn(OUTCOME.get(record.status), _moment(instance, record)) for record in records]


def latest_evaluation(instance: dg.DagsterInstance, check: dg.AssetCheckKey) -> CheckTurn | None:
    """The newest turn in which the check was evaluated."""
    records = instance.event_log_storage.get_asset_check_execution_history(
        check, limit=1, status=set(OUTCOME)
    )
    if not records:
        return None
    (newest,) = records
    return CheckTurn(OUTCOME[newest.status], _moment(instance, newest), _problem(newest))


def _problem(record: AssetCheckExecutionRecord) -> str | None:
    given = record.evaluation.metadata if record.evaluation is not None else {}
    said = [str(given[name].value) for name in PROBLEMS if name in given]
    return said[0] if said else None


def _moment(instance: dg.DagsterInstance, record: AssetCheckExecutionRecord) -> float:
    # Not the record's own time: the record is made when the run is, perhaps long before the check's turn.
    if record.status in OUTCOME and record.event is not None:
        return record.event.timestamp
    run = instance.get_run_record_by_id(record.run_id) if record.run_id else None
    if run is None:
        return record.create_timestamp
    # Nor the end of a run that died, which is when that was noticed: its tables have waited long enough by then.
    beat = run.dagster_run.tags.get(HEARTBEAT)
    return float(beat) if beat else run.end_time or record.create_timestamp
