"""When racks were empty: spells out of the change log of station_status.

Shared by the marts about empty racks. A spell begins with the commit after which a station has no bike and ends with
the first one after which it has, or is open. What a row of the log says holds from its own time on and never before
it, so that a mart follows the log's days onwards.
"""

from datetime import datetime

from pydantic import BaseModel, Field
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def empty_spells(status_changes: DataFrame, now: datetime) -> DataFrame:
    """Spells as `station_id` int, `started_at` and `ended_at` timestamps (UTC instants), `open` boolean.

    `status_changes` is the change log of station_status up to any point; an open spell is given the end `now`. A
    deleted station is not empty.
    """
    # Without a sequence column nothing orders the changes of one commit: the most bikes come last, so that at least
    # every computation says the same.
    in_time = Window.partitionBy("station_id").orderBy("_commit_ts", "_sequence", "bikes_available")
    states = _observed(status_changes).select(
        "station_id",
        F.col("_commit_ts").alias("since"),
        ((F.col("_op") != "D") & (F.col("bikes_available") == 0)).alias("empty"),
        F.lead("_commit_ts").over(in_time).alias("next"),
    )
    # Inside a transaction a station may pass through any state: only the commit's last one was ever there.
    states = states.filter(F.col("next").isNull() | (F.col("next") != F.col("since")))
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


def _observed(status_changes: DataFrame) -> DataFrame:
    """Without the full-load rows that are older than their time.

    DMS stamps a row with the time of its transfer, and reads it earlier: changes that it cached meanwhile may be in
    the row or not, and follow it in the CDC files although they were committed before. So a row of the first full
    load tells the state only of a station that has not changed yet, and one of a reload (which tells what was missed
    while nothing replicated) only when nothing has changed since that reload began.
    """
    loaded = F.col("_sequence") == ""
    by_time = Window.partitionBy("station_id").orderBy("_commit_ts", "_sequence")
    before = by_time.rowsBetween(Window.unboundedPreceding, -1)
    rows = status_changes.select(
        "*",
        F.last(F.when(~loaded, F.col("_commit_ts")), ignorenulls=True).over(before).alias("_changed"),
        F.when(loaded, F.count_if(loaded).over(by_time)).alias("_load"),
    )
    # A station's n-th full-load row belongs to the n-th full load; one that was founded later joins by its time.
    starts = rows.filter(loaded).groupBy("_load").agg(F.min("_commit_ts").alias("start"))
    rows = rows.crossJoin(F.broadcast(starts.agg(F.collect_set("start").alias("_starts"))))
    began = F.array_max(F.filter("_starts", lambda start: start <= F.col("_commit_ts")))
    reloaded = (began > F.array_min("_starts")) & (F.col("_changed") < began)
    return rows.filter(~loaded | F.col("_changed").isNull() | reloaded)


class RackSettings(BaseModel):
    """What marts about empty racks take of `gold.settings`."""

    empty_rack_limit_minutes: int = Field(default=30, gt=0)
    """How long a rack may stay empty."""
    empty_rack_close_share: float = Field(default=0.7, ge=0, le=1)
    """Share of the limit from which on a rack is `close`."""
