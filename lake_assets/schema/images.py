"""Rows of an older contract version as rows of the present silver table.

Here: converting images and before images, read by one contract version, to the names and types of the newest. Not here:
reading them (`bronze/reader/read_changes.py`). DataFrame API only.
"""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.config import Column as ColumnConfig
from lake_assets.spark.types import spark_type


def to_current_contract(
    changes: DataFrame,
    had: Sequence[ColumnConfig],
    names: Mapping[str, str],
    wanted: Sequence[ColumnConfig],
    matched_by: Sequence[str],
    defaults: Mapping[str, str | int | float | bool],
) -> DataFrame:
    """`changes` as `changes_by_spark` returns them, with `_image` in the columns `wanted` and `_before` in those of
    `matched_by`.

    `had` are the columns of the contract version that read them, `names` their present names; a column that is not in
    `names` is left out. A column that the version lacks gets its default, else NULL.
    """
    source = {names[column.name]: column.name for column in had if column.name in names}
    image = [_value("_image", source, column, defaults).alias(column.name) for column in wanted]
    frame = changes.withColumn("_image", F.struct(*image))
    if "_before" in changes.columns:
        types = {column.name: column for column in wanted}
        before = [_value("_before", source, types[name], defaults).alias(name) for name in matched_by]
        frame = frame.withColumn("_before", F.struct(*before))
    if "_unsupplied" in changes.columns:
        renamed = (F.when(F.array_contains("_unsupplied", old), F.lit(new)) for new, old in source.items())
        frame = frame.withColumn("_unsupplied", F.array_compact(F.array(*renamed)))
    return frame


def _value(
    struct: str,
    source: Mapping[str, str],
    column: ColumnConfig,
    defaults: Mapping[str, str | int | float | bool],
) -> Column:
    kind = spark_type(column.type)
    if column.name in source:
        return F.col(struct)[source[column.name]].cast(kind)
    return F.lit(defaults.get(column.name)).cast(kind)
