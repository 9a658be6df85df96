"""A batch of a table without a key, whose rows are found by all of their columns.

Such a table may have the same row twice, so that its state is the count of each row. An insert adds one, a delete
removes one, an update removes the former row and adds the new one. A row that the table does not have cannot be removed
and is counted as unmatched: DMS has not written the whole row, or changes were made while the full load ran.

Here: those counts, and what changes in the table. Not here: writing it (`silver/write/`), which changes are repetitions
(`append_only_tables.py`). DataFrame API only.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.reader import BatchReader
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.reduce.append_only_tables import each_once
from lake_assets.silver.reduce.current.late_batch import members_again
from lake_assets.silver.reduce.edit import Edit, EveryRow, Matching, Recounted, Rows
from lake_assets.silver.reduce.events import order_of_change
from lake_assets.silver.reduce.key_states import table_image
from lake_assets.silver.reduce.touched_periods import all_touched
from lake_assets.silver.table.change_events import UPDATED
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import Observed, checkpointed
from lake_assets.spark.sql import Sql, joined, quoted, sql


def changed_rows(reader: BatchReader, reading: Reading) -> Edit:
    """Replaces all rows whose count changes by as many as the new count."""
    context = reader.context
    reader.check(reading)
    with context.watch.stage("read"):
        batch = reading.checkpointed(each_once(reading.good))
    events = _events(batch)
    if reader.recomputes_keys:
        context.stage("replay")
        with context.watch.stage("replay"):
            events = _all_events(reader, reading, events)
    counts, observed = _counts(events, _present(context), since_then=not reader.recomputes_keys)
    counts = checkpointed(counts, [observed])
    changed = counts.filter("_before != _after")
    return Edit(
        removed=Matching(changed, _matches(context.target)),
        added=Rows(_copies(changed)),
        keys=observed.get["keys"],
        rows=observed.get["rows"],
        counted=lambda: _recounted(observed),
        touched=all_touched(context.target),
    )


def whole_table_of_rows(reader: BatchReader, reading: Reading) -> Edit:
    """A full load and the CDC that belongs to it: the whole table, in one pass."""
    seen = reader.check(reading)
    counts, observed = _counts(_events(each_once(reading.good)), None, since_then=False)
    return Edit(
        removed=EveryRow(),
        added=Rows(_copies(counts)),
        keys=seen.used,
        rows=None,
        counted=lambda: Recounted(observed.get["rows"], unmatched=observed.get["unmatched"]),
        touched=all_touched(reader.context.target),
    )


def _recounted(observed: Observed) -> Recounted:
    figures = observed.get
    return Recounted(figures["rows"], figures["replaced"], figures["rows"], figures["unmatched"])


def _all_events(reader: BatchReader, reading: Reading, own: DataFrame) -> DataFrame:
    """All events of the epoch for the rows of the batch's own events."""
    again = members_again(reader, reading)
    affected = checkpointed(own.select("_value").distinct())
    events = _events(each_once(again.good))
    same = events["_value"].eqNullSafe(affected["_value"])
    return again.checkpointed(events.join(affected, on=same, how="left_semi"))


def _events(changes: DataFrame) -> DataFrame:
    """`_value` struct, `_delta` (1 or -1) and `_order` struct, by which an update removes a row before it adds one."""

    def event(value: str, delta: int) -> Column:
        return F.struct(F.col(value).alias("_value"), F.lit(delta).alias("_delta"))

    found = (
        F.when(F.col("_op") == UPDATED, F.array(event("_before", -1), event("_image", 1)))
        .when(F.col("_op") == "D", F.array(event("_image", -1)))
        .otherwise(F.array(event("_image", 1)))
    )
    each = changes.select(F.explode(found).alias("_event"), order_of_change())
    return each.select("_event._value", "_event._delta", F.struct("_order", "_event._delta").alias("_order"))


def _present(context: BatchContext) -> DataFrame | None:
    """How often the table has each of its rows: `_value`, `_present`."""
    if context.position.snapshot_id is None or context.reshape:
        return None
    rows = context.main.select(table_image(context.target).alias("_value"))
    return rows.groupBy("_value").agg(F.count(F.lit(1)).alias("_present"))


def _counts(events: DataFrame, present: DataFrame | None, *, since_then: bool) -> tuple[DataFrame, Observed]:
    """For each row of the events: `_value`, `_before` and `_after`, its count in the table and after the batch;
    `_unmatched`, how often it should have been removed and was not in the table; and the figures of all of them. The
    events are those `since_then`, since the table's state, or all events of the epoch."""
    own = events.groupBy("_value").agg(
        F.array_sort(F.collect_list(F.struct("_order", "_delta"))).alias("_events"),
        F.sum("_delta").alias("_sum"),
    )
    if present is None:
        own = own.withColumn("_before", F.lit(0).cast("bigint"))
    else:
        same = own["_value"].eqNullSafe(present["_value"])
        own = own.join(present, on=same, how="left").select(
            own["_value"], "_events", "_sum", F.coalesce("_present", F.lit(0)).cast("bigint").alias("_before")
        )
    start = F.col("_before") if since_then else F.lit(0).cast("bigint")

    def next_count(count: Column, event: Column) -> Column:
        return F.greatest(count + event["_delta"], F.lit(0).cast("bigint"))

    counted = own.withColumn("_after", F.aggregate("_events", start, next_count))
    counts = counted.select(
        "_value", "_before", "_after", (F.col("_after") - start - F.col("_sum")).alias("_unmatched")
    )
    changed, observed = F.col("_before") != F.col("_after"), Observed()
    counts = observed.on(
        counts,
        F.count(F.lit(1)).alias("keys"),
        F.coalesce(F.sum(F.when(changed, F.col("_after"))), F.lit(0)).alias("rows"),
        F.coalesce(F.sum(F.when(changed, F.col("_before"))), F.lit(0)).alias("replaced"),
        F.coalesce(F.sum("_unmatched"), F.lit(0)).alias("unmatched"),
    )
    return counts, observed


def _copies(counts: DataFrame) -> DataFrame:
    """Each row as often as its new count, in the table's columns."""
    present = counts.filter("_after > 0")
    return present.select("_value", F.explode(F.sequence(F.lit(1).cast("bigint"), "_after"))).select(
        "_value.*"
    )


def _matches(target: Target) -> Sql:
    same = (
        sql("{value} <=> {column}", value=quoted("k", "_value", c.name), column=quoted("t", c.name))
        for c in target.image_columns
    )
    return joined(" AND ", same)
