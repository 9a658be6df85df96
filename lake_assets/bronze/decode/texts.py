"""The fields of a text file, whatever its format and structure, as texts.

Arrow splits the records of a regular CSV file, Python parses the few of them that Arrow refuses, all irregular files,
and JSON. Here: the rows of one file in pieces, with the reason for each row that cannot be parsed. Not here: parsing
one record (`records.py`), the meaning of fields (`changes.py`).
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from lake_assets.bronze.decode.blocks import Block, blocks, outside_of_quotes
from lake_assets.bronze.decode.dms_columns import Unusable
from lake_assets.bronze.decode.fields import BESIDE, Fields, Room, regular
from lake_assets.bronze.decode.records import content_of, records_of
from lake_assets.bronze.files.content import chunks
from lake_assets.bronze.files.csv_dialect import CsvDialect
from lake_assets.bronze.files.csv_structure import BOM
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.files.keys import TRANSACTIONS
from lake_assets.bronze.files.transactions import LEADING
from lake_assets.bronze.layouts.headerless import LayoutsByRow
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.storage.object_store import ObjectStore

FEW = 64 << 10
"""Bytes of records, one of which Arrow refuses, that Python parses."""
OF_A_RECORD = 10
"""So much memory do records take in Python, times their bytes."""
_LINES = CsvDialect(quoted=False)
_NOTHING = Block(b"", np.empty(0, np.int64))
_STAND_IN = b"\x1f"
"""Arrow takes a delimiter of one byte. This one stands for a longer one."""


class TextFile:
    """One CSV, JSON-lines or transaction file."""

    def __init__(
        self,
        store: ObjectStore,
        file: LoggedFile,
        layout: Layout,
        table: TableConfig,
        dms: DmsSettings,
        among: LayoutsByRow | None,
        address: str,
        *,
        explain: bool = True,
    ) -> None:
        """`among`: only the rows of this layout; `address`: the file's; `explain`: as of `records_of`."""
        self._store, self._file, self._layout, self._table = store, file, layout, table
        self._dms, self._among, self._address, self._explain = dms, among, address, explain
        self._dialect = CsvDialect.of(dms)

    def pieces(self, room: Room | None = None) -> Iterator[Fields]:
        """The rows in their order, in at least one piece. Raises StoreError for a file that is gone, UnreadableFile for
        one that is damaged, or irregular and large, and TooLarge if there is no `room`."""
        file = self._file
        has_header = file.format == "csv" and self._dms.add_column_name
        # However broken a line of JSON is, the next one begins behind it.
        if self._among is not None or (file.irregular is not None and file.format != "json"):
            content = content_of(self._store, file)
            yield self._parsed(content, 0, room, is_start=True, has_header=has_header)
            return
        dialect = _LINES if file.format == "json" else self._dialect
        first, is_start = 0, True
        found = blocks(chunks(self._store, file.path, file.compression), dialect)
        for block in chain([next(found, _NOTHING)], found):
            for fields in self._split(block, first, room, is_start=is_start, has_header=has_header):
                yield fields
                first += len(fields)
            has_header = is_start = False

    def _split(
        self, block: Block, first: int, room: Room | None, *, is_start: bool, has_header: bool
    ) -> Iterator[Fields]:
        """The rows of a block, by Arrow as far as possible. `first`: the place of the first one in its file."""
        if self._file.format != "json":
            try:
                yield self._by_arrow(block, first, room, has_header=has_header)
            except (pa.ArrowInvalid, Unusable):
                pass
            else:
                return
            if len(block.content) > FEW and (halves := block.halves()) is not None:
                for half in halves:
                    for fields in self._split(half, first, room, is_start=is_start, has_header=has_header):
                        yield fields
                        first += len(fields)
                    has_header = is_start = False
                return
        yield self._parsed(block.content, first, room, is_start=is_start, has_header=has_header)

    def _parsed(
        self, content: bytes, first: int, room: Room | None, *, is_start: bool, has_header: bool
    ) -> Fields:
        """The records as columns of texts, parsed by Python."""
        if room is not None:
            room.take(OF_A_RECORD * len(content))
        rows: list[int] = []
        bad: list[str | None] = []
        records: list[Any] = []
        columns = self._layout.columns
        nothing = [None] * len(columns)
        for place, (fields, fault) in records_of(
            content,
            self._file,
            self._layout,
            self._table,
            self._dms,
            self._among,
            is_start=is_start,
            has_header=has_header,
            explain=self._explain,
        ):
            rows.append(first + place)
            records.append(fields or nothing)
            bad.append(fault)
        every = list(zip(*records, strict=True)) or [()] * len(columns)
        values = {name: _texts(texts) for name, texts in zip(columns, every, strict=True)}
        if self._file.format != "json":  # which has neither tokens nor empty fields to interpret
            filled = {name: pc.fill_null(texts, "") for name, texts in values.items()}
            values = {name: self._without_token(texts) for name, texts in filled.items()}
        places = pa.chunked_array([pa.array(rows, pa.int64())])
        return Fields(values, places, _texts(bad), _texts([self._address] * len(rows)))

    def _without_token(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.if_else(pc.equal(texts, self._dms.csv_null_value), None, texts)

    def _by_arrow(self, block: Block, first: int, room: Room | None, *, has_header: bool) -> Fields:
        """Raises ArrowInvalid or Unusable for a record that Arrow may not split as the dialect has it."""
        file, dialect, leading = self._file, self._dialect, 0
        if file.format == TRANSACTIONS:
            if len(dialect.delimiter) > 1:
                raise Unusable
            block, leading = block.of_table(file.schema, file.names, dialect), len(LEADING) - 1
        columns = [*self._layout.columns]
        names = [f"_{place}" for place in range(len(columns) + leading)]
        content, stand_ins = _plain(block.content, dialect)
        # A regular file begins with no byte order mark, and Arrow drops one at the beginning of what it gets.
        has_mark = content.startswith(BOM)
        content = b"\n" + content if has_mark else content
        delimiter = _STAND_IN if len(dialect.delimiter) > 1 else dialect.delimiter
        if not len(block.ends):
            rows = pa.table({name: _texts([]) for name in names})
        else:
            rows = csv.read_csv(
                pa.BufferReader(content),
                csv.ReadOptions(
                    # In one piece: Arrow drops a newline at the beginning of a piece after one that ends with a
                    # carriage return, even inside of quotes.
                    block_size=len(content) + 1,
                    column_names=names,
                    skip_rows=int(has_mark),
                    skip_rows_after_names=int(has_header),
                ),
                csv.ParseOptions(
                    delimiter=delimiter.decode(),
                    quote_char='"' if dialect.quoted else False,
                    escape_char=False,
                    newlines_in_values=dialect.quoted,
                ),
                csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()),
                    null_values=[] if stand_ins else [self._dms.csv_null_value],
                    strings_can_be_null=not stand_ins,
                ),
            )
        if rows.num_rows != len(block.ends) - has_header:
            raise Unusable
        kept = [names[0], *names[1 + leading :]]
        values = dict(zip(columns, (rows[name] for name in kept), strict=True))
        if stand_ins:
            values = {name: self._without_token(_again(texts, stand_ins)) for name, texts in values.items()}
        if room is not None:
            room.take(rows.nbytes + rows.num_rows * (len(self._address) + BESIDE))
        return regular(values, rows.num_rows, self._address, first)


def _plain(content: bytes, dialect: CsvDialect) -> tuple[bytes, Mapping[str, str]]:
    """The records with delimiters that Arrow takes, and what these stand for inside of quotes. Raises Unusable where
    that would not be the same."""
    end, stand_ins = dialect.row_delimiter, {}
    if end != b"\n":
        if b"\n" in content.replace(end, b""):
            raise Unusable
        content, stand_ins["\n"] = content.replace(end, b"\n"), end.decode()
    if len(dialect.delimiter) > 1:
        if _STAND_IN in content:
            raise Unusable
        content = content.replace(dialect.delimiter, _STAND_IN)
        stand_ins[_STAND_IN.decode()] = dialect.delimiter.decode()
    # Arrow ends a record there, too.
    if b"\r" in content and outside_of_quotes(content, b"\r", dialect):
        raise Unusable
    return content, stand_ins if dialect.quoted else {}


def _again(texts: pa.ChunkedArray, stand_ins: Mapping[str, str]) -> pa.ChunkedArray:
    for mark, text in reversed([*stand_ins.items()]):
        texts = pc.replace_substring(texts, mark, text)
    return texts


def _texts(values: Any) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, pa.string())])
