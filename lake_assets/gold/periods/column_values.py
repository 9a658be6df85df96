"""The periods of a column's values in one data file, by reading the column.

A file's bounds say where its first and last values lie, and a marker such as 1900-01-01 is one of them. Here: reading
the values of such a file with PyIceberg, once in a process, because files do not change. Not here: which files need it
(`gold/table_snapshots.py`).
"""

from datetime import timedelta

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import DateType, NestedField

from lake_assets.gold.periods.grain import Grain, Periods
from lake_assets.iceberg.table_io import since_1970

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MOST_KEPT = 1000
"""The most files whose periods a process keeps."""

_kept: dict[tuple[str, int, Grain], Periods] = {}


def column_values(table: Table, task: FileScanTask, field: NestedField, grain: Grain) -> Periods:
    """The periods of all values in the task's file; also of deleted rows."""
    key = task.file.file_path, field.field_id, grain
    if key not in _kept:
        if len(_kept) >= MOST_KEPT:
            _kept.clear()
        _kept[key] = _read(table, task, field, grain)
    return _kept[key]


def _read(table: Table, task: FileScanTask, field: NestedField, grain: Grain) -> Periods:
    # Imported here: it takes half a second, and most tables have no file that must be read.
    from pyiceberg.io.pyarrow import ArrowScan

    is_date = isinstance(field.field_type, DateType)
    unit = HOUR if grain is Grain.HOUR and not is_date else DAY
    # A date is stored as days since 1970, a time as microseconds.
    stored, length = (pa.int32(), 1) if is_date else (pa.int64(), unit // timedelta(microseconds=1))
    scan = ArrowScan(table.metadata, table.io, Schema(field), AlwaysTrue())
    found: set[int] = set()
    for batch in scan.to_record_batches([FileScanTask(task.file)]):
        values = batch.column(0).drop_null().view(stored).to_numpy()
        found.update(np.unique(values // length).tolist())
    return frozenset(grain.of(since_1970(number * unit)) for number in found)
