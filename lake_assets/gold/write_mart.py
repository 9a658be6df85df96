"""One commit that replaces the rows of a table, or those of a range of its days.

Here: computing a frame once, refusing rows and columns that do not belong to the table, the commit. Not here: Dagster
(`orchestration/io_managers/iceberg_io_manager.py`), what is computed (`gold/`).
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

from pyiceberg.table import Table
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.config import Column as ColumnConfig
from lake_assets.config.secrets import secrets_hidden
from lake_assets.errors import ColumnMismatch, PartitionMismatch, SparkLost
from lake_assets.iceberg.publish import attempt, with_properties
from lake_assets.iceberg.table_io import create_table, current_snapshot, live_rows, load_table, summary
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.checkpoint import Observed, checkpointed
from lake_assets.spark.sql import quoted
from lake_assets.words import many

NOT_PLANNED = object()


@dataclass(frozen=True, slots=True)
class Computed:
    """A DataFrame, the properties of its commit, and the snapshot of the table from which it was planned."""

    frame: DataFrame
    columns: tuple[ColumnConfig, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    latency: Callable[[datetime], Mapping[str, Any]] = lambda shown: {}
    """Metadata by the time at which the rows became readable, UTC."""
    planned_from: int | object | None = NOT_PLANNED
    """Snapshot id, or None for a table without one: the write is refused if the table has moved since. By default
    the write starts from the table's head."""


def overwrite(
    runtime: LakeRuntime,
    identifier: str,
    computed: Computed,
    column: str | None = None,
    days: tuple[date, date] | None = None,
) -> dict[str, Any]:
    """Replaces all rows by the frame, or those whose `column` lies in the days; returns metadata about it.

    Raises PartitionMismatch for rows outside the days, ColumnMismatch for columns that are not the table's, and
    ApplyConflict when another process has written to the table since the plan: nothing is written then.
    """
    _require_columns(
        f"{identifier}: the computed frame", computed.frame.columns, computed, "Correct either one."
    )
    start = time.perf_counter()
    with secrets_hidden(runtime.lake), runtime.sessions.isolated() as spark:
        table = load_table(runtime.catalog, identifier)
        if table is None:
            partition_by = () if column is None else (column,)
            create_table(spark, runtime.catalog, identifier, computed.columns, partition_by)
        else:
            fix = "Alter the table, or drop it to have it rebuilt."
            _require_columns(f"the table {identifier}", table.schema().column_names, computed, fix)
        # Computed once: counting and writing a lazy plan would compute it twice.
        frame = computed.frame.select(*(quoted(c.name) for c in computed.columns))
        if column is not None and days is not None:
            frame = _within(frame, identifier, column, days)
        else:
            # Spark 4.1 plans the write of an aggregate wrongly if Iceberg answers the aggregate from its metadata.
            frame = checkpointed(frame)
        computed_seconds = time.perf_counter() - start
        snapshot_id = _commit(runtime, spark, identifier, table, computed, frame, only(column, days))
        shown = datetime.now(UTC)
    stored = load_table(runtime.catalog, identifier)
    published = summary(stored.snapshot_by_id(snapshot_id)) if stored is not None else {}
    return {
        "dagster/row_count": live_rows(summary(current_snapshot(stored))),
        "rows_written": int(published.get("added-records", "0")),
        "snapshot_id": str(snapshot_id),
        "seconds_compute": round(computed_seconds, 3),
        "seconds_write": round(time.perf_counter() - start - computed_seconds, 3),
        **computed.latency(shown),
        **({"days": f"{days[0]} to {days[1]}"} if days is not None else {}),
    }


def only(column: str | None, days: tuple[date, date] | None) -> Column:
    """The condition for rows that lie in the days; true if none are given."""
    if column is None or days is None:
        return F.lit(True)
    return F.col(quoted(column)).between(F.lit(days[0]), F.lit(days[1]))


def _commit(
    runtime: LakeRuntime,
    spark: SparkSession,
    identifier: str,
    table: Table | None,
    computed: Computed,
    frame: DataFrame,
    replaced: Column,
) -> int:
    """Publishes the rows; returns the snapshot id. `table`: as it was before the rows were computed."""
    planned = computed.planned_from
    if planned is NOT_PLANNED:
        table = load_table(runtime.catalog, identifier)
        current = current_snapshot(table)
        planned = current.snapshot_id if current is not None else None
    assert planned is None or isinstance(planned, int)
    catalog = runtime.lake.catalog.name
    with attempt(spark, catalog, identifier, planned, kept=runtime.branches, table=table) as current_attempt:
        writer = frame.writeTo(current_attempt.address).option("check-nullability", False)
        with_properties(writer, computed.properties).overwrite(replaced)
        return current_attempt.publish()


def _require_columns(what: str, found: Iterable[str], computed: Computed, next_step: str) -> None:
    declared, names = {c.name.lower() for c in computed.columns}, {name.lower() for name in found}
    lacks, extra = ", ".join(sorted(declared - names)), ", ".join(sorted(names - declared))
    if lacks or extra:
        differences = " and ".join(
            [f"lacks {lacks}, which its asset declares"] * bool(lacks)
            + [f"has {extra}, which its asset does not declare"] * bool(extra)
        )
        raise ColumnMismatch(f"{what} {differences}. Nothing was written. {next_step}")


def _within(frame: DataFrame, identifier: str, column: str, days: tuple[date, date]) -> DataFrame:
    """The computed rows. Raises PartitionMismatch for rows outside the run's partitions."""
    observed = Observed()
    # A NULL day lies in no partition either, but a comparison with NULL yields NULL.
    outside = ~F.coalesce(only(column, days), F.lit(False))
    day = F.coalesce(F.col(quoted(column)).cast("string"), F.lit("NULL"))
    figures = [F.count_if(outside).alias("outside"), F.min(F.when(outside, day)).alias("example")]
    rows = checkpointed(observed.on(frame, *figures), [observed])
    try:
        seen = observed.get
    except SparkLost:
        # A busy server has not sent the figures; aggregating the computed rows yields them.
        (row,) = rows.agg(*figures).collect()
        seen = row.asDict()
    if found := seen["outside"]:
        raise PartitionMismatch(
            f"{identifier}: {many(found, 'row', 'lie')} outside the run's partitions {days[0]} to {days[1]}, the "
            "first in "
            f"{seen['example']}. Nothing was written. Filter the mart's rows by its days, and check that "
            f"{column} is the day they belong to."
        )
    return rows
