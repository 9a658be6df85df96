"""Whether an existing silver table has the shape of its mode in lake.yaml.

A table keeps the shape with which it was created: rows of two shapes in one table would be wrong for both. Here: the
property with the shape, and the changes of columns around a rebuild in another shape. Not here: the rebuild
(`silver/apply/rebuild.py`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyiceberg.table import Table

from lake_assets.config import SHAPE_COLUMNS, Mode
from lake_assets.errors import Remedy, TableStopped
from lake_assets.iceberg.table_io import added_column, relaxed_column, set_property
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import Sql, sql, table_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHAPE = "lake.shape"
"""Table property: the mode that the table was created with."""


def refuse_other_shape(target: Target, table: Table | None) -> None:
    """Raises TableStopped when the table was created with another mode than the target's."""
    if table is None or not has_other_shape(target, table):
        return
    stopped = TableStopped(
        target.table,
        f"{target.identifier} was made with mode: {_shape(target, table)}, and lake.yaml says {target.mode}.",
        f"Run `lake-assets rebuild {target.argument}` to have it built in the new mode from its files, or set the mode "
        "back.",
    )
    # Of other modes, rows of the past may be in no file any more; a change log cannot change its mode.
    is_safe = _shape(target, table) in (Mode.CURRENT, Mode.FULL_ROW) and target.mode is not Mode.CHANGE_LOG
    raise stopped.mended_by(Remedy.REBUILD if is_safe else None)


def has_other_shape(target: Target, table: Table) -> bool:
    """Whether the table was created with another mode than the target's."""
    return _shape(target, table) not in (None, target.mode)


@contextmanager
def reshaped(spark: "SparkSession", catalog: str, target: Target, table: Table) -> Iterator[None]:
    """Adds the columns of the target's shape, and drops those of the former shape after the block, which publishes the
    rows in the new shape. Until then readers see the old rows, with NULL in the added columns. After a kill, the next
    call makes the remaining changes. Raises TableStopped for a change log, which has other partitions."""
    former = _shape(target, table)
    if Mode.CHANGE_LOG in (target.mode, former):
        raise TableStopped(
            target.table,
            f"{target.identifier} was made with mode: {former}, and a change log cannot change its mode.",
            "Set the mode back and add `also: [change_log]`, or drop the table to have it rebuilt.",
        )
    address = table_address(catalog, target.identifier)

    def alter(change: Sql) -> None:
        spark.sql(sql("ALTER TABLE {table} {change}", table=address, change=change))

    existing = {field.name for field in table.schema().fields}
    for column in SHAPE_COLUMNS.get(target.mode, ()):
        if column.name not in existing:
            alter(added_column(column.name, column.type))
    for columns in (columns for mode, columns in SHAPE_COLUMNS.items() if mode is not target.mode):
        # The former shape's columns may be required, and the new rows do not have them.
        for column in (column for column in columns if column.required and column.name in existing):
            alter(relaxed_column(column.name))
    yield
    alter(set_property(SHAPE, target.mode))
    own = {column.name for column in target.columns}
    for columns in SHAPE_COLUMNS.values():
        for column in (column for column in columns if column.name in existing - own):
            alter(sql("DROP COLUMN {column}", column=column.name))


def _shape(target: Target, table: Table) -> str | None:
    """The mode of the table's shape; None if it is unknown: a table of an earlier version has no property, and without
    a shape's columns it is current or an append log."""
    if (mode_name := table.properties.get(SHAPE)) is not None:
        return mode_name
    names = {field.name for field in table.schema().fields}
    own = {column.name for column in target.image_columns}
    for mode, columns in SHAPE_COLUMNS.items():
        wanted = {column.name for column in columns}
        if wanted <= names and not wanted & own:
            return mode
    plain = target.mode not in SHAPE_COLUMNS
    return None if plain else f"{Mode.CURRENT} or {Mode.APPEND_LOG}"
