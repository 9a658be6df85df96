"""The fields of files as Arrow has them, before they get the types of lake.yaml.

Here: what a file's rows are before they have a meaning, and those of a Parquet file. Not here: the rows of a text file
(`texts.py`), the meaning of fields (`changes.py`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from tempfile import TemporaryFile
from threading import Lock
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lake_assets.bronze.files.content import chunks, whole
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.files.parquet_columns import INT96
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.storage.object_store import ObjectStore

BESIDE = 64
"""Bytes of a row beside its fields and its file's address."""
SMALL = 1 << 20
"""Bytes up to which a file is read whole: Arrow takes several times as long to read a Python stream."""
LARGEST_FETCHED = 64 << 20
"""The same for a file in a bucket, because each range of it would be a request."""
ROWS_AT_ONCE = 1 << 14
"""Few, because a text that repeats may take few bytes in the file and many here."""
PIECE = 16 << 20
"""Bytes of the rows that are decoded together, in memory."""


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


def regular(values: Mapping[str, pa.ChunkedArray], rows: int, address: str, first: int = 0) -> Fields:
    """So many rows of the file at the address, without faults. `first`: the place of the first one."""
    places = pa.chunked_array([pa.array(np.arange(first, first + rows))])
    return Fields(values, places, _no_faults(rows), pa.chunked_array([pa.repeat(address, rows)]))


def _no_faults(rows: int) -> pa.ChunkedArray:
    return pa.chunked_array([pa.nulls(rows, pa.string())])


def parquet_pieces(
    store: ObjectStore,
    file: LoggedFile,
    layout: Layout,
    types: Mapping[str, str],
    unchecked: frozenset[str],
    address: str,
    room: Room | None,
    repeating: Collection[str] = (),
) -> Iterator[Fields]:
    """The rows of a Parquet file, in at least one piece. `layout`: its columns, or those that are read; `types`: of its
    columns, by the log; `repeating`: columns of few different texts, which are kept once each. Parquet does not check
    that a text is UTF-8; a row with another one is bad, unless it is in a column of `unchecked`, whose values have
    other faults then. Raises what Arrow raises, and TooLarge if there is no `room`."""
    first, waiting, size = 0, [], 0
    options: Any = {"coerce_int96_timestamp_unit": "us", "read_dictionary": [*repeating]}
    with _opened(store, file) as stream, pq.ParquetFile(stream, **options) as parquet:
        schema, columns = parquet.schema_arrow, None
        if len(layout.written) < len(schema):
            columns = [*layout.written]
            schema = pa.schema([schema.field(name) for name in columns])
        for batch in parquet.iter_batches(ROWS_AT_ONCE, columns=columns):
            taken = batch.nbytes + batch.num_rows * (len(address) + BESIDE)
            if room is not None:
                room.take(taken)
            waiting.append(batch)
            size += taken
            if size >= PIECE and room is None:
                rows = pa.Table.from_batches(waiting, schema)
                yield _parquet_rows(rows, layout, types, unchecked, address, first, room, repeating)
                first, waiting, size = first + rows.num_rows, [], 0
    if waiting or not first:
        rows = pa.Table.from_batches(waiting, schema)
        yield _parquet_rows(rows, layout, types, unchecked, address, first, room, repeating)


@contextmanager
def _opened(store: ObjectStore, file: LoggedFile) -> Iterator[BinaryIO]:
    """The file's content."""
    if file.size <= (SMALL if store.has_free_ranges else LARGEST_FETCHED):
        content = whole(store, file.path, "none", LARGEST_FETCHED)
        yield cast(BinaryIO, pa.BufferReader(content))
    elif store.has_free_ranges:
        with store.open(file.path, seekable=True) as stream:
            yield stream
    else:
        # Without a name, so that nobody finds it, and nothing of it is left after a kill.
        with TemporaryFile() as copy:
            for piece in chunks(store, file.path, "none"):
                copy.write(piece)
            copy.seek(0)
            yield cast(BinaryIO, copy)


def _parquet_rows(
    rows: pa.Table,
    layout: Layout,
    types: Mapping[str, str],
    unchecked: frozenset[str],
    address: str,
    first: int,
    room: Room | None,
    repeating: Collection[str],
) -> Fields:
    bad = _no_faults(rows.num_rows)
    found: dict[str, pa.ChunkedArray] = {}
    for name, written, values in zip(layout.columns, layout.written, rows.columns, strict=True):
        if types[name] == INT96:
            values = values.cast(pa.timestamp("us", "UTC"))
        found[name], broken = (
            (values, None) if _is_kept(values) and written in repeating else _valid_texts(_plain(values))
        )
        if room is not None:
            room.take(max(0, found[name].nbytes - values.nbytes))
        if broken is not None and name not in unchecked:
            bad = pc.if_else(pc.and_(pc.is_null(bad), broken), f"{written} is not UTF-8", bad)
    return replace(regular(found, rows.num_rows, address, first), bad=bad)


def _is_kept(values: pa.ChunkedArray) -> bool:
    """Whether the values are texts that are there once each."""
    if not pa.types.is_dictionary(values.type) or values.type.value_type != pa.string():
        return False
    return all(_valid_texts(pa.chunked_array([chunk.dictionary]))[1] is None for chunk in values.chunks)


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
    return pa.chunked_array([pa.array(texts, pa.string())]), pa.chunked_array([pa.array(broken, pa.bool_())])
