"""A record of the file log, in Python and in Iceberg.

Here: the two record types, the log's Iceberg schema, and the conversion between them. Not here: reading
(`log_view.py`), writing (`file_log.py`), deciding (`admission.py`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import date, datetime
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression, GreaterThan, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from lake_assets.bronze.files.inspection import FileInspection
from lake_assets.bronze.files.keys import TRANSACTIONS, DataFile, FileKind, TransactionFile
from lake_assets.config import TableName, table_text
from lake_assets.iceberg.file_io.table_rows import values
from lake_assets.storage.stored_object import StoredObject


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile(FileInspection):
    """A file that the log may not know yet, or one table's share of a transaction file. Times are UTC, sizes bytes."""

    schema: str
    table: str
    key: str
    version: str
    """S3's ETag, or the SHA-256 of a local file."""
    kind: FileKind
    format: str
    """csv, parquet, json or transactions."""
    compression: str
    size: int
    """Size of the whole file."""
    last_modified: datetime
    flush_time: datetime | None
    capture_date: date
    partitions: tuple[str, ...] = ()
    """In a table with `folders`: the folders in its schema, or the names in a transaction file, whose rows these are;
    empty for the table's own. The log stores each of them as a table of its own."""
    copy_of: int | None = None
    """Offset of the record with the same content: see `copies.py`. A copy changes no table."""

    @classmethod
    def of(
        cls,
        obj: StoredObject,
        file: DataFile | TransactionFile,
        version: str,
        found: FileInspection,
        *,
        schema: str,
        table: str,
        partitions: tuple[str, ...] = (),
    ) -> "NewFile":
        """The record of a listed and inspected file."""
        return cls(
            schema=schema,
            table=table,
            key=file.key,
            version=version,
            kind=file.kind,
            format=file.format,
            compression=file.compression,
            size=obj.size,
            last_modified=obj.last_modified,
            flush_time=file.flush_time,
            capture_date=file.capture_date or obj.last_modified.date(),
            partitions=partitions,
            **{field.name: getattr(found, field.name) for field in fields(FileInspection)},
        )

    @property
    def qualified_table(self) -> str:
        return table_text(self.schema, self.table)

    @property
    def stream(self) -> tuple[str, str]:
        """Schema and folder, or name in a transaction file: full loads, copies and vanished files are told by it."""
        return self.schema, self.partitions[0] if self.partitions else self.table

    @property
    def names(self) -> frozenset[str]:
        """The tables that rows of a transaction file name, and that are this record's."""
        return frozenset(self.partitions or (self.table,))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedFile(NewFile):
    """One record of the log: a file, or one table's share of a transaction file. Times are UTC, sizes bytes."""

    offset: int
    """From 1, without gaps, over all sources."""
    source: str
    logged_at: datetime
    epoch: int
    """The full load that a LOAD file belongs to, or that was open when a CDC file was logged; from 1."""
    ranges: str | None = None
    """What a landing has read of the shards of a stream (`streams/stream_positions.py`); its first record has it."""
    retry: bool = False
    """Not a new file: the quarantined rows of a known file are to be read again, by the contract of this offset."""
    moved_to: str | None = None
    """The key of the object that has the content now, if it differs from `key`. Not a column of the log."""
    chain: int | None = None
    """The offset of the file's first record, if the file has had several objects (see `copies.py`). Not a column of the
    log."""
    placed_at: int | None = None
    """The offset of the record of the object that has the content now, if the file has had several objects. Not a
    column of the log."""

    @property
    def file(self) -> int | str:
        """What the records of one file have in common, whatever the names and contents of its objects."""
        return self.key if self.chain is None else self.chain

    @property
    def counted_among(self) -> str | None:
        """Of a transaction file, the names whose rows are the table's, a line each: places count among these."""
        return "\n".join(sorted(self.names)) if self.format == TRANSACTIONS else None

    @property
    def entry(self) -> object:
        """What the records have in common that a transaction file got at one time; of other files, each its own."""
        if self.format != TRANSACTIONS:
            return self.offset
        return self.key, self.version, self.logged_at, self.retry

    @property
    def path(self) -> str:
        """The key to read."""
        return self.moved_to or self.key

    @property
    def written_at(self) -> datetime:
        """When the file was written, or for a full load when it began: on DMS's clock where the file has a time of
        DMS."""
        return self.flush_time or self.first_commit_ts or self.last_modified


_TYPES: dict[str, tuple[IcebergType, bool]] = {
    "offset": (LongType(), True),
    "source": (StringType(), True),
    "schema": (StringType(), True),
    "table": (StringType(), True),
    "key": (StringType(), True),
    "version": (StringType(), True),
    "kind": (StringType(), True),
    "format": (StringType(), True),
    "compression": (StringType(), True),
    "size": (LongType(), True),
    "last_modified": (TimestamptzType(), True),
    "logged_at": (TimestamptzType(), True),
    "flush_time": (TimestamptzType(), False),
    "capture_date": (DateType(), True),
    "epoch": (IntegerType(), True),
    "rows": (LongType(), False),
    "columns": (ListType(1001, StringType(), element_required=True), False),
    "first_commit_ts": (TimestamptzType(), False),
    "width": (IntegerType(), False),
    "irregular": (StringType(), False),
    "retry": (BooleanType(), False),
    "content": (StringType(), False),
    "copy_of": (LongType(), False),
    "one_stamp": (BooleanType(), False),
    "ranges": (StringType(), False),
}
_FIELDS = tuple(_TYPES)
assert {*_FIELDS, "moved_to", "chain", "placed_at", "partitions"} == {
    field.name for field in fields(LoggedFile)
}

LOG_SCHEMA = Schema(
    *(
        NestedField(number, name, kind, required=required)
        for number, (name, (kind, required)) in enumerate(_TYPES.items(), start=1)
    )
)


def above(offset: int) -> BooleanExpression:
    """The filter of a scan for the records after an offset."""
    return GreaterThan(term=Reference("offset"), value=literal(offset))


def to_arrow(files: Sequence[LoggedFile]) -> pa.Table:
    """One row per file, in LOG_SCHEMA."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    # Without field ids: they differ between a log that gained a column later and a log created with it.
    schema: pa.Schema = schema_to_pyarrow(LOG_SCHEMA, include_field_ids=False)
    columns = [pa.array([_stored(file, name) for file in files], schema.field(name).type) for name in _FIELDS]
    return pa.Table.from_arrays(columns, schema=schema)


def _stored(file: LoggedFile, name: str) -> Any:
    return file.stream[1] if name == "table" else getattr(file, name)


Owner = Callable[[str, TableName], TableName | None]
"""Called with a source and a stored table's name: the table with `folders` to which its rows belong, or None."""


def of_nobody(source: str, table: TableName) -> TableName | None:
    """The owner in a lake without `folders`."""
    return None


def from_arrow(table: pa.Table, owner: Owner = of_nobody) -> Iterator[LoggedFile]:
    """The files, in the order of their offsets. Equal names and headers share one object in memory."""
    shared: dict[object, object] = {}
    columns = []
    for name in _FIELDS:
        # A log that no writer has opened since the column was introduced lacks it.
        known = name in table.column_names
        found: list[Any] = values(table.column(name)) if known else [None] * table.num_rows
        if name == "kind":
            found = [FileKind(value) for value in found]
        elif name == "retry":
            found = [bool(value) for value in found]
        elif name == "columns":
            found = [None if value is None else tuple(value) for value in found]
        if name in ("source", "schema", "table", "format", "compression", "columns", "capture_date"):
            found = [shared.setdefault(value, value) for value in found]
        columns.append(found)
    for row in sorted(zip(*columns, strict=True), key=itemgetter(0)):
        record = LoggedFile(**dict(zip(_FIELDS, row, strict=True)))
        own = owner(record.source, TableName(record.schema, record.table))
        yield record if own is None else replace(record, table=own.table, partitions=(record.table,))


def in_tables(records: Iterable[LoggedFile]) -> list[LoggedFile]:
    """The records as tables see them: those of one transaction file, which the log has for each name in it, are one
    record for a table with `folders`, at the last of their offsets."""
    found: dict[object, LoggedFile] = {}
    for record in records:
        place = record.entry
        if record.format == TRANSACTIONS:
            place = record.source, record.qualified_table, place
        before = found.pop(place, None)
        found[place] = record if before is None else _with_share(record, before)
    return list(found.values())


def _with_share(record: LoggedFile, before: LoggedFile) -> LoggedFile:
    counts = (before.rows, record.rows)
    times = [at for at in (before.first_commit_ts, record.first_commit_ts) if at is not None]
    return replace(
        record,
        partitions=tuple(sorted(before.names | record.names)),
        rows=None if None in counts else sum(count for count in counts if count is not None),
        first_commit_ts=min(times, default=None),
        irregular=record.irregular or before.irregular,
        epoch=max(before.epoch, record.epoch),
    )


def apart(files: Iterable[LoggedFile]) -> Iterator[LoggedFile]:
    """The records to log for records that `in_tables` has put together; the first of them counts all rows."""
    for file in files:
        for place, name in enumerate(file.partitions or (file.table,)):
            own = () if name == file.table else (name,)
            yield replace(file, partitions=own, rows=0 if place else file.rows)
