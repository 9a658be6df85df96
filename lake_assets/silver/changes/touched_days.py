"""The days that a batch touched, for marts whose days do not follow the silver table's partitions.

If a trip's end is corrected to another day, the mart's days of the old and of the new end change. Only while the batch
is applied are both cheap to find. Here: finding them. Not here: what marts make of them (`gold/changed_days.py`). Days
are UTC.
"""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.table.position import ALL
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import Sql, quoted, sql

MOST_DAYS = 400
"""A batch that touches more days records `all`: a summary should not contain long lists."""


def all_days(target: Target) -> dict[str, str]:
    """The touched days of a commit that replaced the table."""
    return dict.fromkeys(target.track_days, ALL)


def touched_days(table: Sql, snapshot_id: int | None, target: Target, states: DataFrame) -> dict[str, str]:
    """Per tracked column, the days of the old images at `snapshot_id` and of the new ones, joined by commas. `states`:
    those of the batch's keys, by `collapse`."""
    if not target.track_days:
        return {}
    images = [(states.filter("NOT _tombstone"), "_image")]
    if snapshot_id is not None:
        statement = sql("SELECT * FROM {table} VERSION AS OF {snapshot}", table=table, snapshot=snapshot_id)
        before, same_key = states.sparkSession.sql(statement).alias("t"), F.expr(target.key_matches("k", "t"))
        images.append((before.join(states.alias("k"), same_key, "left_semi"), "t"))
    days = [
        rows.select(F.lit(column).alias("c"), _day(target, image, column).alias("d"))
        for column in target.track_days
        for rows, image in images
    ]
    most = (MOST_DAYS + 1) * len(target.track_days)
    rows = reduce(DataFrame.union, days).filter("d IS NOT NULL").distinct().limit(most).collect()
    found = {
        column: sorted(row["d"].isoformat() for row in rows if row["c"] == column)
        for column in target.track_days
    }
    return {column: ALL if len(days) > MOST_DAYS else ",".join(days) for column, days in found.items()}


def _day(target: Target, image: str, column: str) -> Column:
    """The day of a column of an image, which is a struct or a table's alias."""
    value = quoted(image, column)
    if not any(each.name == column and each.type == "timestamptz" for each in target.columns):
        return F.to_date(value)
    # Not to_date: an instant's day would be the one in the session's zone.
    micros = sql("floor(unix_micros({value}) / CAST(86400000000 AS DECIMAL(20, 0)))", value=value)
    return F.date_from_unix_date(F.expr(micros).cast("int"))
