"""What identifies the rows of a file, whatever their order and spelling.

Two full-load files with the same rows are the same load, if nothing in them says when they were transferred. So the
content of such a file is identified by its rows: by the sum of their digests, which no order changes. A CSV field is
the same with and without quotes, and a JSON object with its keys in any order.

Here: the digests of CSV, JSON lines and Parquet. Not here: the digest of a file's bytes (`content.py`), the types of
values: `1.5` and `1.50` differ.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from json import dumps
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lake_assets.bronze.files.csv_dialect import QUOTE, CsvDialect
from lake_assets.bronze.files.csv_records import scan_record
from lake_assets.bronze.files.csv_structure import BOM
from lake_assets.bronze.files.json_lines import is_blank, json_members

_BETWEEN, _NULL = b"\x1f", b"\x1e"
_BATCH_ROWS = 10_000


class RowDigest:
    """Adds up the digests of rows."""

    def __init__(self) -> None:
        self._sum = 0
        self._rows = 0

    def add_row(self, row: bytes) -> None:
        self._sum += int.from_bytes(blake2b(row, digest_size=16).digest())
        self._rows += 1

    @property
    def hex(self) -> str:
        """Distinct from any digest of bytes."""
        return f"rows {self._rows} {self._sum % 2**128:032x}"


class FirstTime:
    """Finds the earliest value of a column of timestamps, which are all written in one way."""

    def __init__(self, column: int | str) -> None:
        """`column`: its place in a row, from 0, or its name in the header, which is the first row."""
        self._column = column
        self._found: bytes | None = None

    def add_row(self, row: bytes) -> None:
        fields = row.split(_BETWEEN)
        if isinstance(self._column, str):
            name = self._column.encode()
            self._column = fields.index(name) if name in fields else len(fields)
        elif self._column < len(fields):
            value = fields[self._column]
            self._found = value if self._found is None else min(value, self._found)

    @property
    def text(self) -> str | None:
        """None without any."""
        return self._found.decode(errors="replace") if self._found is not None else None


class Rows(Protocol):
    """Takes the rows of a file, without their spelling."""

    def add_row(self, row: bytes, /) -> None: ...


class LineDigest:
    """The digest of a text file's rows, which it takes in pieces of any size."""

    def __init__(self, end: bytes = b"\n", also: Rows | None = None) -> None:
        """`also`: gets each row, too."""
        self._end = end
        self._rest = b""
        self._is_start = True
        self._digest = RowDigest()
        self._also = also

    def add(self, piece: bytes) -> None:
        """Adds the next piece of the content."""
        *whole, self._rest = (self._rest + piece).split(self._end)
        for line in whole:
            self._add_line(line)

    def finish(self) -> None:
        """Ends the file."""
        for row in self._last_rows():
            self._add_row(row)

    @property
    def hex(self) -> str:
        """The digest, once the whole file has been added."""
        self.finish()
        return self._digest.hex

    def _add_line(self, line: bytes) -> None:
        if self._is_start:
            line, self._is_start = line.removeprefix(BOM), False
        if (row := self._row(line)) is not None:
            self._add_row(row)

    def _add_row(self, row: bytes) -> None:
        self._digest.add_row(row)
        if self._also is not None:
            self._also.add_row(row)

    def _last_rows(self) -> Iterator[bytes]:
        """The rows at the end of the file, which no line end completes."""
        if self._rest and (row := self._row(self._rest)) is not None:
            yield row
        self._rest = b""

    def _row(self, line: bytes) -> bytes | None:
        """The row that a line completes, without its spelling; None if it completes none."""
        raise NotImplementedError


class CsvDigest(LineDigest):
    """Of CSV. A header counts as a row."""

    def __init__(self, dialect: CsvDialect, also: Rows | None = None) -> None:
        super().__init__(dialect.row_delimiter, also)
        self._dialect = dialect
        self._open: list[bytes] = []
        """Lines of a record whose quotes are not closed yet."""
        self._quotes = 0

    def _row(self, line: bytes) -> bytes | None:
        dialect = self._dialect
        quotes = line.count(QUOTE) if dialect.quoted else 0
        if not quotes and not self._open:
            return line.replace(dialect.delimiter, _BETWEEN)
        self._open.append(line)
        self._quotes += quotes
        if self._quotes % 2:
            return None
        record = dialect.row_delimiter.join(self._open)
        self._open, self._quotes = [], 0
        found = scan_record(record + dialect.row_delimiter, 0, dialect)
        return record if found.fault is not None else _BETWEEN.join(found.fields)

    def _last_rows(self) -> Iterator[bytes]:
        yield from super()._last_rows()
        if self._open:
            yield self._dialect.row_delimiter.join(self._open)
        self._open = []


class JsonDigest(LineDigest):
    """Of JSON lines."""

    def _row(self, line: bytes) -> bytes | None:
        if is_blank(line):
            return None
        try:
            return dumps(json_members(line), sort_keys=True).encode()
        except ValueError:
            return line


def parquet_rows(parquet: pq.ParquetFile) -> str | None:
    """The digest of a Parquet file's rows, whatever its encoding and row groups; None if it has a nested column. Raises
    ArrowException for damaged data."""
    schema = parquet.schema_arrow
    if any(pa.types.is_nested(field.type) for field in schema):
        return None
    names = sorted(schema.names)
    digest, between = RowDigest(), pa.scalar(_BETWEEN, pa.large_binary())
    digest.add_row(_BETWEEN.join(name.encode() for name in names))
    for batch in parquet.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
        columns = [_texts(batch.column(schema.names.index(name))) for name in names]
        for row in _values(pc.binary_join_element_wise(*columns, between)) if columns else ():
            digest.add_row(row)
    return digest.hex


def _texts(column: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not _is_binary(column.type):
        column = column.cast(pa.large_string())
    return column.cast(pa.large_binary()).fill_null(_NULL)


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _values(rows: pa.Array) -> Iterable[bytes]:
    values: list[bytes] = rows.to_pylist()
    return values
