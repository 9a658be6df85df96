"""Silver commits that Dagster has no event of.

Here: comparing each table's position with its newest materialization, and clearing failures that are over. Not here:
bronze (`orchestration/assets/bronze_reports.py`). Every bronze file is reported; of a silver table, only its state.

Events are missing when a run is killed between a commit and its event or fails after it has published, when another
Dagster instance applies a table, or when Dagster's storage is deleted. The lake is right, but until the next file the
UI would show a table as failed or missing, and marts would wait for it.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import dagster as dg

from lake_assets.bronze.quarantine.quarantine_log import Quarantined
from lake_assets.checks.live_rows import counted_rows
from lake_assets.iceberg.table_io import load_table
from lake_assets.orchestration.assets.silver_report import POSITION, SHOWN, state_metadata
from lake_assets.orchestration.assets.versions import silver_versions
from lake_assets.orchestration.checks.check_history import (
    CheckExecution,
    latest_evaluation,
    latest_evaluations,
)
from lake_assets.orchestration.checks.freshness_check import freshness
from lake_assets.orchestration.checks.silver_checks import (
    APPLIED,
    QUARANTINE,
    ROW_COUNT,
    freshness_evaluation,
    known_rows_evaluation,
    live_row_count_evaluation,
    published_row_count,
    quarantine_evaluation,
    state_evaluation,
)
from lake_assets.orchestration.runs.in_flight import assets_in_flight
from lake_assets.orchestration.shared.asset_metadata import grouped
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.plan.plan import State
from lake_assets.silver.plan.table_state import TableState

Event = dg.AssetMaterialization | dg.AssetCheckEvaluation
FOUND = "Found in the lake: no run of this instance has reported it."
"""The description of an event that stands for a missing one."""


class UnreportedPositions:
    """The positions that Dagster has no event of; one process calls `events` repeatedly."""

    def __init__(self, runtime: LakeRuntime) -> None:
        self._runtime = runtime
        self._awaited: dict[dg.AssetKey, tuple[int, float]] = {}
        """By table, the position that is not reported, and since when. The continuous run of its source reports it with
        a delay."""

    def events(
        self,
        instance: dg.DagsterInstance,
        states: Sequence[TableState],
        read_at: float,
        grace: Mapping[str, float],
    ) -> list[Event]:
        """A materialization and the checks of each table whose position is not reported, and the checks that had failed
        and would pass now, of tables without pending files. `read_at`: a time before the states were read, in seconds
        since the epoch; `grace`: by source with a continuous run, the seconds that the run has to report a position."""
        keys = {dg.AssetKey(state.target.asset_key): state for state in states if state.position.log_offset}
        if not keys:
            return []
        # The table's own run is about to report.
        in_flight = assets_in_flight(instance, keys)
        reported = reported_positions(instance, [*keys])
        newest = latest_evaluations(
            instance,
            [dg.AssetCheckKey(key, name) for key in keys for name in (APPLIED, ROW_COUNT, QUARANTINE)],
        )
        awaited, self._awaited = self._awaited, {}
        events: list[Event] = []
        for key, state in keys.items():
            if key in in_flight:
                continue
            offset = state.position.log_offset
            if reported.get(key, 0) >= offset:
                failed = {
                    name: last
                    for name in (APPLIED, ROW_COUNT, QUARANTINE)
                    if (last := newest.get(dg.AssetCheckKey(key, name))) is not None
                    # A later failure is about a file that the state does not include.
                    and not last.passed
                    and last.at < read_at
                }
                events += self._recovered(state, failed)
                continue
            known, since = awaited.get(key, (offset, read_at))
            self._awaited[key] = offset, since if known == offset else read_at
            if read_at - self._awaited[key][1] >= grace.get(state.target.source, 0.0):
                held = self._runtime.quarantine.open(state.target.identifier)
                events += _found(instance, key, state, held)
        return events

    def _recovered(self, state: TableState, failed: Mapping[str, CheckExecution]) -> list[Event]:
        """The checks among the failed ones whose cause is gone, although no batch says so: another run has applied the
        files meanwhile, or a command has mended the table or emptied its quarantine."""
        if state.state not in (State.UP_TO_DATE, State.NO_FILES):
            return []
        identifier, found = state.target.identifier, []
        if APPLIED in failed:
            found.append(state_evaluation(state, failed[APPLIED]))
        if ROW_COUNT in failed:
            rows = counted_rows(load_table(self._runtime.catalog, identifier))
            found.append(live_row_count_evaluation(state, rows, failed[ROW_COUNT]))
        if QUARANTINE in failed:
            found.append(quarantine_evaluation(state.target, self._runtime.quarantine.open(identifier)))
        return [evaluation for evaluation in found if evaluation.passed]


def reported_positions(instance: dg.DagsterInstance, keys: Sequence[dg.AssetKey]) -> dict[dg.AssetKey, int]:
    """By silver table that Dagster knows, the position in its newest materialization."""
    entries = [record.asset_entry for record in instance.get_asset_records(keys)] if keys else []
    return {entry.asset_key: _position(entry) for entry in entries}


def _found(
    instance: dg.DagsterInstance, key: dg.AssetKey, state: TableState, held: Sequence[Quarantined]
) -> list[Event]:
    fresh = freshness(state.target, state.position, state.logged, datetime.now(UTC))
    return [
        dg.AssetMaterialization(
            key,
            description=FOUND,
            metadata=grouped(state_metadata(state.position), SHOWN),
            tags=silver_versions(state.position),
        ),
        state_evaluation(state, latest_evaluation(instance, dg.AssetCheckKey(key, APPLIED))),
        published_row_count(state.target),
        quarantine_evaluation(state.target, held),
        known_rows_evaluation(state.target, state.position),
        freshness_evaluation(fresh),
    ]


def _position(entry: Any) -> int:
    """The position in the newest materialization; 0 without one, as in a materialization that was reported by hand."""
    event = entry.last_materialization
    materialization = event.asset_materialization if event is not None else None
    value = materialization.metadata.get(POSITION) if materialization is not None else None
    return value.value if isinstance(value, dg.IntMetadataValue) and value.value is not None else 0
