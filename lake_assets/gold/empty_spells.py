"""When racks were empty: spells out of the change log of station_status.

Shared by the marts about empty racks. A spell begins with the commit after which a station has no bike and ends with
the first one after which it has, or is open.
"""

from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def empty_spells(status_changes: DataFrame, now: datetime) -> DataFrame:
    """Spells as `station_id` int, `started_at` and `ended_at` timestamps (UTC instants), `open` boolean.

    `status_changes` is the change log of station_status up to any point; an open spell is given the end `now`. A
    deleted station is not empty. Full-load rows have the empty sequence and so come first, as they must: they are
    the state before every change, although their transfer time can be later than the first commits.
    """
    in_order = Window.partitionBy("station_id").orderBy("_sequence", "_commit_ts")
    empty = (F.col("_op") != "D") & (F.col("bikes_available") == 0)
    states = status_changes.select(
        "station_id",
        F.col("_commit_ts").alias("since"),
        empty.alias("empty"),
        F.lag(empty, 1, False).over(in_order).alias("was_empty"),
        F.row_number().over(in_order).alias("position"),
    ).filter(F.col("empty") != F.col("was_empty"))
    turns = Window.partitionBy("station_id").orderBy("position")
    spells = states.select("*", F.lead("since").over(turns).alias("until")).filter("empty")
    end = F.coalesce("until", F.lit(now))
    return spells.select(
        "station_id",
        F.col("since").alias("started_at"),
        # A transfer time later than the first commit must not make a spell of negative length.
        F.greatest(end, "since").alias("ended_at"),
        F.col("until").isNull().alias("open"),
    )


def empty_limit_minutes(settings: Any) -> int:
    """How long a rack may stay empty, minutes; `gold.settings.empty_rack_limit_minutes`."""
    return int(settings.get("empty_rack_limit_minutes", 30))
