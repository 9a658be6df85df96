"""The rows of small tables that only PyIceberg writes, read without `pyiceberg.io.pyarrow` (see `local_io.py`).

Here: reading data files by the names of their columns, which such a table never renames, and values in Python. Not
here: a filter's exact result, and other tables: they are read by PyIceberg's `to_arrow`.
"""

from collections.abc import Sequence
from datetime import UTC
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import DataScan, FileScanTask
from pyiceberg.utils.concurrent import ExecutorFactory


def rows(scan: DataScan, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of all files that may have rows of the scan; without columns if there are none. `columns`: those to
    read, all by default."""
    tasks = list(scan.plan_files())
    if any(task.delete_files for task in tasks):
        return scan.to_arrow()

    def read(task: FileScanTask) -> pa.Table:
        with (
            scan.io.new_input(task.file.file_path).open() as file,
            pq.ParquetFile(file, pre_buffer=True) as data,
        ):
            return data.read(columns)

    # A log that gained a column later has older files without it.
    return (
        pa.concat_tables(ExecutorFactory.get_or_create().map(read, tasks), promote_options="permissive")
        if tasks
        else pa.table({})
    )


def values(column: pa.ChunkedArray) -> list[Any]:
    """A column's values; times in UTC. For times with a zone, Arrow imports pandas, and takes ten times as long to make
    them."""
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    plain = pa.timestamp(column.type.unit)
    naive = (value for chunk in column.chunks for value in chunk.view(plain).to_pylist())
    return [None if value is None else value.replace(tzinfo=UTC) for value in naive]
