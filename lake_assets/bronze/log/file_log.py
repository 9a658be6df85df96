"""The file log: every file of every source, once, with an offset.

Here: the append-only Iceberg table `lake_ops.bronze_files`, read and written with PyIceberg, without a JVM. Not here:
which files enter it (`admission.py`), its columns (`log_record.py`), its copy in memory (`log_view.py`), keeping it
small (`file_log_maintenance.py`).

An append is a compare-and-set. PyIceberg asserts that main is where the transaction found it, but then retries a
refused commit with the same offsets, which another process has taken meanwhile. So the table property allows PyIceberg
no retries, and the log's own retries read it first.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from threading import RLock

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitStateUnknownException, NoSuchTableError
from pyiceberg.expressions import EqualTo, LessThanOrEqual, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.table import Table

from lake_assets.bronze.log.admission import new_records
from lake_assets.bronze.log.file_log_maintenance import maintain_file_log, needs_maintenance
from lake_assets.bronze.log.known import Known
from lake_assets.bronze.log.landed_records import landed_records
from lake_assets.bronze.log.log_record import (
    LOG_SCHEMA,
    LoggedFile,
    NewFile,
    Owner,
    above,
    apart,
    in_tables,
    of_nobody,
    to_arrow,
)
from lake_assets.bronze.log.log_view import FIRST_OFFSET, LogReading, LogView, scan
from lake_assets.bronze.log.streams.merged_records import replace_records
from lake_assets.bronze.log.streams.stream_positions import Created, Note, Read
from lake_assets.bronze.log.streams.transaction_chain import Transactions
from lake_assets.config import TableName
from lake_assets.iceberg.catalog import ensure_namespace
from lake_assets.iceberg.file_io.pyiceberg_private import append_rows
from lake_assets.iceberg.lake_format import refuse_newer
from lake_assets.iceberg.ops_access import answered, competing, room
from lake_assets.iceberg.ops_table import NAMESPACE, PROPERTIES
from lake_assets.iceberg.table_io import add_missing_columns

__all__ = ["TABLE", "FileLog", "LoggedFile", "NewFile"]

TABLE = f"{NAMESPACE}.bronze_files"
_utc_now = partial(datetime.now, UTC)
_logger = logging.getLogger(__name__)


class FileLog:
    """The log in one catalog. May be shared between threads; any number of processes may append.

    A log that does not exist yet is empty; one of a newer release raises NewerFormat. `newest`, `head` and `append`
    read the whole log once, and afterwards only new records (about 1 kB of memory per file); `files`, if called before
    them, reads only the records that match.
    """

    def __init__(
        self,
        catalog: Catalog,
        clock: Callable[[], datetime] = _utc_now,
        owner: Owner = of_nobody,
    ) -> None:
        """`owner`: which tables with `folders` lake.yaml has."""
        self._catalog = catalog
        self._owner = owner
        self._clock = clock
        self._lock = RLock()
        self._ensured = False
        self._view = LogView(owner=owner)
        self._identity: str | None = None

    @room(TABLE)
    def ensure(self, before_first: Callable[[], None] = lambda: None) -> None:
        """Creates the table, or adds the columns and properties that an existing one lacks. Raises NotLogged when the
        disk is full, LakeError when its metadata is gone. `before_first`: called before it creates the table."""
        table = answered(TABLE, self._load)
        if table is None:
            before_first()
            ensure_namespace(self._catalog, NAMESPACE)
            table = self._catalog.create_table_if_not_exists(TABLE, LOG_SCHEMA, properties=PROPERTIES)
        add_missing_columns(table, LOG_SCHEMA)
        if changed := {key: value for key, value in PROPERTIES.items() if table.properties.get(key) != value}:
            with table.transaction() as transaction:
                transaction.set_properties(changed)
        self._ensured = True

    def begin(self, first_offset: int) -> None:
        """Replaces the log by an empty one; the former log's files stay. Offsets begin with `first_offset`: no offset
        of the former log may be used for another file."""
        ensure_namespace(self._catalog, NAMESPACE)
        with self._lock:
            with suppress(NoSuchTableError):
                self._catalog.drop_table(TABLE)
            properties = PROPERTIES | {FIRST_OFFSET: str(first_offset)}
            self._catalog.create_table(TABLE, LOG_SCHEMA, properties=properties)
            self._view, self._ensured = LogView(owner=self._owner), False
            self._refresh()

    def files(
        self, source: str | None = None, table: str | None = None, after: int = 0, upto: int | None = None
    ) -> list[LoggedFile]:
        """The records with `after` < offset <= `upto`, of a source and of a `schema.table` if given, by offset. Records
        of one transaction file are one record for a table with `folders`."""
        return in_tables(
            record
            for record in self.records(source, table, after, upto)
            if table in (None, record.qualified_table)
        )

    def records(
        self, source: str | None = None, table: str | None = None, after: int = 0, upto: int | None = None
    ) -> list[LoggedFile]:
        """As `files`, with each record as it was logged; perhaps also records of other tables. Up to an offset that the
        caller has read, the log is not asked again: it is only appended to."""
        with self._lock:
            if self._view.is_loaded:
                if upto is None or upto > self._view.head:
                    self._refresh()
                return [
                    record for record in self._view.between(after, upto) if source in (None, record.source)
                ]
        wanted = above(after)
        if upto is not None:
            wanted &= LessThanOrEqual(term=Reference("offset"), value=literal(upto))
        equal = {"source": source}
        # A table with `folders` has records under other names.
        if table is not None and self._owner is of_nobody:
            equal["schema"], equal["table"] = TableName.parse(table)
        for column, value in equal.items():
            if value is not None:
                wanted &= EqualTo(term=Reference(column), value=literal(value))

        everything = (source, table, upto) == (None, None, None) and not after

        def read() -> list[LoggedFile]:
            loaded = self._load()
            return list(scan(loaded, self._owner, None if everything else wanted)) if loaded else []

        return answered(TABLE, read)

    def identity(self) -> str:
        """The log table's UUID, as last loaded; empty without a table."""
        with self._lock:
            if self._identity is None:
                self._load()
            return self._identity or ""

    def newest(self, source: str) -> dict[str, LoggedFile]:
        """By key, the last record of each of the source's files."""
        with self._lock:
            return dict(self._known(source).newest)

    def reading(self, source: str, after: int = 0) -> LogReading:
        """What a scan of the source needs of the log, from one request. `after`: see `LogReading.added`."""
        with self._lock:
            known, view = self._known(source), self._view
            added = in_tables(record for record in view.between(after, None) if record.source == source)
            return LogReading(view.head, dict(known.newest), dict(known.shares), dict(known.vanished), added)

    def elsewhere(self, source: str, files: Iterable[NewFile]) -> set[str]:
        """The keys of other objects that have, or may have, the content of one of these files, by the log as last read:
        `append` leaves a file whose content was logged since to the next scan."""
        with self._lock:
            known = self._view.known(source)
            return {key for file in files for key in known.elsewhere(file)}

    def head(self) -> int:
        """The highest offset; 0 for an empty log."""
        with self._lock:
            self._refresh()
            return self._view.head

    def append(
        self,
        source: str,
        new: Sequence[NewFile],
        *,
        based_on: int | None = None,
        listed: Collection[str] | None = None,
        absent: Collection[str] = (),
    ) -> list[LoggedFile]:
        """Logs the files that the log does not have, in one commit, and returns them by offset.

        `based_on`: the log's head before the files were listed (default: its head now). Files whose key another process
        has logged since are left to the next scan. `listed`: all keys of the source, if they were listed. `absent`:
        known keys that the bucket no longer has. Raises PyIceberg's CommitFailedException if other writers were faster
        thirty times in a row; then nothing was logged. Raises NotLogged when the disk is full.
        """
        if not new:
            return []

        with self._lock:
            # Read before the retries: what a competing process logs from now on was not in the listing.
            seen = self.head() if based_on is None else based_on
            return self._append(
                lambda: new_records(
                    new,
                    self._view.known(source),
                    self._view.of(source),
                    source=source,
                    head=self._view.head,
                    based_on=seen,
                    now=self._clock().astimezone(UTC),
                    listed=listed,
                    absent=absent,
                )
            )

    def read(self, source: str) -> dict[str, Read]:
        """By shard of the source's stream, what the newest landing has read of it."""
        with self._lock:
            return dict(self._known(source).read)

    def created(self, source: str) -> Created:
        """By table of the source's stream, when DMS created it."""
        with self._lock:
            return dict(self._known(source).created)

    def loads(self, source: str) -> tuple[Created, Created]:
        """By table of the source's stream, when DMS created it, and when the first row of each part of its full loads
        was transferred, in order."""
        with self._lock:
            known = self._known(source)
            return dict(known.created), dict(known.transferred)

    def transactions(self, source: str) -> Transactions:
        """What has landed of the transactions of the source's stream."""
        with self._lock:
            return self._known(source).transactions

    def land(self, source: str, new: Sequence[NewFile], note: Note) -> list[LoggedFile]:
        """Logs the files of a landing, and what it has read, in one commit. Raises Overtaken if another reader has
        landed messages of one of its shards since: then nothing was logged. Otherwise as `append`."""

        with self._lock:
            return self._append(
                lambda: landed_records(
                    new,
                    note,
                    self._view.known(source),
                    self._view.of(source),
                    source=source,
                    head=self._view.head,
                    now=self._clock().astimezone(UTC),
                )
            )

    def merge(self, former: Sequence[LoggedFile], new: Sequence[LoggedFile]) -> None:
        """Replaces records by those of files that have their rows: see `replace_records`."""
        for attempt in competing():
            with self._lock, attempt:
                replace_records(self._catalog.load_table(TABLE), former, new)

    def log_copies(self, copies: Sequence[LoggedFile]) -> list[LoggedFile]:
        """Logs objects that have the content of known records, or are about to, so that a scan knows them: `copy_of` is
        the offset of each one's record. Raises as `append`."""
        with self._lock:
            return self._append(lambda: self._numbered(copies)) if copies else []

    def log_again(
        self, files: Sequence[LoggedFile], *, epoch: int | None = None, began: datetime | None = None
    ) -> list[LoggedFile]:
        """Logs known files once more. Their quarantined rows are then read again, by the contract of the new offset.
        With `epoch`, logs the files as parts of that full load, which `began` at that time (UTC; default: taken from
        the files). Leaves out files that were rewritten meanwhile. Raises as `append`."""

        def propose() -> list[LoggedFile]:
            return self._numbered(
                replace(
                    file,
                    retry=epoch is None,
                    epoch=epoch or file.epoch,
                    first_commit_ts=began or file.first_commit_ts,
                )
                for file in apart(files)
                if self._view.known(file.source).holds(file)
            )

        with self._lock:
            return self._append(propose) if files else []

    def _numbered(self, records: Iterable[LoggedFile]) -> list[LoggedFile]:
        now, first = self._clock().astimezone(UTC), self._view.head + 1
        return [
            replace(record, offset=offset, logged_at=now, ranges=None, moved_to=None)
            for offset, record in enumerate(records, start=first)
        ]

    def _known(self, source: str) -> Known:
        self._refresh()
        return self._view.known(source)

    def _append(self, propose: Callable[[], list[LoggedFile]]) -> list[LoggedFile]:
        if not self._ensured:
            self.ensure()
        unsure: list[LoggedFile] = []
        proposed: list[LoggedFile] = []
        for attempt in competing():
            with attempt:
                table = self._refresh()
                if table is None:
                    raise NoSuchTableError(f"{TABLE} was dropped while files were logged: run again.")
                if unsure and self._view.holds(unsure[0]):
                    return unsure  # that commit had succeeded
                proposed = propose()
                if proposed:
                    try:
                        with room(TABLE):
                            append_rows(table, to_arrow(proposed))
                    except CommitStateUnknownException:
                        unsure = proposed
                        raise
                    self._view.appended(proposed, table)
                    self._maintain(table)
        return proposed

    def _maintain(self, table: Table) -> None:
        try:
            if needs_maintenance(table):
                maintain_file_log(table)
        except Exception:
            # The files are logged already. Without maintenance, the log only becomes slower.
            _logger.warning(
                "The maintenance of the file log failed; the next append tries again.", exc_info=True
            )

    def _load(self) -> Table | None:
        try:
            table = self._catalog.load_table(TABLE)
        except NoSuchTableError:
            self._identity = None
            return None
        refuse_newer(TABLE, table.properties)
        self._identity = str(table.metadata.table_uuid)
        return table

    def _refresh(self) -> Table | None:
        """Updates the view from the table, and returns the table in the same state."""

        def read() -> Table | None:
            table = self._load()
            if table is None:
                self._view, self._ensured = LogView(owner=self._owner), False
            else:
                self._view = self._view.brought_up_to(table)
            return table

        return answered(TABLE, read)
