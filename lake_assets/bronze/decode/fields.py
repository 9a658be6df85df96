"""The fields of files as Arrow has them, before they get the types of lake.yaml.

Here: one file's rows, whatever its format and structure, with the reason for each row that cannot be parsed. Not here:
the records that Arrow does not parse (`records.py`), the meaning of fields (`changes.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lake_assets.bronze.checked.csv_columns import csv_texts, is_plain_csv
from lake_assets.bronze.checked.dms_columns import FAULTS
from lake_assets.bronze.checked.parquet_values import opened
from lake_assets.bronze.decode.records import content_of, records_of
from lake_assets.bronze.files.content import chunks
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.files.parquet_columns import INT96
from lake_assets.bronze.layouts.headerless import LayoutsByRow
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.storage.object_store import ObjectStore

MOST_PARSED = 4 << 20
"""Bytes of a regular file, decompressed, up to which Python parses its records. Spark is faster with more."""
OF_A_RECORD = 10
"""So much memory do records take in Python, times their bytes."""
BESIDE = 64
"""Bytes of a row beside its fields and its file's address."""
ROWS_AT_ONCE = 1 << 14
"""Few, because a text that repeats may take few bytes in the file and many here."""


class TooLarge(Exception):
    """The rows take more memory than this process may use for them."""


class Room:
    """The memory for the rows of several files. Threads may share it."""

    def __init__(self, most: int) -> None:
        """`most`: bytes."""
        self._left, self._lock = most, Lock()

    def take(self, size: int) -> None:
        """Raises TooLarge when there is no room for so many bytes more. A negative size gives room back."""
        with self._lock:
            self._left -= size
            if self._left < 0:
                raise TooLarge


@dataclass(frozen=True, slots=True)
class Fields:
    """Rows of one file, or of several. All columns have as many values as there are rows."""

    values: Mapping[str, pa.ChunkedArray]
    """By the present name of a column: texts, or in a Parquet file what it has. NULL for the null token of a CSV
    file."""
    row: pa.ChunkedArray
    """The place of each row in its file, from 0, as int64."""
    bad: pa.ChunkedArray
    """Why a row cannot be parsed; NULL for any other row."""
    file: pa.ChunkedArray
    """The address of each row's file, in Spark's spelling."""

    def __len__(self) -> int:
        return len(self.row)


def joined(parts: Sequence["Fields"]) -> "Fields":
    """The rows of all parts, which have the same columns."""

    def all_of(every: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
        return pa.chunked_array([chunk for each in every for chunk in each.chunks], every[0].type)

    return Fields(
        {name: all_of([part.values[name] for part in parts]) for name in parts[0].values},
        all_of([part.row for part in parts]),
        all_of([part.bad for part in parts]),
        all_of([part.file for part in parts]),
    )


def text_fields(
    store: ObjectStore,
    file: LoggedFile,
    layout: Layout,
    table: TableConfig,
    dms: DmsSettings,
    among: LayoutsByRow | None,
    address: str,
    room: Room,
    *,
    explain: bool = True,
) -> Fields:
    """The rows of a CSV, JSON-lines or transaction file; `among`: only those of this layout; `address`: the file's.
    Raises StoreError for a file that is gone, UnreadableFile for one that is damaged or too large."""
    if among is None and is_plain_csv(file, dms):
        found = _by_arrow(store, file, layout, dms, address, room)
        if found is not None:
            return found
    content = _content(store, file, parsed_here=among is not None or file.irregular is not None)
    room.take(OF_A_RECORD * len(content))
    parsed = parsed_fields(content, file, layout, table, dms, among, address, explain=explain)
    if file.format == "json":
        return parsed
    values = {name: _without_token(pc.fill_null(texts, ""), dms) for name, texts in parsed.values.items()}
    return replace(parsed, values=values)


def parsed_fields(
    content: bytes,
    file: LoggedFile,
    layout: Layout,
    table: TableConfig,
    dms: DmsSettings,
    among: LayoutsByRow | None,
    address: str,
    *,
    explain: bool,
) -> Fields:
    """The records of a file's content as columns of texts; NULL for an empty field of a CSV file."""
    rows: list[int] = []
    bad: list[str | None] = []
    records: list[Any] = []
    nothing = [None] * len(layout.columns)
    for place, (fields, fault) in records_of(content, file, layout, table, dms, among, explain=explain):
        rows.append(place)
        records.append(fields or nothing)
        bad.append(fault)
    columns = list(zip(*records, strict=True)) or [()] * len(layout.columns)
    values = {name: _texts(texts) for name, texts in zip(layout.columns, columns, strict=True)}
    places = pa.chunked_array([pa.array(rows, pa.int64())])
    return Fields(values, places, _texts(bad), _texts([address] * len(rows)))


def _content(store: ObjectStore, file: LoggedFile, *, parsed_here: bool) -> bytes:
    """All of a file. `parsed_here`: Spark could not read it either. Raises TooLarge for another one that is large."""
    if parsed_here:
        return content_of(store, file)
    content = bytearray()
    for piece in chunks(store, file.path, file.compression):
        content += piece
        if len(content) > MOST_PARSED:
            raise TooLarge
    return bytes(content)


def _by_arrow(
    store: ObjectStore, file: LoggedFile, layout: Layout, dms: DmsSettings, address: str, room: Room
) -> Fields | None:
    """None for a file with a record that Arrow does not parse."""
    pieces, taken = [_all_texts(layout).empty_table()], 0
    try:
        for piece in csv_texts(store, file, layout, dms):
            pieces.append(piece.cast(_all_texts(layout)))
            size = pieces[-1].nbytes + piece.num_rows * (len(address) + BESIDE)
            room.take(size)
            taken += size
    except FAULTS:
        room.take(-taken)
        return None
    rows = pa.concat_tables(pieces)
    if file.rows is not None and rows.num_rows != file.rows:
        room.take(-taken)
        return None
    values = dict(zip(layout.columns, rows.columns, strict=True))
    return _regular(values, rows.num_rows, _no_faults(rows), address)


def _all_texts(layout: Layout) -> pa.Schema:
    return pa.schema([(name, pa.string()) for name in layout.columns])


def _texts(values: Any) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.string())])


def _without_token(texts: pa.ChunkedArray, dms: DmsSettings) -> pa.ChunkedArray:
    return pc.if_else(pc.equal(texts, dms.csv_null_value), None, texts)


def _regular(values: Mapping[str, pa.ChunkedArray], rows: int, bad: pa.ChunkedArray, address: str) -> Fields:
    places = pa.chunked_array([pa.array(range(rows), pa.int64())])
    return Fields(values, places, bad, pa.chunked_array([pa.repeat(address, rows)]))


def _no_faults(rows: pa.Table) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(rows.num_rows, pa.string())])


def parquet_fields(
    store: ObjectStore,
    file: LoggedFile,
    layout: Layout,
    types: Mapping[str, str],
    unchecked: frozenset[str],
    address: str,
    room: Room,
) -> Fields:
    """The rows of a Parquet file. `types`: of its columns, by the log. Parquet does not check that a text is UTF-8; a
    row with another one is bad, unless it is in a column of `unchecked`, whose values have other faults then. Raises
    what Arrow raises."""
    with opened(store, file) as stream, pq.ParquetFile(stream, coerce_int96_timestamp_unit="us") as parquet:
        pieces = []
        for batch in parquet.iter_batches(ROWS_AT_ONCE):
            room.take(batch.nbytes + batch.num_rows * (len(address) + BESIDE))
            pieces.append(batch)
        rows = pa.Table.from_batches(pieces, parquet.schema_arrow)
    bad = _no_faults(rows)
    found: dict[str, pa.ChunkedArray] = {}
    for name, written, values in zip(layout.columns, layout.written, rows.columns, strict=True):
        if types[name] == INT96:
            values = values.cast(pa.timestamp("us", "UTC"))
        found[name], broken = _valid_texts(_plain(values))
        room.take(max(0, found[name].nbytes - values.nbytes))
        if broken is not None and name not in unchecked:
            bad = pc.if_else(pc.and_(pc.is_null(bad), broken), f"{written} is not UTF-8", bad)
    return _regular(found, rows.num_rows, bad, address)


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Of types with the same values, one."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(values.cast(kind.storage_type))
    if pa.types.is_dictionary(kind):
        return _plain(values.cast(kind.value_type))
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return values.cast(pa.string())
    is_bytes = pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    return values.cast(pa.binary()) if is_bytes else values


def _valid_texts(values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray | None]:
    """The values with U+FFFD for what is not UTF-8, and which ones those are; None if there are none."""
    if not pa.types.is_string(values.type):
        return values, None
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        pass
    else:
        return values, None
    given = values.cast(pa.binary()).to_pylist()
    texts = [None if each is None else each.decode("utf-8", "replace") for each in given]
    again = [None if each is None else each.encode() for each in texts]
    broken = [one != other for one, other in zip(given, again, strict=True)]
    return _texts(texts), pa.chunked_array([pa.array(broken, pa.bool_())])
