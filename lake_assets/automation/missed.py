"""What silver has become without Dagster's having been told.

Here: each table's position against its newest materialization. Not here: bronze (`bronze/reports.py`), which is told in
full; of silver only the state matters.

A run that is killed between a commit and its event, a table that another Dagster instance applied, a Dagster storage
that was deleted: the lake is right, and the UI would show a table that failed, or was never there, until its next file.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import dagster as dg
from dagster._core.storage.event_log.base import AssetEntry

from lake_assets.automation.in_flight import assets_in_flight
from lake_assets.checks.freshness import freshness
from lake_assets.checks.silver_checks import freshness_evaluation, published_row_count, state_evaluation
from lake_assets.silver.pending import TableState
from lake_assets.silver.report import POSITION, state_metadata


def missed_events(
    instance: dg.DagsterInstance, states: Sequence[TableState], heartbeat_timeout: float
) -> list[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    """A materialization and the checks of each table whose position Dagster has not heard of."""
    keys = {dg.AssetKey(state.target.asset_key): state for state in states if state.position.log_offset}
    if not keys:
        return []
    # Its own run is about to tell.
    in_flight = assets_in_flight(instance, keys, heartbeat_timeout)
    told = {
        record.asset_entry.asset_key: record.asset_entry for record in instance.get_asset_records([*keys])
    }
    events: list[dg.AssetMaterialization | dg.AssetCheckEvaluation] = []
    for key, state in keys.items():
        if key in in_flight or _position(told.get(key)) >= state.position.log_offset:
            continue
        events.append(
            dg.AssetMaterialization(
                key,
                description="Found in the lake: no run has told of it here.",
                metadata=state_metadata(state.position),
            )
        )
        fresh = freshness(state.target, state.position, state.logged, datetime.now(UTC))
        events += [state_evaluation(state), published_row_count(state.target), freshness_evaluation(fresh)]
    return events


def _position(entry: AssetEntry | None) -> int:
    """Of the newest materialization; 0 if it does not say, as one that was reported by hand."""
    event = entry.last_materialization if entry is not None else None
    materialization = event.asset_materialization if event is not None else None
    value = materialization.metadata.get(POSITION) if materialization is not None else None
    return value.value if isinstance(value, dg.IntMetadataValue) and value.value is not None else 0
