"""The keys of an edit, for Spark: few with its plan, many in a table that is dropped when the batch ends.

Here: both, the keys as literals or as bits of a range, and their range. Not here: which keys (`edit.py`).
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StructField, StructType

from lake_assets.bronze.decode.dms_columns import KEY
from lake_assets.bronze.files.parquet_columns import ParquetColumn
from lake_assets.bronze.reader.parquet_types import read_schema
from lake_assets.bronze.reader.staging import StagedTable, Staging
from lake_assets.silver.changes.keyed_events import Marks
from lake_assets.silver.changes.row_marks import as_longs
from lake_assets.silver.reduce.key_states import broadcast_if_few
from lake_assets.silver.table.change_events import key_columns
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import Sql, joined, literal, sql

MOST_HELD = 4_000_000
"""Keys that this process holds."""
_KEYS_IN_A_LIST = 1 << 16
MOST_IN_PLAN, BYTES_IN_PLAN = 1_000, 1 << 20
"""Limits of the keys that become literals of a plan: 5,000 took Spark a third longer than a join."""
MOST_MARKS = 1 << 24
"""So many bits are allowed, however few the keys: 2 MiB cost almost nothing."""
_UPDATED = "_updated"


class EditKeys:
    """Each key of an edit once, in columns that are named as those of events."""

    def __init__(self, spark: SparkSession, staging: Staging, target: Target) -> None:
        self._spark, self._staging, self._target = spark, staging, target
        self._held: list[pa.Table] = []
        self._staged: list[StagedTable] = []
        """One for each time that the held keys became too many."""
        self._ends: list[int] = []
        self.number = 0
        self.updated = 0
        """Keys that have a row, and whose first change is an update that does not change the key."""

    def add(self, keys: pa.Table, updated: Marks) -> None:
        """Adds keys that are not there yet. `updated`: which of them count for `updated`."""
        self.number += keys.num_rows
        self.updated += int(np.count_nonzero(updated))
        if keys.num_rows and self._target.has_number_key:
            ends = pc.min_max(keys[KEY.format(place=0)])
            self._ends += [ends["min"].as_py(), ends["max"].as_py()]
        self._held.append(keys.append_column(_UPDATED, pa.array(updated)))
        if sum(held.num_rows for held in self._held) > MOST_HELD:
            self._stage()

    def end(self) -> None:
        """After the last keys."""
        if self._staged and self._held:
            self._stage()

    def _stage(self) -> None:
        rows = self._table()
        table = self._staging.table(rows.schema)
        with table.file() as out:
            out.add(rows)
        table.publish()
        self._staged.append(table)
        self._held = []

    def _table(self) -> pa.Table:
        first, *others = self._held
        return pa.concat_tables([first, *(each.cast(first.schema) for each in others)]).combine_chunks()

    @property
    def range(self) -> tuple[int, int] | None:
        """The lowest and the highest value of the key's first column; None without keys, or if these are no whole
        numbers."""
        return (min(self._ends), max(self._ends)) if self._ends else None

    @property
    def table(self) -> pa.Table | None:
        """The keys, if this process holds them."""
        return None if self._staged else self._table().drop_columns(_UPDATED)

    @property
    def frame(self) -> DataFrame:
        """The keys, marked for a broadcast join unless they are too many."""
        return broadcast_if_few(self._frame().select(*key_columns(self._target.key)), self.number)

    @property
    def updated_frame(self) -> DataFrame:
        """The same, of `updated`."""
        those = self._frame().filter(_UPDATED).select(*key_columns(self._target.key))
        return broadcast_if_few(those, self.updated)

    def _frame(self) -> DataFrame:
        if not self._staged:
            return keys_frame(self._spark, self._table())
        first, *others = (self._spark.table(table.name) for table in self._staged)
        for other in others:
            first = first.unionByName(other)
        return first

    @property
    def literals(self) -> Sql | None:
        """The keys as a list of literals, if they are few numbers or short texts of one column: looking a row up in a
        set of the plan is faster than a join. A text, because a `Column` of each key takes a call of the JVM, and each
        call waits for the other threads that run Python."""
        table = self.table
        if table is None or table.num_columns > 1 or table.num_rows > MOST_IN_PLAN:
            return None
        keys = table[0]
        is_number = pa.types.is_integer(keys.type)
        if keys.nbytes > BYTES_IN_PLAN or not (is_number or pa.types.is_string(keys.type)):
            return None
        values = keys.to_pylist()
        return joined(
            ", ", (sql("{value}L", value=value) for value in values) if is_number else map(literal, values)
        )

    def bits(self, lowest: int, highest: int) -> pa.Table | None:
        """A row with `_marks`, a list of longs: a bit for each number from `lowest` to `highest`, set for the keys,
        which lie between the two. None if the key is not one whole number, or if the bits would take more memory than
        the keys."""
        table = self.table
        if table is None or table.num_columns > 1 or not pa.types.is_integer(table[0].type):
            return None
        if highest - lowest >= max(MOST_MARKS, 64 * table.num_rows):
            return None
        marks = np.zeros(highest - lowest + 1, bool)
        marks[np.asarray(table[0], np.int64) - lowest] = True
        return pa.table({"_marks": pa.array([as_longs(marks)], pa.list_(pa.int64()))})


def keys_frame(spark: SparkSession, keys: pa.Table) -> DataFrame:
    """The keys as rows of a plan."""
    # As lists, because Spark's optimizer goes through the rows of a local table one by one.
    ends = [*range(0, keys.num_rows, _KEYS_IN_A_LIST), keys.num_rows]
    every = keys.combine_chunks().to_struct_array().combine_chunks()
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), every)
    # With a schema: without one, a time of no zone would become an instant.
    types = read_schema([ParquetColumn(field.name, str(field.type)) for field in keys.schema])
    schema = StructType([StructField("_keys", ArrayType(types))])
    return spark.createDataFrame(pa.table({"_keys": lists}), schema).select(F.inline("_keys"))
