"""SCD2: a row for each version of each key, with the times from which and until which it was the source's row.

A version ends when the next one begins, when its key is deleted or moves, or when a full load does not have it. Events
at one instant (of one commit) count as a whole: the last one decides, and a row that existed for no time has no
version. A version continues as long as its row does not change, also through a reload. Times are those of the commits;
if a commit time is earlier than that of a lower sequence of the key, the sequence is right and the later time is used.

Here: a timeline as versions, and versions as a timeline. Not here: what a timeline is (`timeline.py`). DataFrame API
only.
"""

from datetime import datetime

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lake_assets.silver.reduce.past.timeline import by_key, effective, known_timeline
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import Sql, literal, sql


def concerned(since: datetime) -> Sql:
    """The condition for versions that events from `since` on may change. All other versions stay."""
    return sql(
        "(_valid_to IS NULL OR _valid_to >= TIMESTAMP {since})",
        since=literal(since.isoformat()),
    )


def ended_before(moment: datetime) -> Sql:
    """The condition for versions that ended before that time; false for one that lasts."""
    return sql("coalesce(_valid_to < TIMESTAMP {moment}, false)", moment=literal(moment.isoformat()))


def as_timeline(rows: DataFrame, target: Target, until: datetime | None) -> DataFrame:
    """The versions as a timeline; with `until`, only their events before that time."""
    died = F.col("_valid_to")
    if until is not None:
        rows = rows.filter(F.col("_valid_from") < F.lit(until))
        died = F.when(died < F.lit(until), died)
    return known_timeline(rows, target, F.col("_valid_from"), died)


def versions(timeline: DataFrame, target: Target) -> DataFrame:
    """The versions of a timeline, in the columns of the source and of the shape."""
    order = by_key(target)
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    risen = effective(timeline, target).withColumn("_at", F.max("_at").over(so_far))
    later = risen.withColumn("_next", F.lead("_at").over(order))
    # The last event of each instant; it may repeat the image from before that instant.
    last = later.filter(F.col("_next").isNull() | (F.col("_next") > F.col("_at"))).drop("_next")
    left = effective(last, target).withColumn("_next", F.lead("_at").over(order))
    return left.filter(~F.col("_tombstone")).select(
        "_image.*",
        F.col("_at").alias("_valid_from"),
        F.col("_next").alias("_valid_to"),
        F.col("_next").isNull().alias("_is_current"),
    )
