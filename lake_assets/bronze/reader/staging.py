"""Rows that this process hands to Spark, for one batch: in a table of Parquet files that nobody else reads.

It is an Iceberg table of the lake's own namespace, because Spark can read whatever the catalog has, wherever it runs
and whoever owns the bucket. `clear` drops the tables. Those of a killed process are dropped by maintenance. Here:
writing, publishing and dropping them. Not here: which rows (`silver/changes/staged_rows.py`,
`bronze/reader/arrow_frame.py`).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Lock
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from lake_assets.iceberg.ops_table import NAMESPACE
from lake_assets.iceberg.table_io import drop, drop_with_files, tables_in
from lake_assets.spark.sql import Sql, quoted

ROWS_OF_A_GROUP = 1 << 17
BYTES_OF_A_GROUP = 64 << 20
"""In memory. A limit of rows is not enough, because a row may have a thousand columns."""
PREFIX = "staged"
"""Prefix of the tables' names."""
LONGEST = timedelta(days=2)
"""After so much time, no batch reads a staged table any more."""
_STAMP = "%Y%m%d%H%M%S"
_PROPERTIES = {
    "format-version": "2",
    # A task for each file: Iceberg would read small ones together.
    "read.split.open-file-cost": str(128 << 20),
    "commit.retry.num-retries": "0",
}
_FIELD = "PARQUET:field_id"


class Staging:
    """The staged rows of one batch. Threads may share it."""

    def __init__(self, catalog: Catalog, spark_catalog: str) -> None:
        """`spark_catalog`: the catalog's name in Spark."""
        self._catalog, self._spark_catalog = catalog, spark_catalog
        self._lock = Lock()
        self._tables: list[StagedTable] = []

    def table(self, schema: pa.Schema) -> "StagedTable":
        """A new table with these columns; lists, of texts, come last. The namespace is there: it has the file log."""
        name = f"{PREFIX}_{datetime.now(UTC):{_STAMP}}_{uuid4().hex[:12]}"
        with_ids = _with_ids(schema)
        made = self._catalog.create_table(f"{NAMESPACE}.{name}", with_ids, properties=_PROPERTIES)
        found = StagedTable(made, with_ids, quoted(self._spark_catalog, NAMESPACE, name))
        with self._lock:
            self._tables.append(found)
        return found

    def clear(self) -> None:
        """Drops the tables. Does not raise: maintenance drops what is left."""
        with self._lock:
            tables, self._tables = self._tables, []
        for table in tables:
            drop_with_files(self._catalog, table.table)


class StagedTable:
    """A table with rows for Spark. Threads may write files of it."""

    def __init__(self, table: Table, schema: pa.Schema, name: Sql) -> None:
        self.table, self.name = table, name
        self._schema = schema
        self._files: list[DataFile] = []

    @contextmanager
    def file(self) -> Iterator["StagedFile"]:
        """A new file, complete after the block."""
        address = f"{self.table.location()}/data/{uuid4().hex}.parquet"
        with self.table.io.new_output(address).create() as stream:
            staged = StagedFile(stream, self._schema)
            try:
                yield staged
                staged.flush()
            finally:
                # Before its stream is closed, also if the file is given up.
                staged.close()
        if staged.rows:
            size = len(self.table.io.new_input(address))
            self._files.append(_data_file(address, staged.rows, size))

    def publish(self) -> None:
        """Makes the rows of the files visible."""
        if self._files:
            with self.table.transaction() as change, change.update_snapshot().fast_append() as append:
                for file in self._files:
                    append.append_data_file(file)


class StagedFile:
    """Collects rows into row groups, however few are added at once."""

    def __init__(self, stream: object, schema: pa.Schema) -> None:
        self.rows = 0
        self._stream, self._schema = stream, schema
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._rows = self._bytes = 0

    def add(self, rows: pa.Table) -> None:
        """Adds rows with the columns of the table, of which texts may be a dictionary's."""
        self._waiting.append(rows)
        self._rows += rows.num_rows
        self._bytes += rows.nbytes
        if self._rows >= ROWS_OF_A_GROUP or self._bytes >= BYTES_OF_A_GROUP:
            self.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def flush(self) -> None:
        if not self._rows:
            return
        rows = pa.concat_tables(self._waiting).unify_dictionaries()
        if self._writer is None:
            # The file is written and read once, so a dictionary of each column takes longer than it saves.
            words = [field.name for field in rows.schema if pa.types.is_dictionary(field.type)]
            fields = [
                field.with_type(rows.schema.field(field.name).type) if field.name in words else field
                for field in self._schema
            ]
            self._writer = pq.ParquetWriter(self._stream, pa.schema(fields), use_dictionary=words)
        self._writer.write_table(rows.cast(self._writer.schema), ROWS_OF_A_GROUP)
        self.rows += self._rows
        self._waiting, self._rows, self._bytes = [], 0, 0


def drop_abandoned(catalog: Catalog, now: datetime) -> int:
    """Drops the staged tables of killed processes; returns their number. Does not raise for one of them."""
    tables = tables_in(catalog, NAMESPACE)
    abandoned = [name for name in tables if (at := _made_at(name)) is not None and now - at > LONGEST]
    for name in abandoned:
        try:
            drop_with_files(catalog, catalog.load_table(name))
        except NoSuchTableError:
            pass  # another process was first
        except FileNotFoundError:  # its metadata is gone
            drop(catalog, name)
    return len(abandoned)


def _made_at(name: str) -> datetime | None:
    """When a staged table was made, UTC; None for another table."""
    found = re.fullmatch(rf"{re.escape(NAMESPACE)}\.{PREFIX}_(\d{{14}})_[0-9a-f]{{12}}", name)
    return None if found is None else datetime.strptime(found[1], _STAMP).replace(tzinfo=UTC)


def _with_ids(schema: pa.Schema) -> pa.Schema:
    """With the ids that Iceberg gives to the columns, and then to the elements of lists."""
    fields, last = [], len(schema)
    for number, field in enumerate(schema, start=1):
        kind = field.type
        if pa.types.is_list(kind):
            last += 1
            kind = pa.list_(pa.field("element", kind.value_type, metadata={_FIELD: str(last)}))
        fields.append(pa.field(field.name, kind, metadata={_FIELD: str(number)}))
    return pa.schema(fields)


def _data_file(address: str, rows: int, size: int) -> DataFile:
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=address,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=size,
        spec_id=0,
    )
