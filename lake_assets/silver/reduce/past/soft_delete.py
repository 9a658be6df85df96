"""Soft delete: a row for each key that ever existed, with its current or last image, and when it was deleted.

A delete has the key only, so the row keeps its last image. A key counts as deleted when its row moves to another key,
or a full load does not have it; a key that returns is no longer deleted.

Here: a timeline as rows, and rows as a timeline. Not here: what a timeline is (`timeline.py`). DataFrame API only.
"""

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.reduce.past.timeline import effective, known_timeline
from lake_assets.silver.table.change_events import key_columns
from lake_assets.silver.table.targets import Target


def as_timeline(
    rows: DataFrame, target: Target, until: datetime | None, *, withdrawn: bool = False
) -> DataFrame:
    """The rows as a timeline; with `until`, only their events before that time.

    A row that existed then may have got another image since, but only by a change of the epoch, which the caller
    applies again. If such a change was `withdrawn`, only the rows that were deleted before that time are known.
    """
    died = F.col("_deleted_at")
    if until is not None:
        died = F.when(died < F.lit(until), died)
    if withdrawn:
        rows = rows.filter(died.isNotNull())
    return known_timeline(rows, target, F.lit(None).cast("timestamp"), died)


def rows(timeline: DataFrame, target: Target) -> DataFrame:
    """The rows of a timeline, in the columns of the source and of the shape. A key that has only tombstones has no
    row."""
    image = F.max_by("_image", F.when(~F.col("_tombstone"), F.col("_order"))).alias("_image")
    last = F.max_by(F.struct("_tombstone", "_at"), F.col("_order")).alias("_last")
    lived = F.count_if(~F.col("_tombstone")).alias("_lived")
    found = effective(timeline, target).groupBy(*key_columns(target.key)).agg(image, last, lived)
    deleted = F.col("_last._tombstone")
    return found.filter(F.col("_lived") > 0).select(
        "_image.*",
        deleted.alias("_is_deleted"),
        F.when(deleted, F.col("_last._at")).alias("_deleted_at"),
    )
