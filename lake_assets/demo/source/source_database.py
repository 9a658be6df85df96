"""The company's database in SQLite, with which the lake is compared.

Here: the tables, transactions with commit timestamps, and the state with which a later process continues (last commit,
sequence counter, each bike's place). Not here: the company's operations (`demo/company/city.py` and the modules around
it), or files (`dms_*.py`, `demo/outbox.py`).

The rows of keyed tables are mirrored in memory, because a simulation reads far more than it writes. Every change is
also executed as SQL, so that SQLite enforces keys and NOT NULL and holds the final state.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lake_assets.demo.source.bike_schema import TABLES, Column, SourceTable
from lake_assets.demo.source.source_changes import (
    SEQUENCE_STEP,
    TRANSACTION_STEP,
    Change,
    ChangeSink,
    change_sequence,
)
from lake_assets.demo.source.source_values import (
    RowCodec,
    Stored,
    from_microseconds,
    timestamp_text,
    to_microseconds,
)

Row = dict[str, Any]
Key = int | tuple[int, ...]
"""A single-column primary key is the bare number."""


def _sqlite_type(column: Column) -> str:
    if column.type in ("int", "long", "boolean"):
        return "INTEGER"
    return "REAL" if column.type == "double" else "TEXT"


def _create_sql(table: SourceTable) -> str:
    parts = [
        f"{column.name} {_sqlite_type(column)}{' NOT NULL' if column.required else ''}"
        for column in table.columns
    ]
    if table.primary_key:
        parts.append(f"PRIMARY KEY ({', '.join(table.primary_key)})")
    return f"CREATE TABLE {table.name} ({', '.join(parts)}) STRICT"


_PRIVATE_TABLES = (
    "CREATE TABLE _state (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE _bike_places (bike_id INTEGER PRIMARY KEY, station_id INTEGER NOT NULL)",
    "CREATE TABLE _outbox (sequence TEXT PRIMARY KEY, table_name TEXT NOT NULL, op TEXT NOT NULL,"
    " committed_at TEXT NOT NULL, before_key TEXT, image TEXT NOT NULL)",
    "CREATE TABLE _files (key TEXT PRIMARY KEY, table_name TEXT NOT NULL, last_sequence TEXT NOT NULL,"
    " written INTEGER NOT NULL)",
)


class _TableAccess:
    """A table's statements, codec and mirrored rows."""

    def __init__(self, table: SourceTable) -> None:
        self.table = table
        self.codec = RowCodec(table)
        self.rows: dict[Key, Row] = {}
        self.key_columns = frozenset(table.primary_key)
        where = " AND ".join(f"{name} = ?" for name in table.primary_key)
        self.insert_sql = f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(table.columns))})"
        assignments = ", ".join(f"{name} = ?" for name in table.column_names)
        self.update_sql = f"UPDATE {table.name} SET {assignments} WHERE {where}"
        self.delete_sql = f"DELETE FROM {table.name} WHERE {where}"
        self.select_sql = (
            f"SELECT {', '.join(table.column_names)} FROM {table.name}"
            f" ORDER BY {', '.join(table.primary_key) or 'rowid'}"
        )

    def key_of(self, row: Row) -> Key:
        names = self.table.primary_key
        return row[names[0]] if len(names) == 1 else tuple(row[name] for name in names)


class SourceDatabase:
    """Opens the database at `path`, or creates an empty one there.

    With `commit_each`, every transaction is a separate SQLite transaction (a kill loses none that returned). Without
    it, they accumulate until `save()`, so that a history of 200,000 changes takes only seconds.
    """

    def __init__(self, path: Path, *, create: bool = False, commit_each: bool = True) -> None:
        if create == path.exists():
            raise FileExistsError(path) if create else FileNotFoundError(path)
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.commit_each = commit_each
        self.sink: ChangeSink | None = None
        self._tables = {name: _TableAccess(table) for name, table in TABLES.items()}
        if create:
            self.connection.execute("PRAGMA journal_mode = OFF")
            self.connection.execute("PRAGMA synchronous = OFF")
            for statement in (*map(_create_sql, TABLES.values()), *_PRIVATE_TABLES):
                self.connection.execute(statement)
        else:
            # Readers (a comparison) and the feed do not wait for each other; a killed process loses nothing.
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA synchronous = NORMAL")
        self._last_commit = int(self.get_state("last_commit", 0))
        self._counter = int(self.get_state("counter", 0))
        self._highest_ids: dict[str, int] = self.get_state("highest_ids", {})
        self.load_rows()

    def load_rows(self) -> None:
        """Mirror the keyed tables again; needed after `insert_initial`."""
        for access in self._tables.values():
            if access.table.primary_key:
                decoded = map(access.codec.decode, self.connection.execute(access.select_sql))
                access.rows = {access.key_of(row): row for row in decoded}

    def rows(self, table: str) -> dict[Key, Row]:
        """A keyed table's rows by key. To be read only: changes go through a transaction."""
        return self._tables[table].rows

    def forget(self, table: str, keys: Iterable[Key]) -> None:
        """Drop rows from the mirror in memory; they stay in the table, but can no longer be changed."""
        for key in keys:
            self._tables[table].rows.pop(key, None)

    def stored_rows(self, table: str) -> Iterator[tuple[Stored, ...]]:
        """A table's rows in stored form, in key order (without a key: in order of insertion)."""
        return self.connection.execute(self._tables[table].select_sql)

    def insert_initial(self, table: str, rows: Sequence[Row]) -> None:
        """Inserts rows that exist before the history starts: they have no commit and make no change."""
        access = self._tables[table]
        self._begin()
        self.connection.executemany(access.insert_sql, map(access.codec.encode, rows))

    def get_state(self, name: str, default: Any) -> Any:
        """A value that an earlier process left with `set_state`."""
        found = self.connection.execute("SELECT value FROM _state WHERE name = ?", (name,)).fetchone()
        return default if found is None else json.loads(found[0])

    def set_state(self, name: str, value: Any) -> None:
        """Keeps a value for a later process. Takes part in the running SQLite transaction, if there is one."""
        self.connection.execute("INSERT OR REPLACE INTO _state VALUES (?, ?)", (name, json.dumps(value)))

    def next_id(self, kind: str, *, first: int = 1) -> int:
        """A number never given out before for this kind of row, as from an SQL sequence; never less than `first`."""
        self._highest_ids[kind] = max(self._highest_ids.get(kind, 0) + 1, first)
        return self._highest_ids[kind]

    @property
    def last_commit(self) -> datetime:
        """Commit timestamp of the newest transaction, UTC."""
        return from_microseconds(self._last_commit)

    def transaction(self, at: datetime) -> "Transaction":
        """A transaction that commits at `at`, or just after the newest commit if that is later."""
        self._last_commit = max(to_microseconds(at), self._last_commit + 1)
        return Transaction(self, from_microseconds(self._last_commit))

    def save(self) -> None:
        """Make durable what was committed so far."""
        self._begin()
        self.set_state("last_commit", self._last_commit)
        self.set_state("counter", self._counter)
        self.set_state("highest_ids", self._highest_ids)
        self.connection.execute("COMMIT")

    def close(self) -> None:
        """Closes the database. SQLite rolls back unsaved transactions."""
        self.connection.close()

    def _begin(self) -> None:
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")


class Transaction:
    """Changes that commit together: one commit timestamp, consecutive change sequences, all or none."""

    def __init__(self, database: SourceDatabase, at: datetime) -> None:
        self.at = at
        """The commit timestamp, UTC."""
        self._database = database
        self._connection = database.connection
        self._tables = database._tables
        self._committed_at = timestamp_text(at)
        self._changes: list[Change] = []

    def __enter__(self) -> Self:
        self._database._begin()
        self._database._counter += TRANSACTION_STEP
        return self

    def insert(self, table: str, row: Row) -> None:
        """Raises sqlite3.IntegrityError for a key that exists, ValueError for columns not in source order."""
        access = self._tables[table]
        if tuple(row) != access.table.column_names:
            raise ValueError(f"{table} has columns {access.table.column_names}, not {tuple(row)}")
        image = access.codec.encode(row)
        self._connection.execute(access.insert_sql, image)
        if access.key_columns:
            access.rows[access.key_of(row)] = row
        self._record(table, "I", None, image)

    def update(self, table: str, key: Key, **values: Any) -> None:
        """Set columns of the row at `key`, also the primary key's own. Raises KeyError for an unknown key or column."""
        access = self._tables[table]
        old = access.rows[key]
        new = {**old, **values}
        if len(new) != len(old):
            raise KeyError(f"{table} has no column among {sorted(values.keys() - old.keys())}")
        image = access.codec.encode(new)
        before = key if isinstance(key, tuple) else (key,)
        if self._connection.execute(access.update_sql, (*image, *before)).rowcount != 1:
            raise RuntimeError(f"{table} {key}: the source database and its mirror in memory disagree")
        if not access.key_columns.isdisjoint(values):
            del access.rows[key]
            self._database._counter += SEQUENCE_STEP
        access.rows[access.key_of(new)] = new
        self._record(table, "U", before, image)

    def delete(self, table: str, key: Key) -> None:
        """Raises KeyError for an unknown key."""
        access = self._tables[table]
        image = access.codec.encode(access.rows.pop(key))
        before = key if isinstance(key, tuple) else (key,)
        if self._connection.execute(access.delete_sql, before).rowcount != 1:
            raise RuntimeError(f"{table} {key}: the source database and its mirror in memory disagree")
        self._record(table, "D", None, image)

    def place_bike(self, bike_id: int, station_id: int | None) -> None:
        """Sets the bike's station (None: in no rack); private to the simulation, never in a file."""
        if station_id is None:
            self._connection.execute("DELETE FROM _bike_places WHERE bike_id = ?", (bike_id,))
        else:
            self._connection.execute(
                "INSERT OR REPLACE INTO _bike_places VALUES (?, ?)", (bike_id, station_id)
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            # The mirror in memory has changes that were not committed; only a new process can read the correct state.
            self._database.close()
            return
        if self._database.sink is not None and self._changes:
            self._database.sink.commit(self._changes)
        if self._database.commit_each:
            self._database.save()

    def _record(
        self, table: str, op: str, before_key: tuple[Stored, ...] | None, image: tuple[Stored, ...]
    ) -> None:
        self._database._counter += SEQUENCE_STEP
        sequence = change_sequence(self._committed_at, self._database._counter)
        self._changes.append(Change(table, op, self._committed_at, sequence, before_key, image))
