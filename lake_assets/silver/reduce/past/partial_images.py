"""Partial images in a timeline: an update that lacks columns keeps the values that its row had, under whichever key.

Here: making the images of a timeline whole. Not here: following the rows (`silver/reduce/current/row_lineage.py`),
tables of current rows (`silver/reduce/current/key_moves.py`), which columns an update lacks
(`bronze/decode/changes.py`). DataFrame API only.
"""

from collections.abc import Collection
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.silver.reduce.current.key_moves import (
    PLACE,
    followed_keys,
    image_of_changes,
    images_by_place,
    steps_of,
    undetermined,
    with_loaded,
)
from lake_assets.silver.reduce.current.row_lineage import Undecidable, whole_images
from lake_assets.silver.table.change_events import EARLIER, KNOWN, OWN, VANISHED, key_columns
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import checkpointed


def with_whole_images(
    spark: SparkSession,
    target: Target,
    timeline: DataFrame,
    begins: Collection[datetime],
    *,
    overlap_end: datetime | None,
) -> DataFrame:
    """The same events, computed, without those whose row's former values are not known because it was deleted before
    the full load could read it.

    The timeline must be computed, and have all events of the keys from which a row moved by a change that lacks
    columns. `begins`: when the epoch and the former one began. `overlap_end`: as of `key_moves.settled`. Raises
    TableStopped if former values are not known.
    """
    names, lacks = key_columns(target.key), lacks_columns()
    if timeline.filter(lacks).isEmpty():
        return timeline
    keys = followed_keys(target, timeline, timeline.filter(lacks).select(*names).distinct())
    steps = checkpointed(_steps(target, timeline.join(F.broadcast(keys), on=names), begins, overlap_end))
    try:
        made = whole_images(steps_of(target, steps))
    except Undecidable as unclear:
        raise undetermined(target, keys, unclear) from unclear
    parts = [(*place, *source) for place, sources in made.items() for source in sources]
    wanted = [f"_of{name}" for name in PLACE]
    kinds = "{} string, {} string, {} bigint"
    chosen = spark.createDataFrame(parts, f"{kinds.format(*wanted)}, {kinds.format(*PLACE)}")
    rows = images_by_place(steps).join(F.broadcast(chosen), on=list(PLACE))
    whole = rows.groupBy(*wanted).agg(image_of_changes(target).alias("_whole"))
    place = (F.col("_order._sequence"), _file(), F.col("_order._row"))
    same = [one.eqNullSafe(F.col(held)) for one, held in zip(place, wanted, strict=True)]
    both = timeline.join(whole, on=[lacks, *same], how="left").filter(~lacks | F.col(wanted[0]).isNotNull())
    image = F.when(lacks, F.col("_whole")).otherwise(F.col("_image"))
    return checkpointed(both.withColumn("_image", image).drop("_whole", *wanted))


def lacks_columns() -> Column:
    """Whether an event of a timeline is an update that lacks columns."""
    return ~F.col("_tombstone") & (F.size("_unsupplied") > 0)


def _steps(
    target: Target, events: DataFrame, begins: Collection[datetime], overlap_end: datetime | None
) -> DataFrame:
    """The events for `steps_of`. Rows of the table get places of their own."""
    phase: Column = F.col("_order._phase")
    place = F.concat(F.lit("table "), F.monotonically_increasing_id().cast("string"))
    own = F.when(phase == KNOWN, place).otherwise(_file())
    placed = events.withColumn("_order", F.col("_order").withField("_file", own))
    marked = with_loaded(target, placed, F.col("_at"), overlap_end)
    # A former batch may have ended the rows that the full load does not have.
    ended = (phase == KNOWN) & F.col("_tombstone") & F.col("_at").isin(*begins)
    return marked.withColumns(
        {
            # Changes from before the full load began are earlier than it, too.
            **{name: F.col(name) & (phase == OWN) for name in ("_in_load", "_loaded")},
            "_vanishes": (phase == VANISHED) | ended,
        }
    )


def _file() -> Column:
    """The file of an event. A file may have its place twice: before the full load, and with it."""
    file = F.col("_order._file")
    before = F.concat(file, F.lit(" (before the full load)"))
    return F.when(F.col("_order._phase") == EARLIER, before).otherwise(file)
