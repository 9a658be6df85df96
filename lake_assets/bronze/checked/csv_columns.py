"""The records of a CSV file as typed columns, by Arrow and without Spark.

Spark takes five to ten times as much processor time. It reads a file with a text that is no value of its column, and
names what is wrong with it. Here: decoding. Not here: which files are regular (`csv_structure.py`), what their
operations, times and sequences must be (`dms_columns.py`), the values of texts (`text_values.py`).
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from io import RawIOBase
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from lake_assets.bronze.checked.dms_columns import Unusable
from lake_assets.bronze.checked.text_values import any_true, values_of
from lake_assets.bronze.files.content import chunks
from lake_assets.bronze.files.csv_dialect import QUOTE, CsvDialect
from lake_assets.bronze.files.formats import MAY_BE_EMPTY, Layout, before_image
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, Mode, TableConfig
from lake_assets.local_times import LocalClock
from lake_assets.storage.object_store import ObjectStore

BLOCK = 8 << 20
"""Bytes that are decoded at once; a longer record is left to Spark."""


def may_be_decoded(file: LoggedFile, table: TableConfig, dms: DmsSettings) -> bool:
    """Whether the rows of the file, a regular CSV file, are read by Arrow."""
    return is_plain_csv(file, dms) and table.mode is not Mode.FULL_ROW and has_one_type(table, dms)


def is_plain_csv(file: LoggedFile, dms: DmsSettings) -> bool:
    """Whether the file is a regular CSV file that Arrow can split."""
    dialect = CsvDialect.of(dms)
    is_simple = dialect.row_delimiter == b"\n" and len(dialect.delimiter) == 1
    return file.format == "csv" and file.irregular is None and is_simple


def decoded_types(layout: Layout, table: TableConfig, dms: DmsSettings) -> dict[str, str]:
    """The types in lake.yaml of the layout's columns; those that the table does not have are texts."""
    known = {column.name: column.type for column in table.columns} | _before_image_types(table, dms)
    return {name: known.get(name, "string") for name in layout.columns}


def has_one_type(table: TableConfig, dms: DmsSettings) -> bool:
    """Whether each column has one type: one that is also a before image would have two."""
    return _before_image_types(table, dms).keys().isdisjoint(column.name for column in table.columns)


def _before_image_types(table: TableConfig, dms: DmsSettings) -> dict[str, str]:
    """The types in lake.yaml of the key's before images, which a file need not have."""
    images = ((before_image(dms, key), declared) for key, declared in table.key_types.items())
    return {name: declared for name, declared in images if name is not None}


def decoded(
    store: ObjectStore, file: LoggedFile, layout: Layout, table: TableConfig, dms: DmsSettings
) -> Iterator[pa.Table]:
    """The rows in pieces, with the layout's columns of `decoded_types`. Raises Unusable, and what Arrow raises, for a
    file that Spark must read."""
    return (typed(texts, layout, table, dms) for texts in csv_texts(store, file, layout, dms))


def typed(texts: pa.Table, layout: Layout, table: TableConfig, dms: DmsSettings) -> pa.Table:
    """Rows of `csv_texts`, as `decoded`."""
    declared = {column.name: column.type for column in table.columns}
    images = {name: kind for name, kind in _before_image_types(table, dms).items() if name in layout.columns}
    # Where an empty field means NULL, the reader takes the empty field of a required column of text or bytes as an
    # empty value.
    may_be_empty = {c.name for c in table.columns if c.required and c.type in MAY_BE_EMPTY}
    filled = may_be_empty if dms.csv_null_value == "" else set()
    if not filled.issubset(layout.columns):
        raise Unusable
    # Silver does not have the other columns, so other files must not have their values.
    used = {*declared, *images, dms.operation_column, dms.timestamp_column_name, dms.change_sequence_column}
    unused = pa.nulls(texts.num_rows, pa.string())
    columns: dict[str, Any] = {name: texts[name] if name in used else unused for name in layout.columns}
    columns |= _written_images({name: columns[name] for name in images}, images)
    clock = table.clock(dms)
    for name, kind in (declared | images).items():
        if name not in columns:
            continue
        if name in filled and columns[name].null_count:
            raise Unusable
        if dms.csv_no_sup_value is not None and any_true(pc.equal(columns[name], dms.csv_no_sup_value)):
            raise Unusable  # a partial row
        columns[name] = all_values(columns[name], kind, clock)
    return pa.table(columns)


def all_values(texts: pa.ChunkedArray, declared: str, clock: LocalClock) -> pa.ChunkedArray:
    """As `values_of`. Raises Unusable for a text that is no value of the type."""
    values = values_of(texts, declared, clock)
    if values.null_count != texts.null_count:
        raise Unusable
    return values


def csv_texts(store: ObjectStore, file: LoggedFile, layout: Layout, dms: DmsSettings) -> Iterator[pa.Table]:
    """The rows in pieces, with each of the layout's columns as texts. Raises as `decoded`."""
    dialect = CsvDialect.of(dms)
    repeating = {dms.operation_column, dms.timestamp_column_name}
    words = pa.dictionary(pa.int32(), pa.string())
    pieces = chunks(store, file.path, file.compression)
    content = _Content(pieces, quoted=dialect.quoted)
    found = csv.open_csv(
        content,
        csv.ReadOptions(
            block_size=BLOCK, column_names=layout.columns, skip_rows_after_names=int(dms.add_column_name)
        ),
        csv.ParseOptions(
            delimiter=dms.csv_delimiter,
            quote_char='"' if dialect.quoted else False,
            escape_char=False,
            newlines_in_values=dialect.quoted,
        ),
        csv.ConvertOptions(
            column_types={name: words if name in repeating else pa.string() for name in layout.columns},
            null_values=[dms.csv_null_value],
            strings_can_be_null=True,
        ),
    )
    with found:
        for batch in found:
            yield pa.Table.from_batches([batch])


class _Content(RawIOBase):
    """The pieces of a file's content as a stream that Arrow reads in blocks.

    No block ends with a carriage return: Arrow would drop a newline at the beginning of the next block, even inside
    quotes.
    """

    def __init__(self, pieces: Iterator[bytes], *, quoted: bool) -> None:
        self._pieces, self._quoted = pieces, quoted
        self._rest = b""
        self._inside = False
        """Whether the next piece begins inside of quotes: after an odd number of them."""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; none at the end."""
        waiting, length = [self._rest], len(self._rest)
        while length < size and (piece := next(self._pieces, b"")):
            self._refuse_returns(piece)
            waiting.append(piece)
            length += len(piece)
        content = b"".join(waiting)
        block = content[:size].rstrip(b"\r")
        if content and not block:
            raise Unusable
        self._rest = content[len(block) :]
        return block

    def _refuse_returns(self, piece: bytes) -> None:
        """Raises Unusable for a carriage return outside of quotes: Arrow ends a record there, too."""
        if b"\r" in piece:
            values = np.frombuffer(piece, np.uint8)
            quotes = np.flatnonzero(values == QUOTE[0])
            before = np.searchsorted(quotes, np.flatnonzero(values == ord("\r")))
            if not self._quoted or np.any((before + self._inside) % 2 == 0):
                raise Unusable
        self._inside ^= piece.count(QUOTE) % 2 == 1


def _written_images(images: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """The before images, NULL where DMS wrote none: see `_before_images` of `bronze/reader/typed_rows.py`."""
    if not images:
        return {}
    filled = {name: pc.fill_null(pc.not_equal(texts, ""), False) for name, texts in images.items()}
    any_filled = reduce(pc.or_, filled.values())
    return {
        name: pc.if_else(any_filled if types[name] in MAY_BE_EMPTY else filled[name], texts, None)
        for name, texts in images.items()
    }
