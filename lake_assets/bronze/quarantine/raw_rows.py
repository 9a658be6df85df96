"""Single records of a file in their raw text, to show a row that cannot be used.

Here: the records of a file by their ordinal, with their line and text. Not here: which rows are shown, or where they
are stored.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.bronze.files.content import UnreadableFile, chunks, lines, whole
from lake_assets.bronze.files.csv_dialect import QUOTE, CsvDialect
from lake_assets.bronze.files.csv_records import csv_records
from lake_assets.bronze.files.inspect import LARGEST_IRREGULAR
from lake_assets.bronze.files.json_lines import all_lines, is_blank
from lake_assets.bronze.files.keys import TRANSACTIONS
from lake_assets.bronze.files.transactions import table_of
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, table_text
from lake_assets.storage.object_store import ObjectStore


@dataclass(frozen=True, slots=True)
class RawRow:
    """One record."""

    line: int
    """The physical line, from 1, in which the record starts, including the header; for Parquet the row, from 1."""
    text: str
    """The text in the file, without the record's end; bytes that are not UTF-8 as `\\xff`. For Parquet, the row as
    JSON."""


def raw_records(
    store: ObjectStore, file: LoggedFile, dms: DmsSettings, ordinals: Collection[int]
) -> dict[int, RawRow]:
    """The records with these ordinals (from 0, without the header; in a transaction file, among the rows of its own
    table), as far as the file has them. Reads the file up to the last of them. Raises StoreError, UnreadableFile."""
    if not ordinals:
        return {}
    if file.format == "parquet":
        return _parquet_rows(store, file, set(ordinals))
    end = CsvDialect.of(dms).row_delimiter if file.format in ("csv", TRANSACTIONS) else b"\n"
    last, found, line = max(ordinals), {}, 1
    for ordinal, record in numbered_records(store, file, dms):
        if ordinal is not None and ordinal in ordinals:
            # The record's bytes include a byte order mark or an empty line before it.
            found[ordinal] = RawRow(line, record.removesuffix(end).decode(errors="backslashreplace"))
        if ordinal == last:
            break
        line += record.count(b"\n") if end != b"\r" else record.count(b"\r")
    return found


def numbered_records(
    store: ObjectStore, file: LoggedFile, dms: DmsSettings
) -> Iterator[tuple[int | None, bytes]]:
    """Every record of a text file with its end, and its ordinal as of `raw_records`; None for a record that is no row
    of the file's own table. Together they are the whole file, but for the byte order mark of JSON lines."""
    ordinal = -1 - int(file.format == "csv" and dms.add_column_name)
    for record in _records(store, file, dms):
        is_row = _is_row(record, file, dms)
        ordinal += is_row
        yield (ordinal if is_row and ordinal >= 0 else None), record


def _is_row(record: bytes, file: LoggedFile, dms: DmsSettings) -> bool:
    """Whether a record is a row of the file's own table."""
    if file.format == TRANSACTIONS:
        return table_of(record, dms) in {table_text(file.schema, name) for name in file.names}
    return file.format != "json" or not is_blank(record)


def _records(store: ObjectStore, file: LoggedFile, dms: DmsSettings) -> Iterator[bytes]:
    if file.format == "json":
        yield from all_lines(chunks(store, file.path, file.compression))
    elif file.irregular is None:
        yield from _regular(chunks(store, file.path, file.compression), CsvDialect.of(dms))
    else:
        content = whole(store, file.path, file.compression, LARGEST_IRREGULAR)
        at = 0
        for record in csv_records(content, CsvDialect.of(dms)):
            yield content[at : record.end]
            at = record.end


def _regular(pieces: Iterator[bytes], dialect: CsvDialect) -> Iterator[bytes]:
    """The records of a regular CSV file, by the parity of its quotes."""
    record = b""
    for line in lines(pieces, dialect.row_delimiter):
        record += line
        if not dialect.quoted or record.count(QUOTE) % 2 == 0:
            yield record
            record = b""
    if record:
        yield record


def _parquet_rows(store: ObjectStore, file: LoggedFile, ordinals: set[int]) -> dict[int, RawRow]:
    found, first = {}, 0
    try:
        with store.open(file.path, seekable=True) as stream, pq.ParquetFile(stream) as parquet:
            for group in range(parquet.num_row_groups):
                rows = parquet.metadata.row_group(group).num_rows
                wanted = sorted(ordinal for ordinal in ordinals if first <= ordinal < first + rows)
                if wanted:
                    table = parquet.read_row_group(group)
                    for ordinal in wanted:
                        row = table.slice(ordinal - first, 1)
                        found[ordinal] = RawRow(ordinal + 1, _as_json(row))
                first += rows
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnreadableFile(file.key, f"no valid Parquet ({error})") from error
    return found


def _as_json(row: pa.Table) -> str:
    values = {}
    for name, column in zip(row.column_names, row.columns, strict=True):
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            value = column[0].as_py()
            values[name] = value.hex() if value is not None else None
        elif pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
            values[name] = column[0].as_py()
        else:
            # Arrow's own text of a value: exact, and for any year. A text in the file may not be UTF-8.
            text = column.cast(pa.string()).cast(pa.binary())[0].as_py()
            values[name] = text.decode(errors="backslashreplace") if text is not None else None
    return json.dumps(values, ensure_ascii=False)
