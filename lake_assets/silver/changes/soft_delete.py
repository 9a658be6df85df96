"""Soft delete: a row for each key that ever lived, as it is or as it last was, and when it was deleted.

A delete carries the key only, so that the row keeps its last image. A key whose row moved to another one is deleted, as
is one that a full load does not have; one that comes back is alive again.

Here: a timeline as rows, and rows as a timeline. Not here: what a timeline is (`timeline.py`). DataFrame API only.
"""

from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.changes.timeline import effective, known_timeline
from lake_assets.silver.table.change_events import key_columns
from lake_assets.silver.table.targets import Target


def known(rows: DataFrame, target: Target, until: datetime | None, *, withdrawn: bool = False) -> DataFrame:
    """The rows as a timeline; with `until`, what was before it.

    A row that was alive then may have been given another image since. That image is another only because of a change
    that the epoch has as well, so that it is replaced by the right one; unless such a change was `withdrawn`: then
    only the rows that were deleted by then are known.
    """
    died = F.col("_deleted_at")
    if until is not None:
        died = F.when(died < F.lit(until), died)
    if withdrawn:
        rows = rows.filter(died.isNotNull())
    return known_timeline(rows, target, F.lit(None).cast("timestamp"), died)


def rows(timeline: DataFrame, target: Target) -> DataFrame:
    """The rows that a timeline amounts to, in the columns of the source and of the shape. A key of which nothing but
    its end is known has none."""
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
