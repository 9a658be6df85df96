"""The rows of a batch that this process holds, as DataFrames.

Here: those of some marks. Not here: reading the rows (`hold_batch.py`), giving them to Spark
(`bronze/reader/arrow_frame.py`), finding the last changes (`last_changes.py`), writing
(`silver/write/current/foreseen.py`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.checked.staging import Staging
from lake_assets.bronze.reader.arrow_frame import arrow_frame
from lake_assets.silver.table.change_events import key_columns

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
        return arrow_frame(self.spark, rows, self.staging)
