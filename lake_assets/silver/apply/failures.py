"""Why a table's newest turn failed, as the lake knows it: what is wrong with a file shows only as it is read.

Here: recording that, and reading it back. Not here: failing, waiting before the next attempt
(`orchestration.runs.retry_wait.py`).
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from lake_assets.config.secrets import hidden_in
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.plan.planner import State
from lake_assets.silver.plan.table_state import TableState
from lake_assets.silver.write.batch import TableResult
from lake_assets.spark.causes import root_cause

KIND = "failure"
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Failure:
    """Of a table's newest turn."""

    reason: str
    since: datetime
    """UTC."""
    position: int
    """Of the table, after the turn."""


def note_turn(runtime: LakeRuntime, result: TableResult) -> None:
    """Records why the turn failed, or that it did not. Never raises: the turn is over, and what it did stands."""
    if result.error is None and not result.batches:
        return
    said: dict[str, str | int] = {}
    if result.error is not None:
        reason = hidden_in(runtime.lake, root_cause(result.error))
        said = {"reason": reason, "position": result.position.log_offset}
    try:
        runtime.findings.note(KIND, result.target.identifier, said)
    except Exception:  # the catalog is down, or the disk is full: the turn has said so itself
        logger.debug("the outcome of %s could not be recorded", result.target.identifier, exc_info=True)


def failures(runtime: LakeRuntime) -> dict[str, Failure]:
    """By silver table."""
    return {
        table: Failure(found.said["reason"], found.at, found.said["position"])
        for table, found in runtime.findings.of(KIND).items()
    }


def failure_of(state: TableState, known: Mapping[str, Failure]) -> Failure | None:
    """Why the table is not further, if its next batch has been tried: a failure at another position is history."""
    found = known.get(state.target.identifier)
    if found is None or state.state is not State.PENDING:
        return None
    return found if found.position == state.position.log_offset else None
