"""Writes what lands into the source's location, and says of it what the log needs.

Here: the names of the objects, and their inspection, which is that of any file. Not here: their content
(`landed_files.py`, `table_definitions.py`), logging them (`landing.py`, `merging.py`).
"""

import secrets
from dataclasses import dataclass, replace
from datetime import datetime
from typing import cast

from lake_assets.bronze.files.inspect import inspect_file
from lake_assets.bronze.files.inspection import FileInspection
from lake_assets.bronze.files.keys import DataFile, FileKind
from lake_assets.bronze.log.log_record import NewFile
from lake_assets.config import LANDED, TableName
from lake_assets.storage.object_store import ObjectStore
from lake_assets.storage.one_object import OneObject

CARRIER = "_stream"
"""The folder of the messages that are no row: control records, and what cannot be read."""


@dataclass(frozen=True, slots=True)
class LandedObject:
    """An object that is still to be written."""

    data: DataFile
    content: bytes
    inspected: FileInspection

    def written(self, store: ObjectStore) -> NewFile:
        """Writes it. Raises StoreError."""
        obj = store.write(self.data.key, self.content)
        version = store.version(obj)
        return NewFile.of(
            obj, self.data, version, self.inspected, schema=self.data.schema, table=self.data.table
        )


def rows_object(
    table: TableName, kind: FileKind, at: datetime, content: bytes, first: datetime | None
) -> LandedObject:
    """A file of rows, as CSV in gzip. `at`: the time on DMS's clock, by which a reload is recognised, UTC. `first`: its
    earliest commit."""
    data = _data_file(table, kind, at, "csv", "gzip")
    return LandedObject(data, content, replace(_inspected(data, content), first_commit_ts=first))


def definition_object(table: TableName, at: datetime, content: bytes) -> LandedObject:
    """A Parquet file without rows, from whose columns silver learns those of the table."""
    data = _data_file(table, FileKind.CDC, at, "parquet", "none")
    return LandedObject(data, content, _inspected(data, content))


def carrier_object(at: datetime, content: bytes) -> LandedObject:
    """The messages of one landing that are no row, if any, as JSON lines in gzip."""
    key = f"{CARRIER}/{_name(FileKind.CDC, at)}.json.gz"
    data = DataFile(key, "", "", FileKind.CDC, "json", "gzip", at, at.date())
    return LandedObject(data, content, FileInspection(rows=0))


def _data_file(table: TableName, kind: FileKind, at: datetime, form: str, compression: str) -> DataFile:
    ending = f"{form}.gz" if compression == "gzip" else form
    flushed = at if kind is FileKind.CDC else None
    day = flushed.date() if flushed else None
    key = f"{table.prefix}{_name(kind, at)}.{ending}"
    return DataFile(key, table.schema, table.table, kind, form, compression, flushed, day)


def _name(kind: FileKind, now: datetime) -> str:
    own = secrets.token_hex(6)
    if kind is FileKind.LOAD:
        return f"LOAD00000001-{own}"
    return f"{now:%Y%m%d-%H%M%S}{now.microsecond // 1000:03d}-{own}"


def _inspected(data: DataFile, content: bytes) -> FileInspection:
    return inspect_file(cast(ObjectStore, OneObject(content)), data, LANDED)
