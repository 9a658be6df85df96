"""What the newest commit of a table has added, without Spark and without a scan of the table.

Here: some of its rows, and its rows by partition. It reads the commit's own manifests, and the beginning of one data
file: the cost does not grow with the table. Not here: showing rows (`orchestration/shared/preview.py`).
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

LARGEST_GROUP = 8_000_000
"""Limit of the bytes of a file's first row group. Rows of a larger group are not shown, because a page of each column
is read."""


def newest_rows(table: Table, most: int) -> list[dict[str, Any]]:
    """At most `most` rows that the current snapshot has added, from its smallest file. Empty if it has added none, or
    only in large files. A date or time of a year that Python does not have, such as 10000, is a text."""
    snapshot = table.current_snapshot()
    files = list(_added(table, snapshot)) if snapshot is not None else []
    if not files:
        return []
    smallest = min(files, key=lambda file: file.file_size_in_bytes)
    with table.io.new_input(smallest.file_path).open() as source:
        parquet = pq.ParquetFile(source)
        if (
            not parquet.metadata.num_row_groups
            or parquet.metadata.row_group(0).total_byte_size > LARGEST_GROUP
        ):
            return []
        names = [_name(table, field) for field in parquet.schema_arrow]
        for batch in parquet.iter_batches(batch_size=most, row_groups=[0]):
            columns = [list(map(_value, column)) for column in batch.slice(0, most).columns]
            return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return []


def _value(scalar: pa.Scalar) -> Any:
    """The value in Python; the text of a date or time of a year that Python does not have, also within others."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        pass
    if isinstance(scalar, pa.ListScalar):  # maps, too
        return [_value(each) for each in scalar.values]
    if isinstance(scalar, pa.StructScalar):
        return {name: _value(each) for name, each in scalar.items()}
    return scalar.cast(pa.string()).as_py()


def _name(table: Table, column: pa.Field) -> str:
    """The name of a file's column in the table: in the file, Iceberg writes `a_x2Eb` for `a.b`."""
    number = (column.metadata or {}).get(b"PARQUET:field_id")
    return str((number and table.schema().find_column_name(int(number))) or column.name)


def added_by_partition(table: Table, snapshot_id: int) -> dict[str, int] | None:
    """The rows that a snapshot has added, by the value of the table's one partition field as Iceberg writes it (a day
    is `2026-03-01`). None for a table with no or several partition fields."""
    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None or len(table.spec().fields) != 1:
        return None
    (field,) = table.spec().fields
    kind = table.schema().find_type(field.source_id)
    found: Counter[str] = Counter()
    for file in _added(table, snapshot):
        if file.spec_id == table.spec().spec_id:
            found[field.transform.to_human_string(kind, file.partition[0])] += file.record_count
    return dict(found)


def _added(table: Table, snapshot: Snapshot) -> Iterator[DataFile]:
    """The data files that the snapshot has added."""
    for manifest in snapshot.manifests(table.io):
        if manifest.content is ManifestContent.DATA and manifest.added_snapshot_id == snapshot.snapshot_id:
            for entry in manifest.fetch_manifest_entry(table.io):
                if entry.status is ManifestEntryStatus.ADDED:
                    yield entry.data_file
