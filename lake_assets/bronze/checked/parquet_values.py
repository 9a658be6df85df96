"""A Parquet file, read by Arrow: its columns of DMS and its keys, or all of its rows.

Here: reading them. Not here: checking them (`dms_columns.py`).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO, Protocol, cast

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.bronze.checked.dms_columns import FAULTS, CheckedRows, DmsColumns, Unusable, checked
from lake_assets.bronze.files.content import whole
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.files.keys import FileKind
from lake_assets.config import DmsSettings
from lake_assets.local_times import LocalClock
from lake_assets.storage.object_store import ObjectStore

SMALL = 1 << 20
"""Bytes up to which a file is read whole: Arrow takes several times as long to read a Python stream."""
LARGEST_FETCHED = 64 << 20
"""The same for a file in a bucket, because each range of it would be a request."""
_ROWS_AT_ONCE = 1 << 20


class StoredFile(Protocol):
    """Where a file is, and what it is part of."""

    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def kind(self) -> FileKind: ...


def checked_file(
    store: ObjectStore,
    file: StoredFile,
    layout: Layout,
    types: Mapping[str, str],
    dms: DmsSettings,
    clock: LocalClock,
    key: Mapping[str, str] | None = None,
) -> CheckedRows | None:
    """The figures of a Parquet file, and its changes if the caller gives `key`, the types of the key's columns in
    silver. None if an operation, a time or a sequence may be unusable, or if the file cannot be read here. `layout` and
    `types`: the file's columns and their Arrow types."""
    columns = DmsColumns(layout, types, file.kind, dms, clock)
    key_columns = None if key is None else columns.of_key(key)
    try:
        columns.check()
        with (
            opened(store, file) as stream,
            pq.ParquetFile(stream, read_dictionary=columns.repeating) as parquet,
        ):
            names = [*columns.names, *(key_columns or ())]
            pieces = (parquet.read_row_groups(groups, columns=names) for groups in _slices(parquet.metadata))
            return checked(columns, pieces, key)
    except FAULTS:
        return None  # Spark reads the file and reports what is wrong with it.


@contextmanager
def opened(store: ObjectStore, file: StoredFile) -> Iterator[BinaryIO]:
    """The file's content. Raises Unusable for one that is too large to be read from this store here."""
    if file.size <= (SMALL if store.has_free_ranges else LARGEST_FETCHED):
        content = whole(store, file.path, "none", LARGEST_FETCHED)
        yield cast(BinaryIO, pa.BufferReader(content))
    elif store.has_free_ranges:
        with store.open(file.path, seekable=True) as stream:
            yield stream
    else:
        raise Unusable


def _slices(metadata: pq.FileMetaData) -> Iterator[list[int]]:
    """Row groups that are read together: DMS's have 10,024 rows each."""
    groups: list[int] = []
    rows = 0
    for number in range(metadata.num_row_groups):
        groups.append(number)
        rows += metadata.row_group(number).num_rows
        if rows >= _ROWS_AT_ONCE:
            yield groups
            groups, rows = [], 0
    if groups:
        yield groups
