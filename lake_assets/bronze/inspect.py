"""What a file says about itself without Spark: its rows, its columns, its first commit time.

Here: one pass over a CSV file's bytes, or a look at a Parquet footer. Not here: typed rows (`formats.py` and
`reader.py`), or what follows from the numbers.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO, Protocol
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.bronze.keys import FileKind
from lake_assets.bronze.object_store import ObjectStore
from lake_assets.config import DmsSettings
from lake_assets.errors import LakeError

_CHUNK = 1 << 20
_LONGEST_HEADER = 4 << 20
_ROW_SAMPLE = 64 << 10
"""The timestamp comes before the source's columns, which may be of any length."""
_NEITHER_QUOTE_NOR_NEWLINE = bytes(sorted(set(range(256)) - set(b'"\n')))


class UnreadableFile(LakeError):
    """A file whose content is not what its name promises."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key} cannot be read: {reason}")
        self.key = key
        self.reason = reason


class NamedFile(Protocol):
    """What a name says, which a DataFile, a NewFile and a LoggedFile all know."""

    @property
    def key(self) -> str: ...
    @property
    def kind(self) -> FileKind: ...
    @property
    def format(self) -> str: ...
    @property
    def compression(self) -> str: ...


@dataclass(frozen=True, slots=True)
class FileInspection:
    rows: int
    """Data rows, without the header."""
    columns: tuple[str, ...] | None
    """CSV: the header, None without one. Parquet: `name:type` with Arrow's type names."""
    first_commit_ts: datetime | None
    """UTC; the timestamp column of the first data row, None if there is no such column, row or timestamp."""


def inspect_file(store: ObjectStore, file: NamedFile, dms: DmsSettings) -> FileInspection:
    """Reads the file once. Raises UnreadableFile for bad content, StoreError if it cannot be fetched."""
    if file.format == "parquet":
        with store.open(file.key, seekable=True) as stream:
            return _inspect_parquet(file.key, stream, dms)
    with open_content(store, file) as stream:
        return _inspect_csv(file, stream, dms)


@contextmanager
def open_content(store: ObjectStore, file: NamedFile) -> Iterator[BinaryIO]:
    """The bytes of a CSV file, decompressed. Raises UnreadableFile when that fails midway, StoreError if the file
    cannot be fetched."""
    with store.open(file.key) as stream:
        try:
            yield _decompressed(stream) if file.compression == "gzip" else stream
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UnreadableFile(file.key, f"the gzip stream is damaged or incomplete ({error})") from error


def _decompressed(stream: BinaryIO) -> BinaryIO:
    return io.BufferedReader(gzip.GzipFile(fileobj=stream), _CHUNK)


def _inspect_csv(file: NamedFile, stream: BinaryIO, dms: DmsSettings) -> FileInspection:
    counter = RecordCounter(quoted=dms.rfc_4180)
    start = b""
    for chunk in _chunks(stream):
        counter.feed(chunk)
        if len(start) < _ROW_SAMPLE or (dms.add_column_name and _record_end(start, 0, dms) < 0):
            start += chunk
        if len(start) > _LONGEST_HEADER:
            raise UnreadableFile(file.key, f"its first record is longer than {_LONGEST_HEADER >> 20} MiB")
    rows, header, row_start = counter.records(), None, 0
    if dms.add_column_name and rows:
        end = _record_end(start, 0, dms)
        header = _header(file.key, start if end < 0 else start[:end], dms)
        rows, row_start = rows - 1, len(start) if end < 0 else end + 1
    position = _timestamp_position(file, header, dms)
    first = (
        _field(start[row_start : row_start + _ROW_SAMPLE], position, dms)
        if position is not None and rows
        else None
    )
    return FileInspection(rows, header, commit_time(first, dms))


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


class RecordCounter:
    """Counts the records of a CSV by its bytes, in pieces of any size.

    A newline ends a record unless it is inside of quotes, that is, after an odd number of quotes: in RFC 4180 a
    quote inside of quotes is doubled, which leaves the parity as it was. In UTF-8, neither byte is ever a part of
    another character.
    """

    def __init__(self, quoted: bool) -> None:
        self._quoted = quoted
        self._inside = False
        self._ended = 0
        self._open_record = False

    def feed(self, chunk: bytes) -> None:
        if not chunk:
            return
        if not self._quoted or b'"' not in chunk:
            self._ended += 0 if self._inside else chunk.count(b"\n")
        else:
            # Pairs of quotes with no newline in between cancel; splitting the little that remains is cheap.
            marks = chunk.translate(None, _NEITHER_QUOTE_NOR_NEWLINE).replace(b'""', b"")
            pieces = marks.split(b'"')
            self._ended += sum(map(len, pieces[1 if self._inside else 0 :: 2]))
            self._inside ^= len(pieces) % 2 == 0
        self._open_record = self._inside or not chunk.endswith(b"\n")

    def records(self) -> int:
        """Records so far; a last line without a newline is one."""
        return self._ended + self._open_record


def count_records(chunks: Iterable[bytes], *, quoted: bool = True) -> int:
    """The records, header included, of a CSV; `quoted` as DMS's Rfc4180."""
    counter = RecordCounter(quoted)
    for chunk in chunks:
        counter.feed(chunk)
    return counter.records()


def _record_end(text: bytes, start: int, dms: DmsSettings) -> int:
    """Where the newline is that ends the record, or -1."""
    end = text.find(b"\n", start)
    while end >= 0 and dms.rfc_4180 and text.count(b'"', start, end) % 2:
        end = text.find(b"\n", end + 1)
    return end


def _fields(text: str, dms: DmsSettings) -> list[str]:
    lines = io.StringIO(text, newline="")
    if dms.rfc_4180:
        return next(csv.reader(lines, delimiter=dms.csv_delimiter), [])
    return next(csv.reader(lines, delimiter=dms.csv_delimiter, quoting=csv.QUOTE_NONE), [])


def _header(key: str, record: bytes, dms: DmsSettings) -> tuple[str, ...]:
    try:
        return tuple(_fields(record.decode("utf-8-sig"), dms))
    except UnicodeDecodeError as error:
        raise UnreadableFile(
            key, f"the header is not UTF-8 ({error.reason} at byte {error.start})"
        ) from error
    except csv.Error as error:
        raise UnreadableFile(key, f"the header is no CSV record ({error})") from error


def _timestamp_position(file: NamedFile, header: tuple[str, ...] | None, dms: DmsSettings) -> int | None:
    if dms.timestamp_column_name is None:
        return None
    if header is not None:
        return header.index(dms.timestamp_column_name) if dms.timestamp_column_name in header else None
    return 1 if file.kind is FileKind.CDC or dms.include_op_for_full_load else 0


def _field(sample: bytes, position: int, dms: DmsSettings) -> str | None:
    """A field of the sample's first record; None if it is not there, or perhaps cut off."""
    end = _record_end(sample, 0, dms)
    text = sample if end < 0 else sample[:end]
    try:
        fields = _fields(text.decode("utf-8", errors="replace"), dms)
    except csv.Error:
        return None
    cut_off = end < 0 and len(sample) >= _ROW_SAMPLE and position == len(fields) - 1
    return fields[position] if position < len(fields) and not cut_off else None


def commit_time(value: str | datetime | None, dms: DmsSettings) -> datetime | None:
    """The timestamp column's value as UTC; None if it is no timestamp."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if value is None:
        return None
    try:
        return (value if value.tzinfo else value.replace(tzinfo=ZoneInfo(dms.timestamp_zone))).astimezone(UTC)
    except OverflowError:
        return None


def _inspect_parquet(key: str, stream: BinaryIO, dms: DmsSettings) -> FileInspection:
    try:
        with pq.ParquetFile(stream) as parquet:
            schema = parquet.schema_arrow
            return FileInspection(
                rows=parquet.metadata.num_rows,
                columns=tuple(f"{field.name}:{field.type}" for field in schema),
                first_commit_ts=commit_time(_first_value(parquet, schema, dms.timestamp_column_name), dms),
            )
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnreadableFile(key, f"no valid Parquet ({reason})") from error


def _first_value(parquet: pq.ParquetFile, schema: pa.Schema, column: str | None) -> str | datetime | None:
    if column not in schema.names:
        return None
    for batch in parquet.iter_batches(batch_size=1, columns=[column]):
        if batch.num_rows:
            values = batch.column(0)
            if pa.types.is_timestamp(values.type):
                # Of nanoseconds, Python would only give a pandas type.
                values = values.cast(pa.timestamp("us", tz=values.type.tz), safe=False)
            value = values[0].as_py()
            return value if isinstance(value, (str, datetime)) else None
    return None
