"""The days and hours that a batch touched, for marts whose partitions do not follow the silver table's.

If a trip's end is corrected to another day, the mart's days of the old and of the new end change. Both are cheap to
find only while the batch is applied. Here: finding them. Not here: what marts make of them (`gold/changed_periods.py`).
Days and hours are UTC.
"""

from collections.abc import Iterable
from datetime import timedelta
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.iceberg.table_io import since_1970
from lake_assets.silver.table.position import ALL, TOUCHED_DAYS, TOUCHED_HOURS, touched_property
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import Sql, quoted, sql

MOST = 400
"""A batch that touches more days or hours of a column records `all`: a summary should not contain long lists."""
MICROS = {TOUCHED_DAYS: 86_400_000_000, TOUCHED_HOURS: 3_600_000_000}

Images = tuple[DataFrame, tuple[str, ...]]
"""Rows, and where they have the table's columns: in a struct, under an alias, or as they are."""


def all_touched(target: Target) -> dict[str, str]:
    """The properties of a commit that replaced the table."""
    return {touched_property(kind, column): ALL for kind, column in _tracked(target)}


def touched_by_keys(
    table: Sql, snapshot_id: int | None, target: Target, states: DataFrame, keys: DataFrame | None = None
) -> dict[str, str]:
    """The properties that name what the old images at `snapshot_id` and the new ones touch. `states`: those of the
    batch's keys; with `keys`, of those that have a row in the end."""
    if not _tracked(target):
        return {}
    images: list[Images] = [(states.filter("NOT _tombstone"), ("_image",))]
    if snapshot_id is not None:
        statement = sql("SELECT * FROM {table} VERSION AS OF {snapshot}", table=table, snapshot=snapshot_id)
        before, same_key = states.sparkSession.sql(statement).alias("t"), F.expr(target.key_matches("k", "t"))
        images.append(
            (before.join((states if keys is None else keys).alias("k"), same_key, "left_semi"), ("t",))
        )
    return _touched(target, images)


def touched_by_rows(target: Target, rows: DataFrame) -> dict[str, str]:
    """The properties that name what appended rows touch."""
    return _touched(target, [(rows, ())]) if _tracked(target) else {}


def _tracked(target: Target) -> list[tuple[str, str]]:
    of_days = [(TOUCHED_DAYS, column) for column in target.tracked.days]
    return of_days + [(TOUCHED_HOURS, column) for column in target.tracked.hours]


def _touched(target: Target, images: Iterable[Images]) -> dict[str, str]:
    tracked = _tracked(target)
    numbers = [
        rows.select(F.lit(place).alias("place"), _number(target, where, *each).alias("number"))
        for place, each in enumerate(tracked)
        for rows, where in images
    ]
    distinct = reduce(DataFrame.union, numbers).filter("number IS NOT NULL").distinct()
    found: dict[int, list[int]] = {place: [] for place in range(len(tracked))}
    for row in distinct.limit((MOST + 1) * len(tracked)).collect():
        found[row["place"]].append(row["number"])
    return {
        touched_property(kind, column): _text(kind, found[place])
        for place, (kind, column) in enumerate(tracked)
    }


def _number(target: Target, where: tuple[str, ...], kind: str, column: str) -> Column:
    """The number of the day or hour since 1970."""
    value = quoted(*where, column)
    if any(each.name == column and each.type == "timestamptz" for each in target.columns):
        # Not to_date and hour: those of an instant are in the session's zone.
        number = sql(
            "floor(unix_micros({value}) / CAST({length} AS DECIMAL(20, 0)))", value=value, length=MICROS[kind]
        )
        return F.expr(number).cast("bigint")
    day = F.unix_date(F.to_date(value)).cast("bigint")
    return day if kind == TOUCHED_DAYS else day * 24 + F.hour(value)


def _text(kind: str, numbers: list[int]) -> str:
    if len(numbers) > MOST:
        return ALL
    times = [
        since_1970(number * timedelta(microseconds=MICROS[kind])).replace(tzinfo=None)
        for number in sorted(numbers)
    ]
    if kind == TOUCHED_DAYS:
        return ",".join(time.date().isoformat() for time in times)
    return ",".join(time.isoformat(timespec="hours") for time in times)
