"""Rows of marts for which Dagster has no event, or an event that names older inputs.

Here: comparing what each mart's table has with what Dagster shows. Not here: silver (`missed_positions.py`), and the
tables of the user's own assets: the lake does not know which of their partitions are computed.

Events are missing when a run is killed between a commit and its event, or when Dagster's storage is deleted. An event
names older inputs when a run reads rows of silver that the continuous run has not reported yet. The rows are right, but
until they change again the UI would show a partition as missing or failed, or a mart as stale.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import dagster as dg
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lake_assets.gold.mart import Mart
from lake_assets.gold.periods.grain import hull
from lake_assets.gold.table_snapshots import LoadedTables, periods_held, snapshot_of_rows
from lake_assets.gold.view import MartView, mart_view
from lake_assets.gold.write.write_mart import RUN
from lake_assets.iceberg.table_io import applied_at, live_rows, summary
from lake_assets.iceberg.upkeep.retention import main_chain
from lake_assets.orchestration.assets.mart_runs import within_partitions
from lake_assets.orchestration.assets.versions import CODE, INPUT, mart_versions
from lake_assets.orchestration.dagster_private import partitions_without_event
from lake_assets.orchestration.io_managers.iceberg_io_manager import SHOWN
from lake_assets.orchestration.runs.in_flight import assets_in_flight
from lake_assets.orchestration.runs.marts_in_silver_runs import keeps_up
from lake_assets.orchestration.runs.missed_positions import FOUND
from lake_assets.orchestration.shared.asset_metadata import grouped
from lake_assets.orchestration.shared.first_periods import FirstPeriods
from lake_assets.runtime import LakeRuntime

MOST_EVENTS = 500
"""The most events of one call: it has to end within the minute that Dagster gives a sensor."""


class UnreportedMarts:
    """One process calls `events` repeatedly."""

    def __init__(self, runtime: LakeRuntime, marts: Sequence[Mart], first: FirstPeriods) -> None:
        """`first`: where the partitions of Dagster's definitions begin."""
        self._runtime, self._marts, self._first = runtime, marts, first
        self._complete: dict[str, int] = {}
        """By partitioned mart, the snapshot whose partitions are all reported."""

    def events(
        self, instance: dg.DagsterInstance, grace: Mapping[str, float]
    ) -> list[dg.AssetMaterialization]:
        """Events of the marts that no run is computing. `grace`: by source with a continuous run, the seconds that the
        run has to report rows."""
        return list(islice(self._events(instance, grace), MOST_EVENTS))

    def _events(
        self, instance: dg.DagsterInstance, grace: Mapping[str, float]
    ) -> Iterator[dg.AssetMaterialization]:
        # Read before the tables are loaded: a mart that is then not stale has all rows that had been reported.
        versions = {mart.name: mart_versions(instance, mart) for mart in self._marts}
        loaded = LoadedTables(self._runtime.catalog)
        views = {mart.name: mart_view(loaded, mart, self._runtime.lake.gold) for mart in self._marts}
        # After the tables are loaded: a run that has ended since has reported what they have.
        in_flight = assets_in_flight(instance, map(_key, self._marts))
        for mart in self._marts:
            view, table = views[mart.name], loaded.table(mart.identifier)
            if view is None or table is None or _key(mart) in in_flight:
                continue
            if mart.partition_column is not None:
                yield from self._partitions(instance, mart, table, view, versions[mart.name])
            elif not view.stale and (rows := snapshot_of_rows(table)) is not None:
                stored = applied_at(rows).timestamp()
                if time.time() - stored >= _patience(mart, grace):
                    yield from _whole(instance, mart, rows, versions[mart.name])

    def _partitions(
        self,
        instance: dg.DagsterInstance,
        mart: Mart,
        table: Table,
        view: MartView,
        versions: Mapping[str, str],
    ) -> Iterator[dg.AssetMaterialization]:
        if self._complete.get(mart.name) == view.mart_snapshot:
            return
        key, grain = _key(mart), mart.partitions
        held = periods_held(table, str(mart.partition_column), grain)
        # Not all of the span: no run computes a long time without rows.
        every = sorted(hull(grain, held | view.span, grain.of(view.now)))
        shown = {grain.key(period) for period in within_partitions(every, grain, self._first.of_mart(mart))}
        missing = shown - set(instance.get_materialized_partitions(key))
        # A user may have requested partitions outside of the span.
        found = (missing | _stored_by_failed_runs(instance, mart, table)) - set(map(grain.key, view.work))
        for name in sorted(found):
            yield dg.AssetMaterialization(key, description=FOUND, partition=name, tags=versions)
        if not found and view.mart_snapshot is not None:
            self._complete[mart.name] = view.mart_snapshot


def _key(mart: Mart) -> dg.AssetKey:
    return dg.AssetKey(mart.asset_key)


def _patience(mart: Mart, grace: Mapping[str, float]) -> float:
    """How long the continuous run has to report the mart's rows, in seconds; 0 for rows that it does not store."""
    return max((seconds for source, seconds in grace.items() if keeps_up(mart, source)), default=0.0)


def _whole(
    instance: dg.DagsterInstance, mart: Mart, rows: Snapshot, versions: Mapping[str, str]
) -> Iterator[dg.AssetMaterialization]:
    """An event of an unpartitioned mart whose newest event is older than its rows, or names other inputs than the
    newest events of silver."""
    event = instance.get_latest_materialization_event(_key(mart))
    known = event is not None and event.timestamp >= applied_at(rows).timestamp()
    told = _tags(event) if known else {}
    # A mart at the consistent cut may rightly be older than the newest rows of silver.
    inputs = (
        {} if mart.at_cut else {name: tag for name, tag in versions.items() if name.startswith(f"{INPUT}/")}
    )
    if not known or not inputs.items() <= told.items():
        figures = {"dagster/row_count": live_rows(summary(rows)), "snapshot_id": str(rows.snapshot_id)}
        # Former code may have computed the rows.
        code = {CODE: told[CODE]} if CODE in told else {}
        tags, metadata = {**versions, **code}, grouped(figures, SHOWN)
        yield dg.AssetMaterialization(_key(mart), description=FOUND, metadata=metadata, tags=tags)


def _tags(event: dg.EventLogEntry | None) -> Mapping[str, str]:
    materialization = event.asset_materialization if event is not None else None
    return (materialization.tags or {}) if materialization is not None else {}


def _stored_by_failed_runs(instance: dg.DagsterInstance, mart: Mart, table: Table) -> set[str]:
    """The partitions whose newest run has stored its rows but has reported no event."""
    attempts = partitions_without_event(instance, _key(mart)) or {}
    stored = {summary(snapshot).get(RUN) for snapshot in main_chain(table)} if attempts else set()
    return {partition for partition, run in attempts.items() if run in stored}
