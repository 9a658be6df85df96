"""When racks were empty: spells computed from the change log of station_status.

Shared by the marts about empty racks. A spell begins with the commit after which a station has no bike, and ends with
the first commit after which it has one, or is still open. A row of the log is valid from its own time on and never
before, so that a changed day of the log affects only this day and later ones.
"""

from datetime import datetime

from pydantic import BaseModel, Field
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def empty_spells(status_changes: DataFrame, now: datetime) -> DataFrame:
    """Spells as `station_id` int, `started_at` and `ended_at` timestamps (UTC instants), `open` boolean.

    `status_changes` is the change log of station_status up to any point; an open spell ends at `now`. A deleted station
    is not empty.
    """
    empty = F.col("known") & (F.col("bikes_available") == 0)
    states = rack_states(status_changes).withColumn("empty", empty)
    turns = Window.partitionBy("station_id").orderBy("since")
    states = states.withColumn("was_empty", F.lag("empty", 1, False).over(turns))
    states = states.filter(F.col("empty") != F.col("was_empty"))
    spells = states.select("*", F.lead("since").over(turns).alias("until")).filter("empty")
    return spells.select(
        "station_id",
        F.col("since").alias("started_at"),
        F.coalesce("until", F.greatest(F.lit(now), "since")).alias("ended_at"),
        F.col("until").isNull().alias("open"),
    )


def rack_states(status_changes: DataFrame) -> DataFrame:
    """Each station's states as `station_id`, `since` and `next` (NULL for the last one), `known` (false while it is
    deleted), `bikes_available`, `docks_available`. A commit counts with its last state."""
    # Without a sequence column, the changes of one commit have no order: the one with the most bikes is last, so that
    # every computation gives the same result.
    in_time = Window.partitionBy("station_id").orderBy("_commit_ts", "_sequence", "bikes_available")
    states = _observed(status_changes).select(
        "station_id",
        F.col("_commit_ts").alias("since"),
        (F.col("_op") != "D").alias("known"),
        "bikes_available",
        "docks_available",
        F.lead("_commit_ts").over(in_time).alias("next"),
    )
    # Inside a transaction a station may have any state: only the commit's last one was visible.
    return states.filter(F.col("next").isNull() | (F.col("next") != F.col("since")))


def _observed(status_changes: DataFrame) -> DataFrame:
    """Leaves out full-load rows whose state is older than their timestamp.

    DMS reads a row before the transfer time with which it stamps it. The row may or may not have the changes that DMS
    caches meanwhile, and these follow in the CDC files although they were committed earlier. So a row of the first full
    load is used only for a station that has not changed yet. A row of a reload (which has the changes that were not
    replicated) is used only if the station has not changed since that reload began.
    """
    loaded = F.col("_sequence") == ""
    by_time = Window.partitionBy("station_id").orderBy("_commit_ts", "_sequence")
    before = by_time.rowsBetween(Window.unboundedPreceding, -1)
    rows = status_changes.select(
        "*",
        F.last(F.when(~loaded, F.col("_commit_ts")), ignorenulls=True).over(before).alias("_changed"),
        F.when(loaded, F.count_if(loaded).over(by_time)).alias("_load"),
    )
    # A station's n-th full-load row belongs to the n-th full load; a later station's load follows from its time.
    starts = rows.filter(loaded).groupBy("_load").agg(F.min("_commit_ts").alias("start"))
    rows = rows.crossJoin(F.broadcast(starts.agg(F.collect_set("start").alias("_starts"))))
    began = F.array_max(F.filter("_starts", lambda start: start <= F.col("_commit_ts")))
    reloaded = (began > F.array_min("_starts")) & (F.col("_changed") < began)
    return rows.filter(~loaded | F.col("_changed").isNull() | reloaded)


class RackSettings(BaseModel):
    """The settings of marts about empty racks in `gold.settings`."""

    empty_rack_limit_minutes: int = Field(default=30, gt=0)
    """How long a rack may stay empty."""
    empty_rack_close_share: float = Field(default=0.7, ge=0, le=1)
    """The share of the limit from which on a rack is `close`."""
