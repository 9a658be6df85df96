"""The Iceberg IO manager: DataFrames to and from Iceberg tables, by asset key and daily partition.

Here: overwriting exactly the partitions of a run in one commit, and reading a table or the partitions asked for. Not
here: what is computed, or which partitions are stale. `["gold", "x"]` is the table `gold.x`; `["silver", "s", "t"]` is
`silver_s.t`.
"""

import random
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import dagster as dg
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.automation.heartbeat import Heartbeat
from lake_assets.config import Column as ColumnConfig
from lake_assets.errors import ApplyConflict, ColumnMismatch, PartitionMismatch
from lake_assets.iceberg.publish import attempt, with_properties
from lake_assets.iceberg.tables import create_table, current_snapshot, live_rows, load_table, summary
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.checkpoint import checkpointed
from lake_assets.spark.types import iceberg_type

PARTITION_COLUMN = "lake/partition_column"
"""Definition metadata of a partitioned asset: the date column that its daily partitions are."""

NOT_PLANNED = object()
MOST_RACES = 10
"""So often a run that loses to others of the same table computes again before it gives up."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A DataFrame with what its commit shall say and which snapshot of the table it was planned against."""

    frame: DataFrame
    columns: tuple[ColumnConfig, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    planned_from: int | object | None = NOT_PLANNED
    """Snapshot id, or None for a table without one: the write is refused if the table has moved since. By default
    the write starts from whatever the table is."""


def table_identifier(key: dg.AssetKey) -> str:
    """`namespace.table` of an asset key."""
    *layers, name = key.path
    return f"{'_'.join(layers)}.{name}"


class IcebergIOManager(dg.IOManager):
    """Stores an asset's DataFrame, or `Computed`, in its Iceberg table.

    A partitioned asset overwrites exactly the run's partitions, one day or a contiguous range, also with zero rows;
    an unpartitioned one is replaced whole. Rows outside the run's partitions raise PartitionMismatch and nothing is
    written. Either way it is one commit on main.
    """

    def __init__(self, runtime: LakeRuntime) -> None:
        self._runtime = runtime

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Raises PartitionMismatch and ColumnMismatch; a run that lost a race to another one computes again."""
        if obj is None:
            return
        # A frame is a plan: its rows are computed here, after the asset's own code has ended.
        with _alive(context, self._runtime.lake.automation.heartbeat_interval.total_seconds()):
            try:
                self._store(context, obj if isinstance(obj, Computed) else _plain(obj))
            except ApplyConflict as error:
                # Only losing a race is worth another try at once: every other failure would come again.
                wait = random.uniform(0.2, 2)  # runs that met once must not meet again
                raise dg.RetryRequested(MOST_RACES, wait) from error

    def _store(self, context: dg.OutputContext, computed: Computed) -> None:
        identifier = table_identifier(context.asset_key)
        days = _run_days(context) if context.has_asset_partitions else None
        column = None if days is None else _partition_column(context.asset_key, context.definition_metadata)
        _require_columns(
            f"{identifier}: the computed frame", computed.frame.columns, computed, "Correct either one."
        )
        start = time.perf_counter()
        with self._runtime.sessions.isolated() as spark:
            table = load_table(self._runtime.catalog, identifier)
            if table is None:
                partition_by = () if column is None else (column,)
                create_table(spark, self._runtime.catalog, identifier, computed.columns, partition_by)
            else:
                fix = "Alter the table, or drop it to have it built anew."
                _require_columns(f"the table {identifier}", table.schema().column_names, computed, fix)
            # Computed once; counting and writing a lazy plan would compute it twice.
            frame = checkpointed(computed.frame.select(*(f"`{c.name}`" for c in computed.columns)))
            rows = _count(frame, identifier, column, days)
            computed_seconds = time.perf_counter() - start
            snapshot_id = self._overwrite(spark, identifier, computed, frame, _only(column, days))
        current = current_snapshot(load_table(self._runtime.catalog, identifier))
        context.add_output_metadata(
            {
                "dagster/row_count": live_rows(summary(current)),
                "rows_written": rows,
                "snapshot_id": str(snapshot_id),
                "seconds_compute": round(computed_seconds, 3),
                "seconds_write": round(time.perf_counter() - start - computed_seconds, 3),
                **({"days": f"{days[0]} to {days[1]}"} if days is not None else {}),
            }
        )

    def load_input(self, context: dg.InputContext) -> DataFrame:
        """The upstream table, or of a partitioned one the partitions that the run maps to."""
        identifier = table_identifier(context.asset_key)
        frame = self._runtime.sessions.root().table(f"{self._runtime.lake.catalog.name}.{identifier}")
        if not context.has_asset_partitions:
            return frame
        upstream = context.upstream_output
        metadata = upstream.definition_metadata if upstream is not None else context.definition_metadata
        return frame.filter(_only(_partition_column(context.asset_key, metadata), _run_days(context)))

    def _overwrite(
        self, spark: SparkSession, identifier: str, computed: Computed, frame: DataFrame, only: Column
    ) -> int:
        planned = computed.planned_from
        if planned is NOT_PLANNED:
            current = current_snapshot(load_table(self._runtime.catalog, identifier))
            planned = current.snapshot_id if current is not None else None
        assert planned is None or isinstance(planned, int)
        with attempt(spark, self._runtime.lake.catalog.name, identifier, planned) as current_attempt:
            writer = frame.writeTo(current_attempt.address).option("check-nullability", False)
            with_properties(writer, computed.properties).overwrite(only)
            return current_attempt.publish()


def _plain(obj: object) -> Computed:
    if not isinstance(obj, DataFrame):
        raise dg.DagsterInvariantViolationError(
            f"the Iceberg IO manager stores Spark DataFrames, not {type(obj).__name__}"
        )
    columns = tuple(
        ColumnConfig(name=f.name, type=iceberg_type(f.dataType.simpleString())) for f in obj.schema.fields
    )
    return Computed(obj, columns)


def _require_columns(what: str, found: Iterable[str], computed: Computed, next_step: str) -> None:
    declared, names = {c.name.lower() for c in computed.columns}, {name.lower() for name in found}
    lacks, extra = ", ".join(sorted(declared - names)), ", ".join(sorted(names - declared))
    if lacks or extra:
        differences = " and ".join(
            [f"lacks {lacks}, which its asset declares"] * bool(lacks)
            + [f"has {extra}, which its asset does not declare"] * bool(extra)
        )
        raise ColumnMismatch(f"{what} {differences}. Nothing was written. {next_step}")


def _partition_column(key: dg.AssetKey, metadata: Mapping[str, Any]) -> str:
    column = metadata.get(PARTITION_COLUMN)
    if column is None:
        raise dg.DagsterInvariantViolationError(
            f"{key.to_user_string()} is partitioned: name its date column in metadata {PARTITION_COLUMN!r}"
        )
    return str(column)


def _alive(context: dg.OutputContext, interval: float) -> AbstractContextManager[object]:
    """The run's heartbeat; none for an output that belongs to no run."""
    try:
        return Heartbeat(context.step_context.instance, context.step_context.run_id, interval)
    except dg.DagsterInvariantViolationError:
        return nullcontext()


def _run_days(context: dg.OutputContext | dg.InputContext) -> tuple[date, date]:
    keys = context.asset_partition_key_range
    return date.fromisoformat(keys.start), date.fromisoformat(keys.end)


def _only(column: str | None, days: tuple[date, date] | None) -> Column:
    if column is None or days is None:
        return F.lit(True)
    return F.col(f"`{column}`").between(F.lit(days[0]), F.lit(days[1]))


def _count(frame: DataFrame, identifier: str, column: str | None, days: tuple[date, date] | None) -> int:
    """Rows of the frame. Raises PartitionMismatch for rows that the run's partitions do not hold."""
    if column is None or days is None:
        return frame.count()
    # A NULL day lies in no partition either, and comparing with it gives NULL.
    outside = ~F.coalesce(_only(column, days), F.lit(False))
    day = F.coalesce(F.col(f"`{column}`").cast("string"), F.lit("NULL"))
    row = frame.agg(F.count(F.lit(1)), F.count_if(outside), F.min(F.when(outside, day))).first()
    assert row is not None, "an aggregate without grouping has one row"
    if row[1]:
        raise PartitionMismatch(
            f"{identifier}: {row[1]} rows lie outside the run's partitions {days[0]} to {days[1]}, the first in "
            f"{row[2]}. Nothing was written. Filter the mart's rows by its days, and check that {column} is the day "
            "they belong to."
        )
    return int(row[0])
