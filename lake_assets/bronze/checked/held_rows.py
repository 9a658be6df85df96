"""The rows of files, read by Arrow and held in this process, as silver will have them.

Spark takes several times as long: it plans an expression for each column, computes a fault for each value, and begins a
job. Here: files whose rows can all be used. Not here: any other file, which Spark reads
(`bronze/reader/read_changes.py`); files that are too large to be held (`checked_files.py`).
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.bronze.checked.checked_files import AT_ONCE, text_layout
from lake_assets.bronze.checked.csv_columns import (
    all_values,
    csv_texts,
    decoded_types,
    has_one_type,
    typed,
)
from lake_assets.bronze.checked.dms_columns import (
    FAULTS,
    OPERATION,
    CheckedFiles,
    DmsColumns,
    Unusable,
    checked,
)
from lake_assets.bronze.checked.image_types import has_same_values, image_type
from lake_assets.bronze.checked.parquet_values import valid_rows
from lake_assets.bronze.checked.staged_csv import shares
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.layouts.file_layouts import parquet_layout
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.storage.object_store import ObjectStore

MOST_BYTES = 64 << 20
"""Limit of the bytes of all files together, as stored."""
MOST_HELD = 256 << 20
"""Limit of the bytes of all rows, in memory."""
TIMES_OF_DAY = ("time32[ms]", "time64[us]", "time64[ns]")
_DAY = 86_400_000_000
"""Microseconds."""
_BYTES_AT_ONCE = 8 << 20
"""Bytes of rows that are checked together, from however many files: for a small file, Arrow's calls take longer than
its rows."""


@dataclass(frozen=True, slots=True)
class HeldFiles:
    """Files whose rows can all be used."""

    checked: CheckedFiles
    """With their changes."""
    images: pa.Table
    """The table's columns, of the types of `image_type`."""


@dataclass(frozen=True, slots=True)
class _LayoutReader:
    """How files of one kind and layout are read."""

    columns: DmsColumns
    layout: Layout
    rows: Callable[[LoggedFile], Iterator[pa.Table]]
    """The rows of a file, in pieces."""
    typed: Callable[[pa.Table], pa.Table]
    """The values of such rows, of one file or of several."""


def held_files(
    store: ObjectStore,
    files: Sequence[LoggedFile],
    *,
    name: str,
    table: TableConfig,
    dms: DmsSettings,
    with_dms_columns: bool = False,
) -> list[HeldFiles] | None:
    """The rows of the files; None if Spark has to read one of them. `with_dms_columns`: puts their operation, time and
    sequence first, as in a change log."""
    sizes: list[int] = []

    def refuse_many_bytes(images: pa.Table) -> None:
        sizes.append(images.nbytes)
        if sum(sizes) > MOST_HELD:
            raise Unusable

    def held(reader: _LayoutReader, members: Sequence[LoggedFile]) -> HeldFiles:
        found: list[pa.Table] = []

        def with_images() -> Iterator[pa.Table]:
            for rows in _gathered(_whole(file, reader.rows(file)) for file in members):
                piece = reader.typed(rows)
                own = reader.columns.own(piece) if with_dms_columns else {}
                found.append(_images(piece, reader.layout, table, own))
                refuse_many_bytes(found[-1])
                yield piece

        known = checked(reader.columns, with_images(), table.key_types)
        if known.changes is None:
            raise Unusable
        images = pa.concat_tables(found)
        _refuse_nulls(images, known.changes, table)
        return HeldFiles(CheckedFiles({file.offset: file.rows or 0 for file in members}, known), images)

    try:
        todo = [
            (reader, share)
            for reader, members in _by_layout(store, files, name, table, dms)
            for share in shares(members, AT_ONCE)
        ]
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="hold") as threads:
            # After a fault, `map` begins no further share.
            return list(threads.map(lambda one: held(*one), todo))
    except FAULTS:
        return None  # Spark reads the files and reports what is wrong with them.


def _by_layout(
    store: ObjectStore, files: Sequence[LoggedFile], name: str, table: TableConfig, dms: DmsSettings
) -> list[tuple[_LayoutReader, list[LoggedFile]]]:
    """The files by kind and layout. Raises Unusable, and TableStopped."""

    def layout_of(file: LoggedFile) -> Hashable:
        if file.format == "parquet":
            return file.kind, file.columns, table.era(file.written_at)
        return file.kind, text_layout(name, file, table, dms)

    groups: dict[Hashable, list[LoggedFile]] = defaultdict(list)
    for file in files:
        groups[layout_of(file)].append(file)
    found: list[tuple[_LayoutReader, list[LoggedFile]]] = []
    for members in groups.values():
        read = _parquet if members[0].format == "parquet" else _text
        reader = read(store, members[0], name, table, dms)
        reader.columns.check()
        found.append((reader, members))
    return found


def _text(
    store: ObjectStore, file: LoggedFile, name: str, table: TableConfig, dms: DmsSettings
) -> _LayoutReader:
    layout = text_layout(name, file, table, dms)
    if layout is None:
        raise Unusable
    then = table.settings_in(layout.era, dms)
    today = replace(layout, written=layout.columns)
    columns = DmsColumns(today, decoded_types(layout, table, then), file.kind, then, table.clock(then))
    return _LayoutReader(
        columns,
        today,
        lambda file: csv_texts(store, file, layout, then),
        lambda texts: typed(texts, layout, table, then),
    )


def _parquet(
    store: ObjectStore, file: LoggedFile, name: str, table: TableConfig, dms: DmsSettings
) -> _LayoutReader:
    layout, types, then = parquet_layout(name, file, table, dms)
    clock = table.clock(then)
    others = _of_other_types(layout, types, table, then)
    declared = {column.name: column.type for column in table.columns}
    are_known = all(name in others or has_same_values(types.get(name), declared[name]) for name in declared)
    if not are_known or not has_one_type(table, then):
        raise Unusable
    columns = DmsColumns(layout, types | others, file.kind, then, clock)
    own = [layout.in_file[name] for name in declared]
    names = [*own, *(columns.of_key(table.key_types) or ())]

    def typed(rows: pa.Table) -> pa.Table:
        for name, kind in others.items():
            place = rows.schema.get_field_index(layout.in_file[name])
            if place >= 0:
                texts = _as_texts(rows.column(place))
                rows = rows.set_column(place, layout.in_file[name], all_values(texts, kind, clock))
        return rows

    return _LayoutReader(columns, layout, lambda file: valid_rows(store, file, columns, names), typed)


def _of_other_types(
    layout: Layout, types: Mapping[str, str], table: TableConfig, dms: DmsSettings
) -> dict[str, str]:
    """The declared types of columns and before images that the file has as texts, and silver as another type; and of
    times of day."""

    def is_other(name: str, declared: str) -> bool:
        is_text = types.get(name) == "string" and declared != "string"
        return is_text or (declared == "time" and types.get(name) in TIMES_OF_DAY)

    return {name: kind for name, kind in decoded_types(layout, table, dms).items() if is_other(name, kind)}


def _as_texts(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts as they are; times of day as texts. Raises Unusable for a duration of a day or longer, and ArrowInvalid for
    nanoseconds."""
    if pa.types.is_string(values.type):
        return values
    micros = values.cast(pa.time64("us"))
    ends = pc.min_max(micros.cast(pa.int64()))
    if micros.null_count < len(micros) and not 0 <= ends["min"].as_py() <= ends["max"].as_py() < _DAY:
        raise Unusable
    return micros.cast(pa.string())


def _whole(file: LoggedFile, pieces: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The rows of the file. Raises Unusable if their number differs from the file's own count."""
    number = 0
    for piece in pieces:
        number += piece.num_rows
        yield piece
    if number != file.rows:
        raise Unusable


def _gathered(files: Iterable[Iterator[pa.Table]]) -> Iterator[pa.Table]:
    """The rows of all files in few pieces."""
    waiting: list[pa.Table] = []
    size = 0
    for piece in chain.from_iterable(files):
        waiting.append(piece)
        size += piece.nbytes
        if size >= _BYTES_AT_ONCE:
            yield _joined(waiting)
            size = 0
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[pa.Table]) -> pa.Table:
    """The pieces as one table. Empties the list, so that only the table takes memory."""
    table = pa.concat_tables(pieces, promote_options="default").unify_dictionaries().combine_chunks()
    pieces.clear()
    return table


def _images(rows: pa.Table, layout: Layout, table: TableConfig, own: Mapping[str, pa.Array]) -> pa.Table:
    """The table's columns of the rows. `own`: columns that come before them."""
    images = {
        column.name: rows[layout.in_file[column.name]].cast(image_type(column.type))
        for column in table.columns
    }
    return pa.table({**own, **images})


def _refuse_nulls(images: pa.Table, changes: pa.Table, table: TableConfig) -> None:
    """Raises Unusable for a row that lacks a required value, and for an update that keeps the row's value of a column.
    A delete needs only its key, which `changes` has."""
    required = [column.name for column in table.columns if column.required]
    if OPERATION not in changes.column_names:
        _refuse_null(images, required)
        return
    _refuse_null(images, required, pc.not_equal(changes[OPERATION], "D"))
    _refuse_null(images, table.kept_when_null, pc.equal(changes[OPERATION], "U"))


def _refuse_null(images: pa.Table, names: Iterable[str], among: pa.ChunkedArray | None = None) -> None:
    """Raises Unusable if one of the columns has a NULL, among these rows if they are given."""
    some = images.select([name for name in names if images[name].null_count])
    if any(column.null_count for column in (some if among is None else some.filter(among)).columns):
        raise Unusable
