"""The events of each key in their order, for the shapes that keep former rows.

Current rows need a key's last event only. A history and a soft delete need all events, and the rows that the table
already has: these become events, too, which precede the others. Here: that order, also within key moves, the instant of
each event, and which events change anything. Not here: the rows of a shape (`scd2_versions.py`, `soft_delete.py`),
which changes are read (`silver/reduce/past/history_and_soft_delete.py`). DataFrame API only.

Columns of a timeline: `_key_0`, `_key_1`… (the key's values), `_kind` string, `_tombstone` boolean, `_order` struct
(unique within a key but for repetitions), `_at` timestamp (the instant from which the event holds), `_image` struct
(meaningless for a tombstone), `_unsupplied` array of the columns that the image lacks, until `partial_images.py` has
made the images whole.
"""

from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from lake_assets.silver.reduce.events import committed_at, events, has_own_sequence
from lake_assets.silver.table.change_events import (
    COMMIT_DIGITS,
    DELETED,
    INSERTED,
    KNOWN,
    MOVED_HERE,
    VANISHED,
    key_columns,
)
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import quoted
from lake_assets.spark.types import spark_type

MOST_SWAPS = 2
UNORDERED = (
    "a key was given up and reused within a transaction, in three transactions of one batch, and the order of these "
    "changes cannot be determined. Lower automation.max_files_per_batch, so that the transactions are in different "
    "batches; if one file has them all, use mode: current, which follows such rows one by one"
)
BEFORE_ALL = datetime(1, 1, 1, tzinfo=UTC)
"""The beginning of an epoch whose beginning is unknown: nothing precedes it."""


def change_timeline(
    changes: DataFrame, target: Target, phase: int, begins: datetime, loaded: datetime | None = None
) -> DataFrame:
    """The changes as a timeline. No event holds before `begins`, the beginning of the epoch; a full load's rows hold
    from `loaded` on, by default from `begins`."""
    found = events(changes, target.key, before_images=target.before_images, carry=("_commit_ts",))
    of_load = F.col("_order._sequence") == ""
    at = F.when(of_load, F.lit(loaded or begins)).otherwise(F.greatest(committed_at(), F.lit(begins)))
    order = _order(phase, own=F.col("_order"))
    own = ("_kind", "_tombstone", order, at.alias("_at"), "_image", "_unsupplied")
    return found.select(*key_columns(target.key), *own)


def known_timeline(rows: DataFrame, target: Target, born: Column, died: Column) -> DataFrame:
    """Rows of the table as a timeline: each is an image at `born`, and a tombstone at `died` unless that is NULL."""
    # In the types of the changes, so that the two can be in one frame.
    image = F.struct(*(_column(c.name).cast(spark_type(c.type)).alias(c.name) for c in target.image_columns))
    keys = (_column(name).alias(held) for held, name in zip(key_columns(target.key), target.key, strict=True))
    alive = F.struct(F.lit(False).alias("_tombstone"), born.alias("_at"))
    dead = F.struct(F.lit(True).alias("_tombstone"), died.alias("_at"))
    found = F.when(died.isNull(), F.array(alive)).otherwise(F.array(alive, dead))
    exploded = rows.select(*keys, F.explode(found).alias("_event"), image.alias("_image"))
    exploded = exploded.select(*key_columns(target.key), "_event.*", "_image")
    order = _order(KNOWN, since=F.col("_at"), image=~F.col("_tombstone"))
    kind = F.when(F.col("_tombstone"), F.lit(DELETED)).otherwise(F.lit(INSERTED)).alias("_kind")
    whole = F.array().cast("array<string>").alias("_unsupplied")
    return exploded.select(*key_columns(target.key), kind, "_tombstone", order, "_at", "_image", whole)


def vanishing(earlier: DataFrame, begins: datetime) -> DataFrame:
    """The timeline from before an epoch, with an end of every key at the epoch's beginning."""
    own = ("_kind", "_tombstone", "_order", "_at")
    kept = [name for name in earlier.columns if name not in own]
    kind, order = F.lit(DELETED).alias("_kind"), _order(VANISHED).alias("_order")
    end = F.struct(kind, F.lit(True).alias("_tombstone"), order, F.lit(begins).alias("_at"))
    both = F.array(F.struct(*own), end)
    found = earlier.select(*kept, F.explode(both).alias("_event"))
    return found.select(*kept, "_event.*").select(*earlier.columns)


def _order(
    phase: int, *, since: Column | None = None, image: Column | None = None, own: Column | None = None
) -> Column:
    """The order of an event: rows of the table by their times, an end before a beginning at the same instant; changes
    by `own`, their order of changes."""
    return F.struct(
        F.lit(phase).alias("_phase"),
        (F.lit(None).cast("timestamp") if since is None else since).alias("_since"),
        (F.lit(False) if image is None else image).alias("_begins"),
        (F.lit("") if own is None else own["_sequence"]).alias("_sequence"),
        (F.lit("") if own is None else own["_flushed"]).alias("_flushed"),
        (F.lit("") if own is None else own["_file"]).alias("_file"),
        (F.lit(0).cast("long") if own is None else own["_row"].cast("long")).alias("_row"),
    ).alias("_order")


def departures_first(timeline: DataFrame, target: Target) -> DataFrame:
    """The same events, reordered where a key gets a row and loses one in a transaction (a swap, `id = id + 1`): the key
    loses its former row, so that row's end precedes the other's beginning.

    Three such transactions of one key in a row, whose outcomes depend on each other, raise an error.
    """
    for _ in range(MOST_SWAPS):
        swapped = _swapped(timeline, target)
        earlier = F.substring("_order._sequence", 1, COMMIT_DIGITS)
        first = F.when(
            F.col("_tombstone") & F.col("_swapped"), F.col("_order").withField("_sequence", earlier)
        ).otherwise(F.col("_order"))
        timeline = swapped.withColumn("_order", first).drop("_swapped")
    unclear = F.raise_error(F.lit(UNORDERED)).cast("boolean")
    left = _swapped(timeline, target)
    return left.filter(F.when(F.col("_swapped"), unclear).otherwise(F.lit(True))).drop("_swapped")


def _swapped(timeline: DataFrame, target: Target) -> DataFrame:
    """The events with `_swapped`: whether the event is of a transaction whose last event removes a row from the key,
    although the key has a row after it."""
    sequence, keys = F.col("_order._sequence"), key_columns(target.key)
    commit = F.when(sequence != "", F.substring(sequence, 1, COMMIT_DIGITS))
    grouped = timeline.withColumn("_commit", F.concat(F.col("_order._phase").cast("string"), commit))
    inside = Window.partitionBy(*keys, "_commit")
    whole = inside.orderBy("_order").rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    # A change that was delivered twice is one, if it has a sequence of its own.
    change = F.when(has_own_sequence(sequence), sequence).otherwise(F.to_json("_order"))
    arrives = F.col("_kind").isin(INSERTED, MOVED_HERE)
    there = F.lag(~F.col("_tombstone"), 1, False).over(by_key(target))
    counted = grouped.withColumns(
        {
            "_arrived": F.size(F.collect_set(F.when(arrives, change)).over(inside)),
            "_left": F.size(F.collect_set(F.when(F.col("_tombstone"), change)).over(inside)),
            "_ends": F.last("_tombstone").over(whole),
            "_there": there,
        }
    )
    was_there = F.first("_there").over(whole)
    swapped = F.col("_ends") & was_there & (F.col("_arrived") > 0) & (F.col("_arrived") >= F.col("_left"))
    found = counted.withColumn("_swapped", F.coalesce(F.col("_commit").isNotNull() & swapped, F.lit(False)))
    return found.drop("_commit", "_arrived", "_left", "_ends", "_there")


def effective(timeline: DataFrame, target: Target) -> DataFrame:
    """The timeline without the events that change nothing: the end of a key without a row, and an image equal to the
    row's.

    This also removes a change that was delivered twice, since the two follow each other.
    """
    order = by_key(target)
    same = _identity(target)
    before = F.lag(F.struct(F.col("_tombstone"), same.alias("_same"))).over(order)
    seen = timeline.withColumn("_before", before)
    dead = F.col("_before").isNull() | F.col("_before._tombstone")
    differs = ~same.eqNullSafe(F.col("_before._same"))
    changes_something = F.when(F.col("_tombstone"), ~dead).otherwise(dead | differs)
    return seen.filter(changes_something).drop("_before")


def by_key(target: Target) -> WindowSpec:
    """The events of each key in their order."""
    return Window.partitionBy(*key_columns(target.key)).orderBy("_order")


def _identity(target: Target) -> Column:
    """The values by which two images are compared. Spark treats 0.0 and -0.0 as equal; they are not the same value."""
    values = ((c, F.col("_image")[c.name]) for c in target.image_columns)
    return F.struct(
        *((v.cast("string") if c.type in ("float", "double") else v).alias(c.name) for c, v in values)
    )


def _column(name: str) -> Column:
    return F.col(quoted(name))
