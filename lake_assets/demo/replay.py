"""Reads DMS files back and applies them one row after the other, in plain Python.

Here: a slow, obvious reader of a folder of DMS files, to check the writers. It deliberately shares no code with the
lake's reader or with the writers.
"""

import gzip
import io
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.dms.output_storage import ObjectStorage, open_storage
from lake_assets.demo.source.bike_schema import SCHEMA, TABLES, SourceTable

Replayed = list[dict[str, Any]]
"""A table's rows: Python values, timestamps in UTC, in no particular order."""


class FileRow(NamedTuple):
    """One row of a DMS file as its table's types."""

    key: str
    """The file's key."""
    op: str
    committed_at: str
    sequence: str | None
    """None or empty in a full load; None where no such column is configured."""
    values: dict[str, Any]
    before: tuple[Any, ...] | None
    """The primary key's before image, where there is one."""


def split_csv(text: str) -> Iterator[list[tuple[str, bool]]]:
    """Records of fields with whether they were quoted, per RFC 4180 with `\\n` line ends.

    Python's csv module is not used: it cannot tell a quoted field from an unquoted one.
    """
    record: list[tuple[str, bool]] = []
    at = 0
    while at < len(text):
        if quoted := text[at] == '"':
            pieces = []
            while True:
                end = text.index('"', at + 1)
                pieces.append(text[at + 1 : end])
                if text[end + 1 : end + 2] != '"':
                    break
                pieces.append('"')
                at = end + 1
            field, end = "".join(pieces), end + 1
        else:
            line_end = text.index("\n", at)
            comma = text.find(",", at, line_end)
            end = line_end if comma < 0 else comma
            field = text[at:end]
        record.append((field, quoted))
        if text[end] == "\n":
            yield record
            record = []
        elif text[end] != ",":
            raise ValueError(f"unexpected {text[end]!r} after a field, near {text[at : end + 20]!r}")
        elif text[end + 1] == "\n":
            # The last field is empty.
            yield [*record, ("", False)]
            record, end = [], end + 1
        at = end + 1


def _value(field: str, quoted: bool, type_name: str, settings: DmsWriterSettings) -> Any:
    if field == settings.csv_null_value and not quoted:
        return None
    if type_name == "string":
        return field
    if type_name in ("int", "long"):
        return int(field)
    if type_name == "double":
        return float(field)
    if type_name == "boolean":
        return {"true": True, "false": False}[field]
    if type_name == "date":
        return date.fromisoformat(field)
    if type_name == "timestamptz":
        return datetime.strptime(field, "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
    return Decimal(field)


def _columns(table: SourceTable, settings: DmsWriterSettings, *, full_load: bool) -> list[tuple[str, str]]:
    types = {column.name: column.type for column in table.columns}
    columns = [] if full_load and not settings.include_op_for_full_load else [("Op", "string")]
    columns += [(settings.timestamp_column_name, "string"), *types.items()]
    if settings.change_sequence_column is not None:
        columns.append((settings.change_sequence_column, "string"))
    if settings.before_image_prefix is not None:
        columns += [(settings.before_image_prefix + name, types[name]) for name in table.primary_key]
    return columns


def _records(
    data: bytes, columns: list[tuple[str, str]], settings: DmsWriterSettings
) -> Iterator[dict[str, Any]]:
    names = [name for name, _ in columns]
    if settings.data_format == "parquet":
        arrow = pq.read_table(io.BytesIO(data))
        if arrow.column_names != names:
            raise ValueError(f"expected the columns {names}, found {arrow.column_names}")
        yield from arrow.to_pylist()
        return
    text = (gzip.decompress(data) if settings.compression == "gzip" else data).decode()
    for number, record in enumerate(split_csv(text)):
        if number == 0 and settings.add_column_name:
            if [field for field, _ in record] != names:
                raise ValueError(f"expected the header {names}, found {[field for field, _ in record]}")
            continue
        if len(record) != len(columns):
            raise ValueError(f"record {number} has {len(record)} fields, expected {len(columns)}")
        yield {
            name: _value(field, quoted, type_name, settings)
            for (name, type_name), (field, quoted) in zip(columns, record, strict=True)
        }


def _records_of_table(
    data: bytes, columns: list[tuple[str, str]], table: str, settings: DmsWriterSettings
) -> Iterator[dict[str, Any]]:
    """The table's records in a file of whole transactions: Op, table, schema, and the rest of the columns."""
    text = (gzip.decompress(data) if settings.compression == "gzip" else data).decode()
    for number, (op, name, schema, *rest) in enumerate(split_csv(text)):
        if schema[0] != SCHEMA or name[0] not in TABLES:
            raise ValueError(f"record {number} is of {schema[0]}.{name[0]}, which is not a table")
        if name[0] == table:
            yield {
                column: _value(field, quoted, type_name, settings)
                for (column, type_name), (field, quoted) in zip(columns, [op, *rest], strict=True)
            }


def _is_load(key: str) -> bool:
    return _name(key).startswith("LOAD")


def _name(key: str) -> str:
    return key.rsplit("/", 1)[-1]


def _file_rows(
    storage: ObjectStorage, key: str, table: SourceTable, settings: DmsWriterSettings
) -> Iterator[FileRow]:
    columns = _columns(table, settings, full_load=_is_load(key))
    if _name(key).startswith("CDC_TXN-"):
        records = _records_of_table(storage.read(key), columns, table.name, settings)
    else:
        records = _records(storage.read(key), columns, settings)
    for record in records:
        sequence = record[settings.change_sequence_column] if settings.change_sequence_column else None
        before = None
        if settings.before_image_prefix is not None and table.primary_key:
            before = tuple(record[settings.before_image_prefix + name] for name in table.primary_key)
        yield FileRow(
            key=key,
            op=record.get("Op", "I"),
            committed_at=record[settings.timestamp_column_name],
            sequence=sequence,
            values={name: record[name] for name in table.column_names},
            before=None if before is None or None in before else before,
        )


def read_files(
    location: str | Path, table: str, settings: DmsWriterSettings, *, endpoint_url: str | None = None
) -> tuple[list[FileRow], list[FileRow]]:
    """The rows of a table's LOAD files, and of its CDC files in the order of their change sequence.

    Without that column the order is commit timestamp, file name, row. Raises ValueError for a file without the columns
    of the settings.
    """
    storage = open_storage(location, endpoint_url=endpoint_url)
    keys = sorted(storage.list(f"{SCHEMA}/{table}/"))
    if settings.preserve_transactions:
        keys += sorted(storage.list(f"{settings.cdc_path}/CDC_TXN-"))
    loaded = [
        row for key in keys if _is_load(key) for row in _file_rows(storage, key, TABLES[table], settings)
    ]
    changes = [
        row for key in keys if not _is_load(key) for row in _file_rows(storage, key, TABLES[table], settings)
    ]
    # Sorting is stable, and the rows are read in order of file name and row.
    changes.sort(key=lambda row: row.sequence if row.sequence is not None else row.committed_at)
    return loaded, changes


def replay_files(
    location: str | Path, settings: DmsWriterSettings, *, endpoint_url: str | None = None
) -> dict[str, Replayed]:
    """Each table's rows after its LOAD files and then all its CDC files. Raises ValueError for an unknown Op."""
    return {
        name: _replay(table, *read_files(location, name, settings, endpoint_url=endpoint_url))
        for name, table in TABLES.items()
    }


def _replay(table: SourceTable, loaded: list[FileRow], changes: list[FileRow]) -> Replayed:
    if not table.primary_key:
        return [row.values for row in (*loaded, *changes)]
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in (*loaded, *changes):
        key = tuple(row.values[name] for name in table.primary_key)
        if row.op not in ("I", "U", "D"):
            raise ValueError(f"{row.key} holds Op {row.op!r}; expected I, U or D")
        if row.op == "U" and row.before is not None and row.before != key:
            rows.pop(row.before, None)
        if row.op == "D":
            rows.pop(key, None)
        else:
            rows[key] = row.values
    return list(rows.values())
