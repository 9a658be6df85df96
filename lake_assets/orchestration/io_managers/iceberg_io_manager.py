"""The Iceberg IO manager: DataFrames to and from Iceberg tables, by asset key and daily partition.

Here: which partitions a run writes, and reading a table or its requested partitions. Not here: the commit that
overwrites them (`gold/write_mart.py`), what is computed, or which partitions are stale. `["gold", "x"]` is the table
`gold.x`; `["silver", "s", "t"]` is `silver_s.t`.
"""

import random
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import date
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame

from lake_assets.config import Column as ColumnConfig
from lake_assets.errors import ApplyConflict
from lake_assets.gold.write_mart import Computed, only, overwrite
from lake_assets.orchestration.shared.heartbeat import Heartbeat
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.sql import table_address
from lake_assets.spark.types import iceberg_type

PARTITION_COLUMN = "lake/partition_column"
"""Definition metadata of a partitioned asset: the date column of its daily partitions."""

MOST_RACES = 10
"""How often a run computes again after it lost a race to another run of the same table."""


def table_identifier(key: dg.AssetKey) -> str:
    """`namespace.table` of an asset key."""
    *layers, name = key.path
    return f"{'_'.join(layers)}.{name}"


class IcebergIOManager(dg.IOManager):
    """Stores an asset's DataFrame, or `Computed`, in its Iceberg table.

    A partitioned asset overwrites exactly the run's partitions, one day or a contiguous range, also with zero rows;
    an unpartitioned one is replaced whole. Either is one commit on main. Rows outside the run's partitions raise
    PartitionMismatch, and nothing is written.
    """

    def __init__(self, runtime: LakeRuntime) -> None:
        self._runtime = runtime

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Raises PartitionMismatch and ColumnMismatch; a run that lost a race to another run computes again."""
        if obj is None:
            return
        # A DataFrame is a plan: its rows are computed here, after the asset's own code has ended.
        with _alive(context, self._runtime.lake.automation.heartbeat_interval.total_seconds()):
            try:
                self._store(context, obj if isinstance(obj, Computed) else _plain(obj))
            except ApplyConflict as error:
                # Only a lost race is retried at once: every other failure would occur again.
                wait = random.uniform(0.2, 2)  # so that the same runs do not collide again
                error.__cause__ = None  # keeps Spark's trace, which adds nothing, out of the log
                raise dg.RetryRequested(MOST_RACES, wait) from error

    def _store(self, context: dg.OutputContext, computed: Computed) -> None:
        days = _run_days(context) if context.has_asset_partitions else None
        column = None if days is None else _partition_column(context.asset_key, context.definition_metadata)
        identifier = table_identifier(context.asset_key)
        context.add_output_metadata(overwrite(self._runtime, identifier, computed, column, days))

    def load_input(self, context: dg.InputContext) -> DataFrame:
        """The upstream table, or the partitions of it that the run maps to."""
        identifier = table_identifier(context.asset_key)
        frame = self._runtime.sessions.root().table(
            table_address(self._runtime.lake.catalog.name, identifier)
        )
        if not context.has_asset_partitions:
            return frame
        upstream = context.upstream_output
        metadata = upstream.definition_metadata if upstream is not None else context.definition_metadata
        return frame.filter(only(_partition_column(context.asset_key, metadata), _run_days(context)))


def _plain(obj: object) -> Computed:
    if not isinstance(obj, DataFrame):
        raise dg.DagsterInvariantViolationError(
            f"the Iceberg IO manager stores Spark DataFrames, not {type(obj).__name__}"
        )
    columns = tuple(
        ColumnConfig(name=f.name, type=iceberg_type(f.dataType.simpleString())) for f in obj.schema.fields
    )
    return Computed(obj, columns)


def _partition_column(key: dg.AssetKey, metadata: Mapping[str, Any]) -> str:
    column = metadata.get(PARTITION_COLUMN)
    if column is None:
        raise dg.DagsterInvariantViolationError(
            f"{key.to_user_string()} is partitioned: name its date column in metadata {PARTITION_COLUMN!r}"
        )
    return str(column)


def _alive(context: dg.OutputContext, interval: float) -> AbstractContextManager[object]:
    """The run's heartbeat; nothing for an output without a run."""
    try:
        return Heartbeat(context.step_context.instance, context.step_context.run_id, interval)
    except dg.DagsterInvariantViolationError:
        return nullcontext()


def _run_days(context: dg.OutputContext | dg.InputContext) -> tuple[date, date]:
    keys = context.asset_partition_key_range
    return date.fromisoformat(keys.start), date.fromisoformat(keys.end)
