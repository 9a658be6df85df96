"""A small table of the platform's own, such as the contracts and the quarantine: appended to, and read whole.

Here: appending by compare-and-set with PyIceberg, without a JVM, and the parsed rows of one snapshot, in memory. Not
here: the meaning of the rows; the file log, which grows with every file (`bronze/log/file_log.py`).
"""

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import NestedField
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lake_assets.config import parse_column
from lake_assets.iceberg.catalog import ensure_namespace
from lake_assets.iceberg.file_io.pyiceberg_private import append_rows
from lake_assets.iceberg.file_io.table_rows import rows, values
from lake_assets.iceberg.lake_format import FORMAT, FORMAT_VERSION, format_of, refuse_newer
from lake_assets.iceberg.ops_access import answered
from lake_assets.iceberg.table_io import add_missing_columns, current_snapshot
from lake_assets.iceberg.upkeep.ops_maintenance import maintain_small_table

NAMESPACE = "lake_ops"
PROPERTIES = {
    # PyIceberg would retry a refused append on top of rows that the decision to append did not see.
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "10",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
    FORMAT: str(FORMAT_VERSION),
}
MOST_REPLACED = 50
"""Limit of the snapshots of a table whose rows are replaced: it may get a commit every few seconds, and nobody needs
its history."""
Row = dict[str, Any]
T = TypeVar("T")


def ops_schema(**columns: str) -> Schema:
    """The columns in this order, each declared as in lake.yaml, such as `number="long not null"`."""
    found = enumerate((parse_column(*column) for column in columns.items()), start=1)
    return Schema(
        *(NestedField(number, column.name, column.type, required=column.required) for number, column in found)
    )


class OpsTable(Generic[T]):
    """Threads may share it; any number of processes may append. A table that does not exist yet counts as empty. Every
    call raises NewerFormat for a table of a newer release."""

    def __init__(
        self, catalog: Catalog, name: str, schema: Schema, parse: Callable[[Sequence[Row]], T]
    ) -> None:
        """`parse` makes the result out of all the rows, which are in no particular order. It is called once for each
        snapshot; callers must not change what it returns."""
        self._catalog = catalog
        self._identifier = f"{NAMESPACE}.{name}"
        self._schema = schema
        self._lock = RLock()
        self._snapshot_id: int | None = None
        self._parse = parse
        self._parsed = parse([])

    def parsed(self) -> T:
        """The parsed rows of the current snapshot."""
        # Without the lock, so that threads do not wait for the catalog one after the other.
        return answered(self._identifier, lambda: self._parsed_of(self._load()))

    def _parsed_of(self, table: Table | None) -> T:
        with self._lock:
            self._take(table)
            return self._parsed

    def append(self, decide: Callable[[T], Sequence[Row]]) -> list[Row]:
        """Appends the rows that `decide` makes of the parsed rows, and returns them; calls it again if another process
        appended meanwhile. Raises PyIceberg's CommitFailedException after thirty lost races in a row."""
        with self._lock:
            return until_won()(self._append_once, decide)

    def replace(self, decide: Callable[[T], Sequence[Row]]) -> None:
        """Replaces all rows by those that `decide` makes of the parsed rows; otherwise as `append`."""
        with self._lock:
            until_won()(self._replace_once, decide)

    def _append_once(self, decide: Callable[[T], Sequence[Row]]) -> list[Row]:
        table = self._refresh()
        new = list(decide(self._parsed))
        if new:
            table = self._with_columns(table) if table is not None else self._created()
            append_rows(table, self._as_arrow(new))
        return new

    def _replace_once(self, decide: Callable[[T], Sequence[Row]]) -> None:
        table = self._refresh()
        new = self._as_arrow(list(decide(self._parsed)))
        if table is not None and _python_rows(table):
            self._with_columns(table).overwrite(new)
        elif new.num_rows:
            append_rows(self._with_columns(table) if table is not None else self._created(), new)
        if table is not None and len(table.metadata.snapshots) > MOST_REPLACED:
            maintain_small_table(table)

    def forget(self, column: str, value: str) -> None:
        """Removes the rows that have the value in the column; does nothing if no row has it. Raises as `append`."""
        with self._lock:
            until_won()(self._change_once, lambda row: None if row[column] == value else row)

    def rename(self, column: str, before: str, after: str) -> None:
        """Replaces a value of one column in all rows; does nothing if no row has it. Raises as `append`."""
        with self._lock:
            until_won()(
                self._change_once, lambda row: row | ({column: after} if row[column] == before else {})
            )

    def _change_once(self, changed: Callable[[Row], Row | None]) -> None:
        """Replaces each row by what `changed` makes of it, or removes it for None."""
        table = self._refresh()
        known = _python_rows(table) if table is not None else []
        found = [new for row in known if (new := changed(row)) is not None]
        if table is not None and found != known:
            self._with_columns(table).overwrite(self._as_arrow(found))

    def _as_arrow(self, rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist(rows, schema=self._schema.as_arrow())

    def _with_columns(self, table: Table) -> Table:
        """The table, with the columns and the format version that one of an earlier release lacks. Raises
        CommitFailedException when another process has written meanwhile: these changes alone would not notice it."""
        if brought_up_to_date(table, self._schema):
            snapshot = current_snapshot(table)
            if snapshot is not None and snapshot.snapshot_id != self._snapshot_id:
                raise CommitFailedException(f"{self._identifier}: another process appended first")
        return table

    def _created(self) -> Table:
        return create_empty(self._catalog, self._identifier, self._schema)

    def _refresh(self) -> Table | None:
        table = self._load()
        self._take(table)
        return table

    def _load(self) -> Table | None:
        try:
            table = self._catalog.load_table(self._identifier)
        except NoSuchTableError:
            return None
        refuse_newer(self._identifier, table.properties)
        return table

    def _take(self, table: Table | None) -> None:
        """Parses the rows of the table, unless they are parsed."""
        snapshot = current_snapshot(table)
        if table is None or snapshot is None:
            self._snapshot_id, self._parsed = None, self._parse([])
        elif snapshot.snapshot_id != self._snapshot_id:
            self._parsed = self._parse(_python_rows(table))
            self._snapshot_id = snapshot.snapshot_id


def create_empty(catalog: Catalog, identifier: str, schema: Schema) -> Table:
    """The new table. Raises CommitFailedException if another process has created it meanwhile, with rows that the
    caller has not seen: an append to it would find no conflict."""
    ensure_namespace(catalog, NAMESPACE)
    table = catalog.create_table_if_not_exists(identifier, schema, properties=PROPERTIES)
    if current_snapshot(table) is not None:
        raise CommitFailedException(f"{identifier}: another process appended first")
    return table


def brought_up_to_date(table: Table, schema: Schema) -> bool:
    """Gives a table of an earlier release the columns and the format version that it lacks; returns whether it lacked
    any. Raises CommitFailedException as `add_missing_columns`."""
    is_older = format_of(table.properties) < FORMAT_VERSION
    if is_older:
        with table.transaction() as transaction:
            transaction.set_properties({FORMAT: str(FORMAT_VERSION)})
    return add_missing_columns(table, schema) or is_older


def until_won(attempts: int = 30) -> Retrying:
    """Calls an append by compare-and-set again until no other process comes first, so many times at most."""
    return Retrying(
        retry=retry_if_exception_type((CommitFailedException, FileNotFoundError)),
        wait=wait_random_exponential(multiplier=0.02, max=1),
        stop=stop_after_attempt(attempts),
        reraise=True,
    )


def _python_rows(table: Table) -> list[Row]:
    found = rows(table.scan())
    columns = [values(column) for column in found.columns]
    return [dict(zip(found.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
