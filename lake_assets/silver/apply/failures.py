"""Why a table's newest turn failed: recorded, because a fault of a file shows only when the file is read.

Here: recording the failure, and reading it back. Not here: waiting before the next attempt
(`orchestration/runs/retry_wait.py`).
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lake_assets.config.secrets import hidden_in
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.batch.result import TableResult
from lake_assets.silver.plan.plan import State
from lake_assets.silver.plan.table_state import TableState
from lake_assets.spark.causes import root_cause

KIND = "failure"
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a table's newest turn."""

    reason: str
    since: datetime
    """UTC."""
    position: int
    """The table's log offset after the turn."""


def note_turn(runtime: LakeRuntime, result: TableResult) -> None:
    """Records why the turn failed, or that it did not. Never raises: what the turn has applied stays applied."""
    if result.error is None and not result.batches:
        return
    failure: dict[str, str | int] = {}
    if result.error is not None:
        reason = hidden_in(runtime.lake, root_cause(result.error))
        failure = {"reason": reason, "position": result.position.log_offset}
    try:
        runtime.findings.note(KIND, result.target.identifier, failure)
    except Exception:  # the catalog is down, or the disk is full: the turn has reported that
        logger.debug("the outcome of %s could not be recorded", result.target.identifier, exc_info=True)


def failures(runtime: LakeRuntime) -> dict[str, Failure]:
    """The recorded failures, by silver table."""
    return {
        table: Failure(found.content["reason"], found.at, found.content["position"])
        for table, found in runtime.findings.of(KIND).items()
    }


def failure_of(state: TableState, known: Mapping[str, Failure]) -> Failure | None:
    """Why the table's next batch failed, if it was tried: a failure at another position is obsolete."""
    found = known.get(state.target.identifier)
    if found is None or state.state is not State.PENDING:
        return None
    return found if found.position == state.position.log_offset else None
