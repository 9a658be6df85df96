"""The Iceberg IO manager: tables as parameters of assets, and the results of assets as tables.

Here: what a run reads and writes. Not here: the commit (`gold/write/write_mart.py`), the types of a parameter
(`table_values.py`) and of a result (`result_frame.py`), what a mart computes, or which of its partitions are stale.
`["gold", "x"]` is the table `gold.x`; `["silver", "s", "t"]` is `silver_s.t`.
"""

import json
import os
import random
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg
from pyiceberg.table import Table
from pyspark.sql import DataFrame

from lake_assets.config import Column as ColumnConfig
from lake_assets.config import LakeConfig, SourceConfig
from lake_assets.config.config_file import resolve_paths
from lake_assets.errors import ApplyConflict
from lake_assets.gold.partition_rows import table_frame
from lake_assets.gold.write.write_mart import KEYED, WAITS, Computed, Store, WriteMode, write
from lake_assets.iceberg.file_io.newest_rows import added_by_partition
from lake_assets.iceberg.partitioning import partitions_of
from lake_assets.iceberg.table_io import load_table
from lake_assets.orchestration.io_managers.result_frame import result_frame
from lake_assets.orchestration.io_managers.run_partitions import own_transforms, partition_by, run_partitions
from lake_assets.orchestration.io_managers.step_cuts import StepCuts
from lake_assets.orchestration.io_managers.table_values import table_value
from lake_assets.orchestration.shared.asset_keys import table_identifier
from lake_assets.orchestration.shared.asset_metadata import grouped
from lake_assets.orchestration.shared.heartbeat import Heartbeat
from lake_assets.orchestration.shared.preview import preview
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.types import iceberg_type

IO_MANAGER_KEY = "iceberg_io_manager"

WRITE_MODE = "lake/write"
"""Definition metadata: `overwrite` (by default), `append`, `upsert` or `difference`."""
KEY = "lake/key"
"""Definition metadata for `upsert` and `difference`: the names of the key's columns."""

SHOWN = (
    "rows_written",
    "partitions",
    "latency_commit_to_table_seconds",
    "seconds",
    "source_now",
    "days_still_pending",
)
"""The figures that a materialization shows at once."""
SHOW_ROWS = "lake/preview"
"""Definition metadata: False if events must show no rows of the table."""

MOST_REPEATS = 10
"""How often a step is repeated after it lost a race to another run of the same table, or lost Spark."""
RESTART_SECONDS = 5
"""How long a step waits for a server that was lost: a restarted one answers after some seconds."""


@contextmanager
def repeating(runtime: LakeRuntime, name: str) -> Iterator[None]:
    """Has Dagster repeat the step of the asset `name` at once if it lost a race to another run, or its Spark Connect
    server. Every other failure would occur again."""
    try:
        yield
    except Exception as error:
        lost = runtime.sessions.lost(f"the step of {name}", error)
        if lost is None and not isinstance(error, ApplyConflict):
            raise
        reason = lost or error
        reason.__cause__ = None  # keeps Spark's trace, which adds nothing, out of the log
        # At random, so that the same runs do not collide again.
        raise dg.RetryRequested(MOST_REPEATS, RESTART_SECONDS if lost else random.uniform(0.2, 2)) from reason


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows of an asset that are in its table."""

    store: Store
    types: Mapping[str, str]
    """By column."""
    done: Mapping[str, Any]
    """Metadata, as `write` returns it."""


class TableIOManager(dg.IOManager):
    """Stores an asset's rows in its Iceberg table, and loads tables for the parameters of assets.

    An asset returns a Spark DataFrame, or what PyArrow takes as a table: `pyarrow.Table`, `RecordBatchReader`, a
    DataFrame of pandas or Polars, a relation of DuckDB. The run of a partitioned asset overwrites exactly its
    partitions, also with zero rows. An unpartitioned asset is replaced whole. The metadata `lake/write` makes it
    append, upsert, or write the difference instead. Each way is one commit on main. Rows outside the run's partitions
    raise PartitionMismatch, and nothing is written.

    Marts read by `read`, because they need all of their inputs at the snapshots of one view. A mart that is not a step
    of its run, as in the continuous run, is stored by `store`.
    """

    def __init__(self, runtime: LakeRuntime) -> None:
        self._runtime = runtime
        self._cuts = StepCuts(runtime)

    def read(self, identifier: str, snapshot_id: int | None, *, few_rows: bool = False) -> DataFrame:
        """The table `identifier` at a snapshot; at its head for None. Join a frame only with frames of the same
        `few_rows`: see `SparkSessions.root`."""
        return table_frame(self._runtime, identifier, snapshot_id, few_rows=few_rows)

    def store(self, identifier: str, computed: Computed, store: Store | None = None) -> dict[str, Any]:
        """Stores the frame in the table `identifier` by one commit, and returns metadata about it; see `write`."""
        return write(self._runtime, identifier, computed, store)

    def handle_output(self, context: dg.OutputContext, obj: object) -> None:
        """Raises PartitionMismatch, KeyMismatch and ColumnMismatch; a step that lost a race to another run, or Spark,
        computes again."""
        if obj is None:
            return
        # A DataFrame is a plan: its rows are computed here, after the asset's own code has ended.
        with _alive(context), repeating(self._runtime, context.asset_key.to_user_string()):
            if isinstance(obj, Stored):
                self._report(context, obj)
            else:
                self._store(context, obj if isinstance(obj, Computed) else self._plain(context, obj))

    def _store(self, context: dg.OutputContext, computed: Computed) -> None:
        metadata, store = context.definition_metadata, computed.store
        if store is None:
            rows = run_partitions(context, metadata)
            if rows is not None and not rows.parts:
                raise dg.DagsterInvariantViolationError(
                    f"{context.asset_key.to_user_string()}: the run has no partitions; does its range end before it "
                    "begins?"
                )
            transforms = partition_by(context, rows, computed.types)
            store = Store(rows, transforms, *_mode(context))
        identifier = table_identifier(context.asset_key, self._runtime.lake.key_prefix)
        done = self.store(identifier, replace(computed, run_id=context.run_id), store)
        self._report(context, Stored(store, computed.types, done))

    def _report(self, context: dg.OutputContext, stored: Stored) -> None:
        """Gives Dagster what it shows of the table and of the run's partitions."""
        identifier = table_identifier(context.asset_key, self._runtime.lake.key_prefix)
        metadata, store, done = context.definition_metadata, stored.store, stored.done
        if WAITS in done:
            context.log.info("%s: %s", context.asset_key.to_user_string(), done[WAITS])
        shown = preview(self._runtime, identifier, show=metadata.get(SHOW_ROWS, True))
        context.add_output_metadata(grouped(done, {*SHOWN, WAITS}) | shown)
        if store.partitions is not None and store.mode is WriteMode.OVERWRITE:
            table = load_table(self._runtime.catalog, identifier)
            if table is None or partitions_of(table) != tuple(own_transforms(store.partitions, stored.types)):
                return
            whole = done["partitions"] == store.partitions.name
            _count_partitions(context, table, int(done["snapshot_id"]), whole=whole)

    def _plain(self, context: dg.OutputContext, obj: object) -> Computed:
        frame = result_frame(self._runtime.sessions.root(), context.asset_key.to_user_string(), obj)
        columns = tuple(
            ColumnConfig(name=f.name, type=iceberg_type(f.dataType.simpleString()))
            for f in frame.schema.fields
        )
        return Computed(frame, columns, own_asset=context.asset_key.to_user_string())

    def load_input(self, context: dg.InputContext) -> Any:
        """The upstream table, or the partitions of it that the run maps to; see `table_value`. Raises
        DagsterInvariantViolationError if there is no table."""
        identifier = table_identifier(context.asset_key, self._runtime.lake.key_prefix)
        table = load_table(self._runtime.catalog, identifier)
        if table is None:
            raise dg.DagsterInvariantViolationError(
                f"{context.asset_key.to_user_string()} has no table {identifier} yet: materialize it first. A run "
                "without rows and types creates none"
            )
        upstream = context.upstream_output
        rows = run_partitions(context, upstream.definition_metadata if upstream is not None else {})
        wanted = context.dagster_type.typing_type
        with repeating(self._runtime, context.asset_key.to_user_string()):
            return table_value(self._runtime, identifier, table, wanted, rows, self._cuts.metadata(context))


def _count_partitions(context: dg.OutputContext, table: Table, snapshot_id: int, *, whole: bool) -> None:
    """Reports the rows of each of the run's partitions, if Iceberg's partitions are Dagster's. Without `whole`, some
    partitions were left to another run, so it is unknown which partitions have no rows."""
    keys = set(context.asset_partition_keys)
    counts = added_by_partition(table, snapshot_id)
    if counts is None or not set(counts) <= keys:
        return  # Iceberg's partitions are not Dagster's
    for key in keys if whole else counts:
        rows = {"dagster/partition_row_count": counts.get(key, 0)}
        context.step_context.add_asset_metadata(rows, context.asset_key, key)


def _mode(context: dg.OutputContext) -> tuple[WriteMode, list[str]]:
    metadata, name = context.definition_metadata, context.asset_key.to_user_string()
    given, key = metadata.get(WRITE_MODE, WriteMode.OVERWRITE), metadata.get(KEY) or []
    modes = list(WriteMode)
    if given not in modes:
        raise dg.DagsterInvariantViolationError(
            f"{name}: {WRITE_MODE!r} is {given!r}; it must be {', '.join(modes[:-1])} or {modes[-1]}"
        )
    mode = WriteMode(given)
    if mode in KEYED and not key:
        raise dg.DagsterInvariantViolationError(
            f"{name} is written by {mode}: name the columns of its key in metadata {KEY!r}"
        )
    if mode is WriteMode.DIFFERENCE and context.has_asset_partitions:
        raise dg.DagsterInvariantViolationError(
            f"{name} has partitions, which {mode} does not take: set {WRITE_MODE!r} to overwrite or upsert"
        )
    return mode, [key] if isinstance(key, str) else list(key)


def _alive(context: dg.OutputContext) -> AbstractContextManager[object]:
    """The run's heartbeat; nothing for an output without a run."""
    try:
        return Heartbeat(context.step_context.instance, context.step_context.run_id)
    except dg.DagsterInvariantViolationError:
        return nullcontext()


class _Tables(LakeConfig):
    """A lake without sources."""

    sources: dict[str, SourceConfig] = {}  # noqa: RUF012  (a field)


class IcebergIOManager(dg.ConfigurableIOManagerFactory[TableIOManager]):
    """The IO manager for a project without a lake: only a catalog, and Spark.

    `catalog` and `spark` are the sections of these names in lake.yaml. `${NAME}` in a value is an environment variable:
    the configuration must have no secret, because Dagster's UI shows it. Relative paths count from the working
    directory. See `TableIOManager`.
    """

    catalog: dict[str, Any]
    spark: dict[str, Any] = {}  # noqa: RUF012  (a field)

    def create_io_manager(self, context: dg.InitResourceContext) -> TableIOManager:
        """Shares the sessions of other steps of this process."""
        given: dict[str, Any] = _expanded({"catalog": self.catalog, "spark": self.spark})
        resolve_paths(given, Path.cwd())  # Java's working directory may be another
        return TableIOManager(_runtime(json.dumps(given, sort_keys=True)))


def _expanded(value: Any) -> Any:
    """The value with the environment variables that its texts name."""
    if isinstance(value, dict):
        return {name: _expanded(each) for name, each in value.items()}
    return os.path.expandvars(value) if isinstance(value, str) else value


@cache
def _runtime(config: str) -> LakeRuntime:
    return LakeRuntime(_Tables.model_validate_json(config))
