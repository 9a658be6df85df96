"""The rows of a table that differ from the rows that its files give, and the cells that differ.

First both sides are reduced to a row count and a checksum for each bucket of keys; only the rows of buckets that differ
are compared cell by cell. Here: those two steps. Not here: planning, recording (`compare_slices.py`), repairing
(`repair.py`). DataFrame API only.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.reconcile.expected_rows import Within, events_within, held_key, last_events
from lake_assets.silver.reconcile.key_slices import bucket
from lake_assets.silver.reconcile.shown_values import shown_value
from lake_assets.silver.table.change_events import key_columns
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import quoted

MISSING, UNKNOWN, REPEATED, CELLS = "missing", "unknown", "repeated", "cells"
MOST_CELLS = 10
"""Cells of one row that are shown."""


def own_key(target: Target) -> list[Column]:
    """The key of a row of the table, by its columns."""
    return [F.col(quoted(name)) for name in target.key]


def unequal_buckets(
    target: Target, reading: Reading, main: DataFrame, within: Within
) -> tuple[int, list[int]]:
    """How many rows the table has `within`, and the buckets that have to be compared by cells: buckets that differ, and
    buckets with a key whose last change does not determine its row. Reads the files."""
    names = [column.name for column in target.image_columns]
    image, types = F.col("_image"), {field.name: field.dataType for field in main.schema.fields}
    found = events_within(target, reading, within)
    # Spark sorts only the checksum of each row by key, not the row.
    checksum = _checksum(target, [image[name].cast(types[name]) for name in names])
    states = last_events(found.withColumn("_image", checksum), target.key)
    living = ~F.col("_tombstone")
    by_files = states.groupBy(bucket(held_key(target)).alias("_bucket")).agg(
        F.count_if(living).alias("rows"),
        F.bit_xor(F.when(~F.col("_tombstone"), F.col("_image"))).alias("checksum"),
        F.bool_or("_doubtful").alias("doubtful"),
    )
    expected = {row["_bucket"]: row for row in by_files.collect()}
    own = main.filter(within(own_key(target))).select(
        bucket(own_key(target)).alias("_bucket"),
        _checksum(target, [F.col(quoted(name)) for name in names]).alias("_image"),
    )
    held = {
        row["_bucket"]: row
        for row in own.groupBy("_bucket")
        .agg(F.count(F.lit(1)).alias("rows"), F.bit_xor("_image").alias("checksum"))
        .collect()
    }
    unequal = [
        one
        for one in sorted(expected.keys() | held.keys())
        if _figures(expected.get(one)) != _figures(held.get(one))
        or (one in expected and expected[one]["doubtful"])
    ]
    return sum(row["rows"] for row in held.values()), unequal


def _checksum(target: Target, values: Sequence[Column]) -> Column:
    """One number for the values of a row. xxhash64 passes over NULLs, so which values are NULL is hashed, too."""
    pairs = zip(target.image_columns, values, strict=True)
    return F.xxhash64(*values, *(value.isNull() for column, value in pairs if not column.required))


def _figures(row: Any) -> tuple[int, int | None]:
    """A bucket whose keys are all deleted equals a bucket that the table does not have."""
    return (0, None) if row is None or not row["rows"] else (row["rows"], row["checksum"])


def differing_rows(target: Target, states: DataFrame, main: DataFrame, within: Within) -> DataFrame:
    """The keys whose rows differ: `_key_0`…, `_kind`, `_copies` of the row in the table, `_cells` (array of `name`,
    `held` and `given`, as texts), `_tombstone`, `_image`. `states`: by the files, of the keys within."""
    names = key_columns(target.key)
    given = states.filter(~F.col("_tombstone")).select(*names, F.col("_image").alias("_given"))
    columns = [F.col(quoted(column.name)) for column in target.image_columns]
    keyed = (value.alias(name) for name, value in zip(names, own_key(target), strict=True))
    rows = main.filter(within(own_key(target))).select(*keyed, F.struct(*columns).alias("_held"))
    held = rows.groupBy(*names).agg(F.first("_held").alias("_held"), F.count(F.lit(1)).alias("_copies"))
    both = given.join(held, on=names, how="full_outer")
    kind = (
        F.when(F.col("_copies").isNull(), MISSING)
        .when(F.col("_given").isNull(), UNKNOWN)
        .when(F.col("_copies") > 1, REPEATED)
        .when(F.size("_cells") > 0, CELLS)
    )
    found = both.withColumn("_cells", _cells(target)).withColumn("_kind", kind).filter("_kind IS NOT NULL")
    return found.select(
        *names,
        "_kind",
        "_copies",
        "_cells",
        F.col("_given").isNull().alias("_tombstone"),
        F.col("_given").alias("_image"),
    )


def _cells(target: Target) -> Column:
    cells = []
    for column in target.image_columns:
        held, given = F.col("_held")[column.name], F.col("_given")[column.name]
        texts = [_text(column.type, value).alias(name) for value, name in ((held, "held"), (given, "given"))]
        cells.append(F.when(~held.eqNullSafe(given), F.struct(F.lit(column.name).alias("name"), *texts)))
    return F.filter(F.array(*cells), lambda cell: cell.isNotNull())


def _text(type_name: str, value: Column) -> Column:
    return F.base64(value) if type_name.startswith(("binary", "fixed")) else value.cast("string")


def key_text(target: Target, row: Any) -> str:
    """The key of one of the differing rows for users; its key columns are texts."""
    keys = zip(target.key, key_columns(target.key), strict=True)
    return ", ".join(f"{name}={shown_value(target, name, row[held])}" for name, held in keys)


def example(target: Target, row: Any) -> str:
    """A line for users about one of the differing rows, whose key columns are texts."""
    key = key_text(target, row)
    if row["_kind"] == MISSING:
        return f"{key}: the table lacks the row"
    if row["_kind"] == UNKNOWN:
        return f"{key}: the files do not give the row"
    if row["_kind"] == REPEATED:
        return f"{key}: the table has the row {row['_copies']} times"
    cells = [
        f"{cell['name']} is {shown_value(target, cell['name'], cell['held'])}, "
        f"the files give {shown_value(target, cell['name'], cell['given'])}"
        for cell in row["_cells"][:MOST_CELLS]
    ]
    return f"{key}: {'; '.join(cells)}"
