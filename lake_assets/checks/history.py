"""What Dagster remembers of a check.

Here: reading evaluations back. Not here: making them. The only module that knows Dagster's record of a check run,
which has no public name.
"""

from dataclasses import dataclass

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

DEPTH = 12
"""As many turns as anyone asks for: twice the base back-off eleven times is beyond any maximum that makes sense."""


@dataclass(frozen=True, slots=True)
class CheckTurn:
    """One turn of a check."""

    passed: bool | None
    """None: a run was to evaluate the check and ended, or is under way, without having done so."""
    at: float
    """Seconds since the epoch."""


def check_turns(instance: dg.DagsterInstance, check: dg.AssetCheckKey, limit: int = DEPTH) -> list[CheckTurn]:
    """The newest turns, newest first."""
    outcome = {
        AssetCheckExecutionRecordStatus.SUCCEEDED: True,
        AssetCheckExecutionRecordStatus.FAILED: False,
    }
    records = instance.event_log_storage.get_asset_check_execution_history(check, limit=limit)
    return [CheckTurn(outcome.get(record.status), record.create_timestamp) for record in records]


def latest_evaluation(instance: dg.DagsterInstance, check: dg.AssetCheckKey) -> CheckTurn | None:
    """The newest turn in which the check was evaluated."""
    return next((turn for turn in check_turns(instance, check) if turn.passed is not None), None)
