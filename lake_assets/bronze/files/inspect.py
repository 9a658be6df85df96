"""The facts of a file, without Spark: its rows, its columns, its first commit time, whether it is regular.

Here: one pass over the bytes of a CSV or JSON-lines file, or reading a Parquet footer. Not here: typed rows
(`formats.py` and `bronze/decode/`), what makes a text irregular (`csv_structure.py`, `json_lines.py`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, Protocol, cast

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.bronze.files.content import (
    GZIP_MAGIC,
    ContentDigest,
    UnreadableFile,
    chunks,
    digested,
    refuse_machine_fault,
    whole,
)
from lake_assets.bronze.files.csv_dialect import CsvDialect
from lake_assets.bronze.files.csv_records import CUT_OFF, csv_records, scan_record
from lake_assets.bronze.files.csv_structure import BOM, StructureScan
from lake_assets.bronze.files.formats import has_operation
from lake_assets.bronze.files.inspection import FileInspection
from lake_assets.bronze.files.json_lines import json_lines, json_members
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.files.parquet_columns import INT96
from lake_assets.bronze.files.row_digest import CsvDigest, JsonDigest, LineDigest, parquet_rows
from lake_assets.bronze.files.unsupported import UnsupportedFile, arrow_lacks
from lake_assets.config import DmsSettings
from lake_assets.local_times import instants
from lake_assets.storage.object_store import ObjectStore

__all__ = ["FileInspection", "UnreadableFile", "inspect_file"]

LARGEST_IRREGULAR = 64 << 20
"""Bytes of text, decompressed, up to which an irregular file is read record by record, in memory; a larger one is
unreadable."""
LARGEST_IN_MEMORY = 16 << 20
_LONGEST_HEADER = 4 << 20
_LONGEST_NAME = 64 << 10
_STAMPS = 256
"""Rows of a Parquet file whose timestamps are compared."""
_ROW_SAMPLE = 64 << 10
"""Bytes: enough for the timestamp, which comes before the source's columns of any length."""


class NamedFile(Protocol):
    """The facts of a file's name, which a DataFile, a NewFile and a LoggedFile have in common."""

    @property
    def key(self) -> str: ...
    @property
    def kind(self) -> FileKind: ...
    @property
    def format(self) -> str: ...
    @property
    def compression(self) -> str: ...


def inspect_file(
    store: ObjectStore, file: NamedFile, dms: DmsSettings, *, with_content: bool = True
) -> FileInspection:
    """Reads the file once. `with_content`: also computes the digest that identifies it. Raises UnreadableFile for bad
    content, UnsupportedFile for an encrypted footer, StoreError if it cannot be fetched."""
    if file.format == "parquet":
        return _inspect_parquet(store, file, dms)
    digest = _digest(file, dms)
    content = chunks(store, file.key, file.compression)
    pieces = _text_of(file.key, digested(content, digest) if with_content else content)
    found = _inspect_json(pieces, dms) if file.format == "json" else _inspect_csv(store, pieces, file, dms)
    return replace(found, content=digest.hex) if with_content else found


def _is_known_by_rows(file: NamedFile, dms: DmsSettings) -> bool:
    """Whether the content of a file is its rows, in any order: of a full-load part whose rows have no times of their
    own, nothing else shows whether it is the same load."""
    return file.kind is FileKind.LOAD and dms.timestamp_column_name is None


def _digest(file: NamedFile, dms: DmsSettings) -> ContentDigest | LineDigest:
    if not _is_known_by_rows(file, dms):
        return ContentDigest()
    return JsonDigest() if file.format == "json" else CsvDigest(CsvDialect.of(dms))


def inspect_large_file(store: ObjectStore, file: NamedFile, dms: DmsSettings) -> FileInspection | None:
    """The facts in the beginning of a text file (the first commit time alone) or in the footer of a Parquet file. None
    for JSON lines. Raises as `inspect_file`."""
    if file.format == "parquet":
        with store.open(file.key, seekable=True) as stream:
            return _parquet_facts(file.key, stream, dms)
    if file.format == "json":
        return None
    dialect = CsvDialect.of(dms)
    start = next(chunks(store, file.key, file.compression), b"").removeprefix(BOM)
    header = None
    if dms.add_column_name:
        end = scan_record(start, 0, dialect).end
        header, start = _header(file.key, start[:end], dialect), start[end:]
    position = _timestamp_position(file, header, dms)
    first = None if position is None else _field(start[:_ROW_SAMPLE], position, dialect)
    return FileInspection(first_commit_ts=commit_time(first, dms))


def _text_of(key: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces of a text file. Raises UnreadableFile for content of another format."""
    start = next(pieces, b"")
    if start.startswith(GZIP_MAGIC):
        raise UnreadableFile(key, "its content is gzip, which its name does not say")
    if start.startswith(b"PAR1") and b"\0" in start:
        raise UnreadableFile(key, "its content is Parquet, which its name does not say")
    yield start
    yield from pieces


def _inspect_json(pieces: Iterator[bytes], dms: DmsSettings) -> FileInspection:
    rows, first, irregular = 0, None, None
    keys: dict[str, None] = {}
    for line in json_lines(pieces):
        rows += 1
        try:
            found = json_members(line)
        except ValueError as error:
            irregular = irregular or f"a line in it cannot be read: {error}"
            continue
        keys.update(dict.fromkeys(found))
        if rows == 1:
            first = found.get(dms.timestamp_column_name or "")
    stamp = commit_time(first, dms) if isinstance(first, str) else None
    return FileInspection(rows, tuple(keys) or None, stamp, irregular=irregular)


def _inspect_csv(
    store: ObjectStore, pieces: Iterator[bytes], file: NamedFile, dms: DmsSettings
) -> FileInspection:
    dialect = CsvDialect.of(dms)
    scan = StructureScan(dialect)
    start = b""
    header_end = None if dms.add_column_name else 0
    first_chunk = True
    for chunk in pieces:
        scan.feed(chunk)
        if first_chunk:
            chunk, first_chunk = chunk.removeprefix(BOM), False
        if header_end is None or len(start) - header_end < _ROW_SAMPLE:
            start += chunk
        if header_end is None:
            found = scan_record(start, 0, dialect)
            header_end = found.end if found.fault is None else None
        if header_end is None and len(start) > _LONGEST_HEADER:
            raise UnreadableFile(file.key, f"its first record is longer than {_LONGEST_HEADER >> 20} MiB")
    scan.finish()
    rows, irregular = scan.records(), scan.irregular
    if irregular is not None:
        content = whole(store, file.key, file.compression, LARGEST_IRREGULAR, why=irregular)
        rows = len(csv_records(content, dialect))
    header = None
    if dms.add_column_name and rows:
        header = _header(file.key, start if header_end is None else start[:header_end], dialect)
        rows -= 1
        start = b"" if header_end is None else start[header_end:]
    position = _timestamp_position(file, header, dms)
    sample = start[:_ROW_SAMPLE]
    first = None if position is None or not rows else _field(sample, position, dialect)
    width = None if header is not None or not rows else _width(start, dialect)
    alike = None
    if first is not None and position is not None and file.kind is FileKind.LOAD:
        alike = _are_alike(_fields(sample, position, dialect))
    return FileInspection(rows, header, commit_time(first, dms), width, irregular, one_stamp=alike)


def _fields(sample: bytes, position: int, dialect: CsvDialect) -> Iterator[bytes]:
    """A field of each of the sample's records, up to the first one that cannot be read or may be cut off."""
    found = scan_record(sample, 0, dialect)
    while found.fault is None and position < len(found.fields):
        yield found.fields[position]
        found = scan_record(sample, found.end, dialect)


def _are_alike(values: Iterable[object]) -> bool | None:
    """Whether all values are equal; None for fewer than two values."""
    found = list(values)
    return len(set(found)) == 1 if len(found) > 1 else None


def _width(start: bytes, dialect: CsvDialect) -> int | None:
    found = scan_record(start, 0, dialect)
    return len(found.fields) if found.fault is None else None


def _header(key: str, record: bytes, dialect: CsvDialect) -> tuple[str, ...]:
    found = scan_record(record, 0, dialect)
    if found.end < len(record):
        raise UnreadableFile(key, f"the header is not a valid CSV record ({found.fault})")
    names = found.fields
    if not names or max(map(len, names)) > _LONGEST_NAME:
        raise UnreadableFile(
            key, f"the header is not a valid CSV record ({found.fault or 'a name is very long'})"
        )
    try:
        return tuple(name.decode() for name in names)
    except UnicodeDecodeError as error:
        raise UnreadableFile(
            key, f"the header is not UTF-8 ({error.reason} at byte {error.start})"
        ) from error


def _timestamp_position(file: NamedFile, header: tuple[str, ...] | None, dms: DmsSettings) -> int | None:
    if dms.timestamp_column_name is None:
        return None
    if header is not None:
        return header.index(dms.timestamp_column_name) if dms.timestamp_column_name in header else None
    return 1 if has_operation(file.kind, dms) else 0


def _field(sample: bytes, position: int, dialect: CsvDialect) -> str | None:
    """A field of the sample's first record; None if it is missing, or may be cut off."""
    found = scan_record(sample, 0, dialect)
    cut_off = found.fault == CUT_OFF and len(sample) >= _ROW_SAMPLE and position == len(found.fields) - 1
    if position >= len(found.fields) or cut_off:
        return None
    return found.fields[position].decode(errors="replace")


def commit_time(value: str | datetime | None, dms: DmsSettings) -> datetime | None:
    """The timestamp column's value as UTC; None if it is not a timestamp. Of a local time that exists twice it is the
    earlier one: what is later is not taken for a part of an earlier load."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if value is None:
        return None
    try:
        if value.tzinfo is not None:
            return value.astimezone(UTC)
        return next(iter(instants(dms.timestamp_zone, value)), None)
    except OverflowError:
        return None


def _inspect_parquet(store: ObjectStore, file: NamedFile, dms: DmsSettings) -> FileInspection:
    # Read whole, because the footer alone does not identify the content.
    digest = ContentDigest()
    with SpooledTemporaryFile(max_size=LARGEST_IN_MEMORY) as stream:
        for chunk in digested(chunks(store, file.key, "none"), digest):
            stream.write(chunk)
        is_small = stream.tell() <= LARGEST_IN_MEMORY
        stream.seek(0)
        # Arrow takes several times as long to read a Python stream.
        content = pa.BufferReader(stream.read()) if is_small else stream
        found = _parquet_facts(file.key, cast(BinaryIO, content), dms)
        rows = None
        if _is_known_by_rows(file, dms):
            content.seek(0)
            rows = _parquet_rows(cast(BinaryIO, content))
        return replace(found, content=rows or digest.hex)


def _parquet_rows(stream: BinaryIO) -> str | None:
    try:
        with pq.ParquetFile(stream) as parquet:
            return parquet_rows(parquet)
    except (pa.ArrowException, OSError, ValueError):
        return None  # the reader reports what is wrong with it


def _parquet_facts(key: str, stream: BinaryIO, dms: DmsSettings) -> FileInspection:
    try:
        with pq.ParquetFile(stream) as parquet:
            stamps = _first_stamps(parquet, dms.timestamp_column_name)
            return FileInspection(
                rows=parquet.metadata.num_rows,
                columns=_typed_columns(parquet),
                first_commit_ts=commit_time(stamps[0], dms) if stamps else None,
                one_stamp=_are_alike(stamps),
            )
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        refuse_machine_fault(key, error)
        if arrow_lacks(error):
            raise UnsupportedFile(key, str(error)) from error
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        stream.seek(0)
        if stream.read(2) == GZIP_MAGIC:
            # DMS's GZIP means Parquet's own compression, of pages; the name may say `.gz` nevertheless.
            raise UnreadableFile(
                key,
                "it is gzipped as a whole, and Parquet is read from its end; decompress it, or have its writer use "
                "Parquet's own compression",
            ) from error
        raise UnreadableFile(key, f"no valid Parquet ({reason})") from error


def _typed_columns(parquet: pq.ParquetFile) -> tuple[str, ...]:
    """Arrow names the physical unit of every type but INT96, which it reports as nanoseconds."""
    leaves = (parquet.schema.column(number) for number in range(len(parquet.schema)))
    old = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}
    return tuple(
        f"{field.name}:{INT96 if field.name in old else field.type}" for field in parquet.schema_arrow
    )


def _first_stamps(parquet: pq.ParquetFile, column: str | None) -> list[str | datetime | None]:
    """As `_first_values`; none if Arrow lacks their codec."""
    try:
        return _first_values(parquet, column)
    except (pa.ArrowException, OSError) as error:
        if arrow_lacks(error):
            return []
        raise


def _first_values(parquet: pq.ParquetFile, column: str | None) -> list[str | datetime | None]:
    """Values of the first rows, if they are texts or times."""
    if column not in parquet.schema_arrow.names:
        return []
    for batch in parquet.iter_batches(batch_size=_STAMPS, columns=[column], use_threads=False):
        if batch.num_rows:
            values = batch.column(0)
            if pa.types.is_timestamp(values.type):
                # For nanoseconds, Arrow would return a pandas type.
                values = values.cast(pa.timestamp("us", tz=values.type.tz), safe=False)
            return [value if isinstance(value, (str, datetime)) else None for value in values.to_pylist()]
    return []
