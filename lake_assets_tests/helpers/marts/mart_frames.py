"""Rows of the bike-sharing source as DataFrames, and marts' rows back in Python.

Here: what the tests of marts share. Not here: what marts should compute (`mart_oracle.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lake_assets.demo.source.bike_schema import TABLES
from lake_assets.gold.mart import Mart, MartRequest
from lake_assets.spark.types import spark_type

Row = dict[str, Any]

COLUMNS = {
    name: {column.name: column.type for column in TABLES[name].columns}
    for name in ("stations", "trips", "station_status", "bikes", "maintenance_tickets", "members")
}
COLUMNS["station_status_changes"] = {
    "_op": "string",
    "_commit_ts": "timestamptz",
    "_sequence": "string",
    **COLUMNS["station_status"],
}


def frame(spark: SparkSession, table: str, rows: Iterable[Mapping[str, Any]]) -> DataFrame:
    """The rows in the columns of a silver table; what a row does not say is NULL."""
    schema = ", ".join(f"`{name}` {spark_type(kind)}" for name, kind in COLUMNS[table].items())
    return spark.createDataFrame([tuple(row.get(name) for name in COLUMNS[table]) for row in rows], schema)


def compute(
    spark: SparkSession,
    mart: Mart,
    rows: Mapping[str, Sequence[Row]],
    now: datetime,
    days: tuple[date, date] | None = None,
    hours: tuple[datetime, datetime] | None = None,
    **settings: Any,
) -> list[Row]:
    """The mart's rows over `rows` by table."""
    request = MartRequest(
        inputs={name: frame(spark, rule.table, rows[rule.table]) for name, rule in mart.tables.items()},
        now=now,
        first_day=days[0] if days else hours[0].date() if hours else None,
        last_day=days[1] if days else hours[1].date() if hours else None,
        settings=settings,
        hours=hours,
    )
    return python_rows(mart.compute(request))


def python_rows(found: DataFrame) -> list[Row]:
    """The rows as dictionaries, times in UTC."""
    return [
        {
            # PySpark gives instants as the machine's wall-clock time.
            name: value.astimezone(UTC) if isinstance(value, datetime) else value
            for name, value in row.asDict().items()
        }
        for row in found.collect()
    ]


def in_order(rows: Iterable[Row], *keys: str) -> list[Row]:
    """Sorted by the key columns, so that lists of rows can be compared."""
    return sorted(rows, key=lambda row: tuple(row[key] for key in keys))
