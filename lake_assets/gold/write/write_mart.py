"""One publish that replaces the rows of a table or of some of its partitions, appends rows, or changes rows by key.

Here: computing a frame once, refusing rows and columns that do not belong to the table, the commit. Not here: Dagster
(`orchestration/io_managers/iceberg_io_manager.py`), what is computed (the other modules of `gold/`).
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import reduce
from operator import or_
from typing import Any

from py4j.protocol import Py4JError
from pyiceberg.table import Table
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.config import Column as ColumnConfig
from lake_assets.config.secrets import secrets_hidden
from lake_assets.errors import ApplyConflict, ColumnMismatch, KeyMismatch, PartitionMismatch, SparkLost
from lake_assets.gold.partition_rows import PartitionRows
from lake_assets.gold.write.own_tables import ASSET
from lake_assets.gold.write.stored_values import (
    NO_TYPE,
    has_no_types,
    require_storable,
    require_types,
    typed_as_in,
    untyped_columns,
)
from lake_assets.iceberg.partitioning import too_long_for_a_path
from lake_assets.iceberg.publish import Attempt, attempt, lost_races
from lake_assets.iceberg.table_io import (
    changed_comments,
    column_ddl,
    create_table,
    current_snapshot,
    live_rows,
    load_table,
    set_property,
    summary,
)
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.causes import full_traceback
from lake_assets.spark.checkpoint import Observed, checkpointed
from lake_assets.spark.sql import Sql, joined, quoted, sql, table_address
from lake_assets.words import many

RUN = "lake.run-id"
"""Summary property: the Dagster run whose step stored the rows."""
NOT_PLANNED = object()
KEYS_SHOWN = 3
MOST_ATTEMPTS = 10
"""The most attempts to publish computed rows while other runs publish first."""


class WriteMode(StrEnum):
    """How the frame changes the table."""

    OVERWRITE = "overwrite"
    """Replaces all rows, or those of the partitions."""
    APPEND = "append"
    UPSERT = "upsert"
    """Replaces the rows that have the frame's keys."""
    DIFFERENCE = "difference"
    """Replaces all rows, but writes only those that differ from the table's row with their key."""


KEYED = (WriteMode.UPSERT, WriteMode.DIFFERENCE)


@dataclass(frozen=True, slots=True)
class Store:
    """Where and how a frame is stored."""

    partitions: PartitionRows | None = None
    """The partitions in which the frame's rows must lie; None for an asset without partitions."""
    partition_by: Sequence[str] = ()
    """Iceberg's partition transforms, for a table that does not exist yet."""
    mode: WriteMode = WriteMode.OVERWRITE
    key: Sequence[str] = ()
    """The key's columns, for the modes in KEYED."""


WHOLE = Store()

WAITS = "waits_for_rows"
"""Metadata of a run that stored nothing: why."""
NO_ROWS_YET = (
    "There are no rows yet, so the types of the columns are unknown: the first rows create the table."
)


@dataclass(frozen=True, slots=True)
class Computed:
    """A DataFrame, the properties of its commit, and the snapshot of the table from which it was planned."""

    frame: DataFrame
    columns: tuple[ColumnConfig, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)
    """By column, what it means."""
    latency: Callable[[datetime], Mapping[str, Any]] = lambda shown: {}
    """Metadata by the time at which the rows became readable, UTC."""
    planned_from: int | object | None = NOT_PLANNED
    """The id of that snapshot, or None for a table without one: the write is refused if the table has moved since. By
    default the write starts from the table's head."""
    store: Store | None = None
    """How the frame is stored, if the code that computed it decides that."""
    few_rows: bool = False
    """Whether so few rows are read that a table without partitions should get one file."""
    run_id: str = ""
    """The Dagster run that stores it, if it is a step of one."""
    own_asset: str = ""
    """The key of the own asset that it is of, with `/` between its parts; empty for a mart."""
    outrun: Callable[["Computed"], "Computed | None"] = lambda computed: None
    """The part of the rows to store after another run has published first; None if all are to be computed again."""

    @property
    def types(self) -> dict[str, str]:
        """Iceberg types by column."""
        return {column.name: column.type for column in self.columns}


def write(
    runtime: LakeRuntime, identifier: str, computed: Computed, store: Store | None = None
) -> dict[str, Any]:
    """Stores the frame by one commit on main; returns metadata about it. Creates the table if there is none.

    A frame without rows, in which a column has no type, makes no table: the first rows say the types. The metadata then
    has WAITS.

    Raises PartitionMismatch for rows outside the partitions, KeyMismatch for rows whose key is NULL or not unique,
    ColumnMismatch for columns that are not the table's, or whose values its types would change, and ApplyConflict when
    another process has written to the table since the plan: nothing is written then.
    """
    store = store or computed.store or WHOLE
    _require_columns(
        f"{identifier}: the computed frame", computed.frame.columns, computed, "Correct either one."
    )
    start = time.perf_counter()
    with secrets_hidden(runtime.lake), runtime.sessions.isolated() as spark:
        table = load_table(runtime.catalog, identifier)
        if table is not None:
            _require_columns_of_table(identifier, table, computed)
        if table is None and has_no_types(computed.types) and computed.frame.isEmpty():
            return {"dagster/row_count": 0, "rows_written": 0, WAITS: NO_ROWS_YET}
        computed = replace(computed, columns=typed_as_in(table, computed.columns))
        partitioned_by = store.partitions.columns if store.partitions is not None else ()
        require_types(identifier, table, computed.types, partitioned_by)
        # Computed once: counting and writing a lazy plan would compute it twice.
        frame = computed.frame.select(*(quoted(c.name) for c in computed.columns))
        if store.partitions is not None:
            frame = _within(frame, identifier, store.partitions, computed.types)
        else:
            # Spark 4.1 plans the write of an aggregate wrongly if Iceberg answers the aggregate from its metadata.
            frame = checkpointed(frame)
        if store.mode in KEYED:
            _require_keys(frame, identifier, store.key)
        # Only now: rows that are refused leave no table, and no column, with a mistaken type.
        if table is None:
            create_table(
                spark,
                runtime.catalog,
                identifier,
                computed.columns,
                runtime.lake.gold_version,
                store.partition_by,
                {ASSET: computed.own_asset} if computed.own_asset else None,
                computed.comments,
            )
        else:
            require_storable(frame, identifier, table, computed.types)
            _alter(runtime, spark, identifier, table, computed)
        computed_seconds = time.perf_counter() - start
        snapshot_id, store = _publish(
            runtime, spark, identifier, table, replace(computed, frame=frame, store=store)
        )
        shown = datetime.now(UTC)
    stored = load_table(runtime.catalog, identifier)
    published = summary(stored.snapshot_by_id(snapshot_id)) if stored is not None else {}
    return {
        "dagster/row_count": live_rows(summary(current_snapshot(stored))),
        "rows_written": int(published.get("added-records", "0")),
        "snapshot_id": str(snapshot_id),
        "seconds": round(time.perf_counter() - start, 3),
        "seconds_compute": round(computed_seconds, 3),
        "seconds_write": round(time.perf_counter() - start - computed_seconds, 3),
        **computed.latency(shown),
        **({"partitions": store.partitions.name} if store.partitions is not None else {}),
    }


def _publish(
    runtime: LakeRuntime, spark: SparkSession, identifier: str, table: Table | None, computed: Computed
) -> tuple[int, Store]:
    """Publishes the rows; returns the snapshot id and how they are stored. If another run publishes first, publishes
    the rows that are still to be stored, without computing them again. Raises ApplyConflict, and PartitionMismatch for
    a value that is too long for the path of its partition."""
    rows = computed.frame
    for attempts_left in reversed(range(MOST_ATTEMPTS)):
        store = computed.store or WHOLE
        try:
            return _commit(runtime, spark, identifier, table, computed, store), store
        except (PySparkException, Py4JError) as error:
            if (reason := too_long_for_a_path(full_traceback(error), store.partition_by)) is None:
                raise
            raise PartitionMismatch(f"{identifier}: {reason}. Nothing was written.") from error
        except ApplyConflict:
            found = computed.outrun(computed) if attempts_left else None
            if found is None:
                raise
            computed, table = found, load_table(runtime.catalog, identifier)
            if computed.store is not None and computed.store.partitions is not None:
                computed = replace(
                    computed, frame=rows.filter(computed.store.partitions.in_spark(computed.types))
                )
    raise AssertionError("the last attempt returns or raises")


def _commit(
    runtime: LakeRuntime,
    spark: SparkSession,
    identifier: str,
    table: Table | None,
    computed: Computed,
    store: Store,
) -> int:
    """Publishes the rows; returns the snapshot id. `table`: as it was before the rows were computed."""
    planned = computed.planned_from
    if planned is NOT_PLANNED:
        table = load_table(runtime.catalog, identifier)
        current = current_snapshot(table)
        planned = current.snapshot_id if current is not None else None
    assert planned is None or isinstance(planned, int)
    catalog = runtime.lake.catalog.name
    with (
        lost_races(identifier),
        attempt(spark, catalog, identifier, planned, kept=runtime.branches, table=table) as current_attempt,
    ):
        frame, rows, before = computed.frame, store.partitions, planned
        if planned is None:  # the branch begins with a commit of its own
            before = current_attempt.head(runtime.catalog)[1].snapshot_id
        # Iceberg overwrites whole files only.
        overwrites = store.mode is WriteMode.OVERWRITE and (
            rows is None or table is None or planned is None or rows.are_whole_files(table, computed.types)
        )
        if not overwrites and store.mode is not WriteMode.APPEND:
            frame = _delete_replaced(current_attempt, computed, store, planned)
            before = current_attempt.head_upon(runtime.catalog, before)
        of_run = {RUN: computed.run_id} if computed.run_id else {}
        # A few rows that are read may give rows in many partitions.
        one_task = computed.few_rows and rows is None
        writer = current_attempt.writer(frame, {**computed.properties, **of_run}, one_task=one_task)
        if overwrites:
            writer.overwrite(F.lit(True) if rows is None else rows.in_spark(computed.types))
        else:
            writer.append()
        # Read before publishing: afterwards, maintenance may drop the branch.
        head = current_attempt.head_upon(runtime.catalog, before)
        current_attempt.publish()
        return head


def _delete_replaced(current: Attempt, computed: Computed, store: Store, planned: int | None) -> DataFrame:
    """Deletes from the branch the rows that the new ones replace. Returns the new rows that the branch then lacks."""
    frame = computed.frame
    if store.mode is WriteMode.UPSERT:
        current.delete_matching(frame.select(*map(quoted, store.key)), _same_key(store.key))
    elif store.mode is WriteMode.OVERWRITE:
        assert store.partitions is not None, "without partitions, the whole table is overwritten"
        current.delete(store.partitions.in_sql(computed.types))
    elif planned is not None:
        frame = _delete_changed(current, frame, store.key)
    return frame


def _delete_changed(current: Attempt, frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """Deletes from the branch the rows whose key the frame does not have, or has with other values. Returns the frame's
    rows that the branch then lacks."""
    same = _same_key(key)
    # The branch, unlike the planned snapshot, has the columns that this write has added.
    held = frame.sparkSession.table(current.address).select(*map(quoted, frame.columns))
    # If the table is older than its mart's key, it may have rows twice, and rows without a key.
    changed = checkpointed(held.exceptAll(frame).select(*map(quoted, key)))
    if not changed.isEmpty():
        current.delete_matching(changed, same)
    kept = held.alias("t").join(changed.alias("k"), F.expr(same), "left_anti")
    return frame.subtract(kept)


def _same_key(key: Sequence[str]) -> Sql:
    """Whether a key `k` is that of a row `t`."""
    return joined(" AND ", (sql("k.{column} <=> t.{column}", column=quoted(column)) for column in key))


def _require_keys(rows: DataFrame, identifier: str, key: Sequence[str]) -> None:
    """Raises KeyMismatch for computed rows whose key is NULL or not unique."""
    columns = [F.col(quoted(column)) for column in key]
    is_null = reduce(or_, (column.isNull() for column in columns))
    groups = rows.groupBy(*columns).agg(F.count(F.lit(1)).alias("_rows"))
    wrong = groups.filter(is_null | (F.col("_rows") > 1)).orderBy(*columns).limit(KEYS_SHOWN).collect()
    if wrong:
        shown = "; ".join(f"{', '.join(map(str, row[:-1]))} in {many(row['_rows'], 'row')}" for row in wrong)
        raise KeyMismatch(
            f"{identifier}: every row needs its own {', '.join(key)}, without NULL. There is {shown}. "
            "Nothing was written. Correct the computation, or choose another key."
        )


def _require_columns_of_table(identifier: str, table: Table, computed: Computed) -> None:
    """Raises ColumnMismatch for columns that only the table has."""
    fix = f"Declare them, or drop them from {identifier}."
    held = [field.name for field in table.schema().fields]
    _require_columns(f"the table {identifier}", [*held, *computed.types], computed, fix)


def _alter(
    runtime: LakeRuntime, spark: SparkSession, identifier: str, table: Table, computed: Computed
) -> None:
    """Adds the columns that the table does not have yet, as optional ones, and sets comments and the asset's key. A
    column that never had a value, and so no type, gets the type that it has now."""
    held, untyped = {field.name.lower() for field in table.schema().fields}, untyped_columns(table)
    retyped = [c for c in computed.columns if c.name.lower() in untyped and c.type != NO_TYPE]
    new = [c for c in computed.columns if c.name.lower() not in held or c in retyped]
    optional = [c.model_copy(update={"required": False}) for c in new]
    changes = changed_comments(table, computed.comments)
    if retyped:
        changes.append(
            sql("DROP COLUMNS ({columns})", columns=joined(", ", (quoted(c.name) for c in retyped)))
        )
    if new:
        columns = joined(", ", (column_ddl(c, computed.comments.get(c.name)) for c in optional))
        changes.append(sql("ADD COLUMNS ({columns})", columns=columns))
    if computed.own_asset and table.properties.get(ASSET) != computed.own_asset:
        changes.append(set_property(ASSET, computed.own_asset))
    address = table_address(runtime.lake.catalog.name, identifier)
    for change in changes:
        spark.sql(sql("ALTER TABLE {table} {change}", table=address, change=change))


def _require_columns(what: str, found: Iterable[str], computed: Computed, next_step: str) -> None:
    declared, names = {c.name.lower() for c in computed.columns}, {name.lower() for name in found}
    lacks, extra = ", ".join(sorted(declared - names)), ", ".join(sorted(names - declared))
    if lacks or extra:
        differences = " and ".join(
            [f"lacks {lacks}, which its asset declares"] * bool(lacks)
            + [f"has {extra}, which its asset does not declare"] * bool(extra)
        )
        raise ColumnMismatch(f"{what} {differences}. Nothing was written. {next_step}")


def _within(
    frame: DataFrame, identifier: str, partitions: PartitionRows, kinds: Mapping[str, str]
) -> DataFrame:
    """The computed rows. Raises PartitionMismatch for rows outside the run's partitions."""
    observed = Observed()
    # NULL lies in no partition either, but a comparison with NULL yields NULL.
    outside = ~F.coalesce(partitions.in_spark(kinds), F.lit(False))
    shown = (F.coalesce(F.col(quoted(column)).cast("string"), F.lit("NULL")) for column in partitions.columns)
    example = F.min(F.when(outside, F.concat_ws(", ", *shown)))
    figures = [F.count_if(outside).alias("outside"), example.alias("example")]
    rows = checkpointed(observed.on(frame, *figures), [observed])
    try:
        seen = observed.get
    except SparkLost:
        # A busy server has not sent the figures; aggregating the computed rows yields them.
        (row,) = rows.agg(*figures).collect()
        seen = row.asDict()
    if found := seen["outside"]:
        raise PartitionMismatch(
            f"{identifier}: {many(found, 'row', 'lie')} outside the run's partitions {partitions.name}, the first in "
            f"{seen['example']}. Nothing was written. Filter the asset's rows by its partitions, and check that "
            f"{' and '.join(partitions.columns)} says which one they belong to."
        )
    return rows
