"""The rows of a batch that this process holds, as DataFrames.

Spark gets few rows with its plan, and many as Parquet files beside the table's. Here: both, and which batches are held.
Not here: reading the rows (`bronze/checked/held_rows.py`), finding the last changes (`last_changes.py`), writing
(`silver/write/current/foreseen.py`).
"""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.checked.staging import Staging
from lake_assets.bronze.files.parquet_columns import ParquetColumn
from lake_assets.bronze.reader.parquet_types import READ_OPTIONS, read_schema
from lake_assets.silver.table.change_events import key_columns
from lake_assets.storage.spark_paths import literal_path

IN_PLAN_ROWS, IN_PLAN_BYTES = 50_000, 8 << 20
"""Limit of the rows in a plan: Spark's optimizer goes through them one by one, and Spark Connect sends them in one
message."""
TASKS, ROWS_OF_A_TASK = 4, 50_000
Marks = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class HeldRows:
    """The images of all rows of a batch, in the order of its files. A mark belongs to one row."""

    spark: SparkSession
    images: pa.Table
    """Silver's columns, of the types of `image_types.py`."""
    key: Sequence[str]
    staging: Staging | None

    @property
    def every(self) -> DataFrame:
        """All rows, in silver's columns."""
        return self._in_silver(self.images)

    def rows(self, marks: Marks) -> DataFrame:
        """The rows that have a mark, in silver's columns."""
        return self._in_silver(self.images.filter(pa.array(marks)))

    def _in_silver(self, rows: pa.Table) -> DataFrame:
        # Not by a Column of each name: every Column takes several calls of the JVM.
        return self._frame(rows).toDF(*rows.column_names)

    def states(self, marks: Marks, columns: Collection[str]) -> DataFrame:
        """The rows that have a mark as states of their keys, with these columns of their images."""
        needed = [name for name in self.images.column_names if name in {*self.key, *columns}]
        rows = self.images.select(needed).filter(pa.array(marks))
        fields = {name: F.col(f"_{place}") for place, name in enumerate(needed)}
        return self._frame(rows).select(
            *(fields[name].alias(held) for name, held in zip(self.key, key_columns(self.key), strict=True)),
            F.lit(False).alias("_tombstone"),
            F.struct(*(field.alias(name) for name, field in fields.items())).alias("_image"),
        )

    def _frame(self, rows: pa.Table) -> DataFrame:
        """The rows with the columns `_0`, `_1`…: a source column may have any name."""
        rows = rows.rename_columns([f"_{place}" for place in range(rows.num_columns)])
        schema = read_schema([ParquetColumn(field.name, str(field.type)) for field in rows.schema])
        if self.staging is None or _fits_plan(rows):
            return self.spark.createDataFrame(rows, schema).coalesce(1)
        paths = [literal_path(address) for address in _staged(rows, self.staging)]
        return self.spark.read.schema(schema).options(**READ_OPTIONS).parquet(*paths)


def may_be_held(images: pa.Table, staging: Staging | None) -> bool:
    """Whether so many rows can be given to Spark."""
    return staging is not None or _fits_plan(images)


def _fits_plan(rows: pa.Table) -> bool:
    return bool(rows.num_rows <= IN_PLAN_ROWS and rows.nbytes <= IN_PLAN_BYTES)


def _staged(rows: pa.Table, staging: Staging) -> list[str]:
    """Writes the rows, and returns the addresses of the files."""
    number = max(1, min(TASKS, rows.num_rows // ROWS_OF_A_TASK))
    each = -(-rows.num_rows // number)

    def one(place: int) -> str:
        with staging.file() as out:
            out.add(rows.slice(place * each, each))
        return out.address

    with ThreadPoolExecutor(TASKS, thread_name_prefix="stage") as threads:
        return list(threads.map(one, range(number)))
