"""The rows of files, read by Arrow and held in this process, as silver will have them.

Spark takes several times as long: it plans an expression for each column, computes a fault for each value, and begins a
job. Here: rows that need no conversion. Not here: any other file, which Spark reads (`bronze/reader/read_changes.py`);
files that are too large to be held (`checked_files.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.bronze.checked.checked_files import AT_ONCE, are_tiny, text_layout
from lake_assets.bronze.checked.csv_columns import decoded, decoded_types
from lake_assets.bronze.checked.dms_columns import (
    FAULTS,
    OPERATION,
    CheckedFile,
    DmsColumns,
    Unusable,
    checked,
)
from lake_assets.bronze.checked.image_types import has_same_values, image_type
from lake_assets.bronze.checked.parquet_values import valid_rows
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.layouts.file_layouts import parquet_layout
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.storage.object_store import ObjectStore

MOST_BYTES = 64 << 20
"""Of all files, as stored."""
MOST_HELD = 256 << 20
"""Bytes of all rows, in memory."""
SMALL = 256 << 10
"""Bytes of a file on average below which one thread is faster than several: most of its time is Python's."""


@dataclass(frozen=True, slots=True)
class HeldFile:
    """A file whose rows can all be used."""

    checked: CheckedFile
    """With its changes."""
    images: pa.Table
    """The table's columns, of the types of `image_type`."""


def held_files(
    store: ObjectStore,
    files: Sequence[LoggedFile],
    *,
    name: str,
    table: TableConfig,
    dms: DmsSettings,
    with_dms_columns: bool = False,
) -> list[HeldFile] | None:
    """The rows of the files; None if Spark has to read one of them. `with_dms_columns`: after their operation, time and
    sequence, as in a change log."""
    if are_tiny(files) or any(image_type(column.type) is None for column in table.columns):
        return None
    sizes: list[int] = []

    def refuse_many_bytes(images: pa.Table) -> None:
        sizes.append(images.nbytes)
        if sum(sizes) > MOST_HELD:
            raise Unusable

    def held(file: LoggedFile) -> HeldFile:
        read = _parquet if file.format == "parquet" else _text
        columns, layout, rows = read(store, file, name, table, dms)
        columns.check()
        found: list[pa.Table] = []

        def with_images() -> Iterator[pa.Table]:
            for piece in rows:
                own = columns.own(piece) if with_dms_columns else {}
                found.append(_images(piece, layout, table, own))
                refuse_many_bytes(found[-1])
                yield piece

        known = checked(columns, with_images(), table.key_types)
        if known.changes is None or known.figures.rows != file.rows:
            raise Unusable
        images = pa.concat_tables(found)
        _refuse_nulls(images, known.changes, table)
        return HeldFile(known, images)

    is_small = sum(file.size for file in files) < SMALL * len(files)
    at_once = 1 if is_small and store.has_free_ranges else AT_ONCE
    try:
        with ThreadPoolExecutor(at_once, thread_name_prefix="hold") as threads:
            return list(threads.map(held, files))
    except FAULTS:
        return None  # Spark reads the files and reports what is wrong with them.


def _text(
    store: ObjectStore, file: LoggedFile, name: str, table: TableConfig, dms: DmsSettings
) -> tuple[DmsColumns, Layout, Iterator[pa.Table]]:
    layout = text_layout(name, file, table, dms)
    if layout is None:
        raise Unusable
    then = table.settings_in(layout.era, dms)
    today = replace(layout, written=layout.columns)
    columns = DmsColumns(today, decoded_types(layout, table, then), file.kind, then)
    return columns, today, decoded(store, file, layout, table, then)


def _parquet(
    store: ObjectStore, file: LoggedFile, name: str, table: TableConfig, dms: DmsSettings
) -> tuple[DmsColumns, Layout, Iterator[pa.Table]]:
    layout, types, then = parquet_layout(name, file, table, dms)
    if not all(has_same_values(types.get(column.name), column.type) for column in table.columns):
        raise Unusable
    columns = DmsColumns(layout, types, file.kind, then)
    own = [layout.in_file[column.name] for column in table.columns]
    return columns, layout, valid_rows(store, file, columns, [*own, *(columns.of_key(table.key_types) or ())])


def _images(rows: pa.Table, layout: Layout, table: TableConfig, own: Mapping[str, pa.Array]) -> pa.Table:
    """`own`: columns to go first."""
    images = {
        column.name: rows[layout.in_file[column.name]].cast(image_type(column.type))
        for column in table.columns
    }
    return pa.table({**own, **images})


def _refuse_nulls(images: pa.Table, changes: pa.Table, table: TableConfig) -> None:
    """Raises Unusable for a row that lacks a value; a delete needs its key only, which `changes` has."""
    required = [column.name for column in table.columns if column.required and images[column.name].null_count]
    if not required:
        return
    if OPERATION not in changes.column_names:
        raise Unusable
    kept = images.filter(pc.not_equal(changes[OPERATION], "D"))
    if any(kept[name].null_count for name in required):
        raise Unusable
