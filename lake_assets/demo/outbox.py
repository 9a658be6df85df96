"""Changes of a live feed that no CDC file has yet, kept in the source database.

Here: storing changes inside the transaction that makes them, and moving them to files so that a kill at any moment
neither loses nor doubles one. Not here: when a table flushes (`feed.py`).

A file is written in three steps. Its name and last change sequence are recorded in `_files`. It is written atomically
with the changes up to that sequence. One transaction deletes these changes from the outbox and marks the file as
written. After a death between two steps, the next process repeats the rest with the same name and bytes.
"""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from lake_assets.demo.dms.dms_files import TRANSACTIONS, cdc_key, encode_cdc_file, flush_time, stream_of
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.dms.output_storage import ObjectStorage
from lake_assets.demo.dms.written_files import WrittenFiles
from lake_assets.demo.source.source_changes import Change
from lake_assets.demo.source.source_database import SourceDatabase

_OF_STREAM = f"(:stream = '{TRANSACTIONS}' OR table_name = :stream)"


class Outbox:
    """The sink of a live feed's changes."""

    def __init__(
        self,
        database: SourceDatabase,
        storage: ObjectStorage,
        settings: DmsWriterSettings,
        written: WrittenFiles,
    ) -> None:
        self._database = database
        self._connection = database.connection
        self._storage = storage
        self._settings = settings
        self._written = written
        self.taken = 0
        """Changes since this process began."""
        self.first_commits = self._find_first_commits()
        """By stream (a table, or all tables), the commit timestamp of its oldest waiting change."""

    def _find_first_commits(self) -> dict[str, datetime]:
        found = self._connection.execute(
            "SELECT table_name, min(committed_at) FROM _outbox GROUP BY table_name"
        )
        first_commits: dict[str, datetime] = {}
        for name, first in found:
            stream, at = stream_of(name, self._settings), datetime.fromisoformat(first + "+00:00")
            first_commits[stream] = min(at, first_commits.get(stream, at))
        return first_commits

    def commit(self, changes: Sequence[Change]) -> None:
        """Keep a transaction's changes; part of its SQLite transaction."""
        self._connection.executemany(
            "INSERT INTO _outbox VALUES (?, ?, ?, ?, ?, ?)",
            [
                (
                    change.sequence,
                    change.table,
                    change.op,
                    change.committed_at,
                    None if change.before_key is None else json.dumps(change.before_key),
                    json.dumps(change.image),
                )
                for change in changes
            ],
        )
        for change in changes:
            self.first_commits.setdefault(stream_of(change.table, self._settings), self._database.last_commit)
        self.taken += len(changes)
        self._written.transactions += 1

    def finish_files(self) -> None:
        """Write every file that has a name and is not marked as written: the work of a process that died."""
        unfinished = self._connection.execute(
            "SELECT key, table_name, last_sequence FROM _files WHERE NOT written ORDER BY key"
        ).fetchall()
        for key, stream, last_sequence in unfinished:
            self._write(key, stream, last_sequence)

    def flush(self, stream: str, now: datetime) -> None:
        """Write all waiting changes of a stream to a CDC file named by `now`, or just after the stream's last file."""
        last_sequence = self._connection.execute(
            f"SELECT max(sequence) FROM _outbox WHERE {_OF_STREAM}", {"stream": stream}
        ).fetchone()[0]
        if last_sequence is None:
            return
        newest = self._connection.execute(
            "SELECT max(key) FROM _files WHERE table_name = ?", (stream,)
        ).fetchone()[0]
        if newest is not None:
            now = max(now, flush_time(newest) + timedelta(milliseconds=1))
        key = cdc_key(stream, now, self._settings)
        self._connection.execute("INSERT INTO _files VALUES (?, ?, ?, 0)", (key, stream, last_sequence))
        self._write(key, stream, last_sequence)

    def _write(self, key: str, stream: str, last_sequence: str) -> None:
        found = self._connection.execute(
            "SELECT table_name, op, committed_at, sequence, before_key, image FROM _outbox"
            f" WHERE {_OF_STREAM} AND sequence <= :last ORDER BY sequence",
            {"stream": stream, "last": last_sequence},
        ).fetchall()
        changes = [
            Change(
                name,
                op,
                at,
                sequence,
                None if before is None else tuple(json.loads(before)),
                tuple(json.loads(image)),
            )
            for name, op, at, sequence, before, image in found
        ]
        data, rows = encode_cdc_file(stream, changes, self._settings)
        self._storage.write(key, data)
        self._forget(key, stream, last_sequence)
        self._written.cdc_files += 1
        for (table, op), number in rows.items():
            self._written.rows[table] += number
            self._written.ops[op] += number
        self.first_commits = self._find_first_commits()

    def _forget(self, key: str, stream: str, last_sequence: str) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(
            f"DELETE FROM _outbox WHERE {_OF_STREAM} AND sequence <= :last",
            {"stream": stream, "last": last_sequence},
        )
        self._connection.execute("UPDATE _files SET written = 1 WHERE key = ?", (key,))
        # Only the newest name is needed, to stay above it.
        self._connection.execute(
            "DELETE FROM _files WHERE table_name = ? AND written AND key < ?", (stream, key)
        )
        self._connection.execute("COMMIT")
