"""History: a row for each version of each key, with the time from which and until which it was the source's row.

A version ends where the next one begins, where its key is deleted or moves, or where a full load does not have it. What
happens at one instant (one commit) counts as a whole: the last event decides, and a row that was there for no time at
all leaves no version. A version goes on through whatever does not change its row, a reload included. Times are those of
the commits; where they go back along a key's sequence, the sequence is right and the later time holds.

Here: a timeline as versions, and versions as a timeline. Not here: what a timeline is (`timeline.py`). DataFrame API
only.
"""

from datetime import datetime

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lake_assets.silver.changes.timeline import by_key, effective, known_timeline
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import Sql, literal, sql


def concerned(since: datetime) -> Sql:
    """The condition that a version may be another by what happens from `since` on. All others are left alone."""
    return sql(
        "(_valid_to IS NULL OR _valid_to >= TIMESTAMP {since})",
        since=literal(since.isoformat()),
    )


def known(rows: DataFrame, target: Target, until: datetime | None) -> DataFrame:
    """The versions as a timeline; with `until`, only what they say of the time before it."""
    died = F.col("_valid_to")
    if until is not None:
        rows = rows.filter(F.col("_valid_from") < F.lit(until))
        died = F.when(died < F.lit(until), died)
    return known_timeline(rows, target, F.col("_valid_from"), died)


def versions(timeline: DataFrame, target: Target) -> DataFrame:
    """The versions that a timeline amounts to, in the columns of the source and of the shape."""
    order = by_key(target)
    so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    risen = effective(timeline, target).withColumn("_at", F.max("_at").over(so_far))
    later = risen.withColumn("_next", F.lead("_at").over(order))
    # The last of each instant; what is left may repeat what was before that instant.
    last = later.filter(F.col("_next").isNull() | (F.col("_next") > F.col("_at"))).drop("_next")
    left = effective(last, target).withColumn("_next", F.lead("_at").over(order))
    return left.filter(~F.col("_tombstone")).select(
        "_image.*",
        F.col("_at").alias("_valid_from"),
        F.col("_next").alias("_valid_to"),
        F.col("_next").isNull().alias("_is_current"),
    )
