"""What silver has become without Dagster's having been told.

Here: each table's position against its newest materialization, and failures that are over. Not here: bronze
(`orchestration/assets/bronze_reports.py`), which is told in full; of silver only the state matters.

A run that is killed between a commit and its event, a table that another Dagster instance applied, a Dagster storage
that was deleted, a run that failed after it had published: the lake is right, and the UI would show a table that
failed, or was never there, until its next file. Marts would wait for it.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import dagster as dg
from dagster._core.storage.event_log.base import AssetEntry

from lake_assets.orchestration.assets.silver_report import POSITION, state_metadata
from lake_assets.orchestration.checks.check_history import latest_evaluation
from lake_assets.orchestration.checks.freshness_check import freshness
from lake_assets.orchestration.checks.silver_checks import (
    APPLIED,
    freshness_evaluation,
    published_row_count,
    state_evaluation,
)
from lake_assets.orchestration.runs.in_flight import assets_in_flight
from lake_assets.silver.plan.planner import State
from lake_assets.silver.plan.table_state import TableState

Event = dg.AssetMaterialization | dg.AssetCheckEvaluation


class Missed:
    """What Dagster has missed, look after look of one process."""

    def __init__(self) -> None:
        self._awaited: dict[dg.AssetKey, tuple[int, float]] = {}
        """By table of a source that a run keeps current, the position that Dagster has not heard of, and since when:
        the run tells of it in its own time."""

    def events(
        self,
        instance: dg.DagsterInstance,
        states: Sequence[TableState],
        heartbeat_timeout: float,
        looked_at: float,
        kept: Mapping[str, float],
    ) -> list[Event]:
        """A materialization and the checks of each table whose position Dagster has not heard of, and the check of
        each that has failed and has nothing left to do. `looked_at`: seconds since the epoch, before the states were
        read; `kept`: by source that a run keeps current, the seconds that the run is left to tell of a position."""
        keys = {dg.AssetKey(state.target.asset_key): state for state in states if state.position.log_offset}
        if not keys:
            return []
        # Its own run is about to tell.
        in_flight = assets_in_flight(instance, keys, heartbeat_timeout)
        told = {
            record.asset_entry.asset_key: record.asset_entry for record in instance.get_asset_records([*keys])
        }
        awaited, self._awaited = self._awaited, {}
        events: list[Event] = []
        for key, state in keys.items():
            if key in in_flight:
                continue
            offset = state.position.log_offset
            if _position(told.get(key)) >= offset:
                events += _recovered(instance, key, state, looked_at)
                continue
            known, since = awaited.get(key, (offset, looked_at))
            self._awaited[key] = offset, since if known == offset else looked_at
            if looked_at - self._awaited[key][1] >= kept.get(state.target.source, 0.0):
                events += _found(instance, key, state)
        return events


def _found(instance: dg.DagsterInstance, key: dg.AssetKey, state: TableState) -> list[Event]:
    fresh = freshness(state.target, state.position, state.logged, datetime.now(UTC))
    return [
        dg.AssetMaterialization(
            key,
            description="Found in the lake: no run has reported it here.",
            metadata=state_metadata(state.position),
        ),
        state_evaluation(state, latest_evaluation(instance, dg.AssetCheckKey(key, APPLIED))),
        published_row_count(state.target),
        freshness_evaluation(fresh),
    ]


def _recovered(
    instance: dg.DagsterInstance, key: dg.AssetKey, state: TableState, looked_at: float
) -> list[Event]:
    if state.state not in (State.UP_TO_DATE, State.NO_FILES):
        return []
    last = latest_evaluation(instance, dg.AssetCheckKey(key, APPLIED))
    # A failure of meanwhile is about a file that the state does not know.
    over = last is not None and not last.passed and last.at < looked_at
    return [state_evaluation(state, last)] if over else []


def _position(entry: AssetEntry | None) -> int:
    """Of the newest materialization; 0 if it does not say, as one that was reported by hand."""
    event = entry.last_materialization if entry is not None else None
    materialization = event.asset_materialization if event is not None else None
    value = materialization.metadata.get(POSITION) if materialization is not None else None
    return value.value if isinstance(value, dg.IntMetadataValue) and value.value is not None else 0
