"""The rows that a table's files give for some of its keys: computed again, as a rebuild does, without writing.

Spark finds the last event of each key here, and not the code that applies batches
(`silver/reduce/current/last_changes.py`): a fault of one of the two shows as a difference, and the keys of a table's
whole past need not fit into this process.
Here: the changes of those keys, and their states. Not here: comparing (`differences.py`). DataFrame API only.
"""

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.batch.reader import BatchReader
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.plan.lateness import overlap_end
from lake_assets.silver.reduce.current.key_moves import settled
from lake_assets.silver.reduce.events import events
from lake_assets.silver.table.change_events import COMMIT_DIGITS, INSERTED, MOVED_HERE, key_columns
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import checkpointed

Within = Callable[[Sequence[Column]], Column]
"""Whether a key, by its columns, is one of those that are compared."""


def events_within(target: Target, reading: Reading, within: Within) -> DataFrame:
    """The events of those keys. The changes are filtered before they become events, because events are sorted by
    key."""
    image, changes = F.col("_image"), reading.usable()
    wanted = within([image[name] for name in target.key])
    if target.before_images:
        before = F.col("_before")
        wanted = wanted | within([F.coalesce(before[name], image[name]) for name in target.key])
    found = events(changes.filter(wanted), target.key, before_images=target.before_images)
    return found.filter(within(held_key(target)))


def held_key(target: Target) -> list[Column]:
    """The key of an event or a state, by its columns."""
    return [F.col(name) for name in key_columns(target.key)]


def last_events(found: DataFrame, key: Sequence[str]) -> DataFrame:
    """The last event of each key of the events: `_key_0`…, `_tombstone`, `_image` struct, and `_doubtful` boolean, for
    the same keys as `last_changes`."""
    keys, commit = key_columns(key), F.substring("_order._sequence", 1, COMMIT_DIGITS)
    image = F.struct("_tombstone", "_image", commit.alias("_commit"))
    states = found.groupBy(*keys).agg(
        F.max_by(image, F.col("_order")).alias("_last"),
        F.max(F.when(F.col("_kind").isin(INSERTED, MOVED_HERE), commit)).alias("_arrived"),
        F.bool_or(~F.col("_tombstone") & (F.size("_unsupplied") > 0)).alias("_partial"),
    )
    lost = F.col("_last._tombstone") & (F.col("_arrived") == F.col("_last._commit"))
    doubtful = F.coalesce(lost, F.lit(False)) | F.col("_partial")
    return states.select(*keys, "_last._tombstone", "_last._image", doubtful.alias("_doubtful"))


def states_within(reader: BatchReader, reading: Reading, within: Within) -> DataFrame:
    """The states of those keys, computed: `_key_0`…, `_tombstone`, `_image`. Raises TableStopped as `settled`."""
    context, target = reader.context, reader.context.target
    names = key_columns(target.key)
    states = checkpointed(last_events(events_within(target, reading, within), target.key))
    sure, doubtful = (states.filter(which).drop("_doubtful") for which in ("NOT _doubtful", "_doubtful"))
    if doubtful.isEmpty():
        return sure
    # Also follows rows from and to keys that are not compared.
    end, keys = overlap_end(context.members, context.position), doubtful.select(*names)
    found = settled(context.spark, target, reading.usable(), keys, None, overlap_end=end)
    found = checkpointed(found.filter(within(held_key(target))))
    return sure.join(found.select(*names), on=names, how="left_anti").unionByName(found)
