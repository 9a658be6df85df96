"""One scan of a source's location: the files that the log does not have.

Here: list, recognise, fingerprint, inspect, append, in this order. Not here: how each step works.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property

from lake_assets.bronze.files.content import UnreadableFile
from lake_assets.bronze.files.formats import names_without_values
from lake_assets.bronze.files.inspect import inspect_file, inspect_large_file
from lake_assets.bronze.files.inspection import FileInspection
from lake_assets.bronze.files.keys import (
    TRANSACTIONS,
    DataFile,
    FileKind,
    IgnoredKey,
    TransactionFile,
    UnknownKey,
    place_of,
    same_name,
)
from lake_assets.bronze.files.unsupported import UnsupportedFile
from lake_assets.bronze.log.epochs import may_be_reloaded
from lake_assets.bronze.log.file_log import FileLog, LoggedFile, NewFile
from lake_assets.bronze.log.known import Known
from lake_assets.bronze.log.log_view import LogReading
from lake_assets.bronze.scan.first_times import earliest_time
from lake_assets.bronze.scan.object_listing import Listing
from lake_assets.bronze.scan.shares import find_shares, is_unsettled, unnamed_tables
from lake_assets.bronze.scan.strays import EMPTY
from lake_assets.bronze.scan.table_folders import (
    TableFolders,
    UnconfiguredKey,
    folder_of,
    logged_folders,
    mixed_folders,
)
from lake_assets.bronze.scan.vanished import (
    Removed,
    Vanished,
    any_left,
    newest_known,
    vanished_record,
    vanished_tables,
)
from lake_assets.config import DmsSettings, SourceConfig, table_text
from lake_assets.storage.object_store import ObjectGone, ObjectStore, StoredObject, StoreError

CLOCK_AHEAD = timedelta(minutes=10)
INSPECT_BUDGET = 64 << 20
"""Bytes, as stored, up to which a scan reads a file whole."""
NOT_CONFIGURED = "lake.yaml does not configure"


@dataclass(frozen=True, slots=True)
class Discovery:
    """The result of one scan."""

    logged: list[LoggedFile]
    """The records that this scan logged, by offset; of a transaction file, a record for each table; of a table whose
    files have all vanished, a record that states it."""
    unknown: list[UnknownKey]
    """Files that cannot be recognised or read at all, by key; not logged."""
    unconfigured: dict[str, int]
    """The number of files by table that lake.yaml does not name. Only transaction files among them are logged."""
    ignored: int
    """Control tables, folder markers, temporary files."""
    listed: int
    hints: dict[str, str] = field(default_factory=dict)
    """By `unconfigured` table, what lake.yaml may lack to configure it: a part of a sentence."""
    unconfirmed: dict[str, str] = field(default_factory=dict)
    """By table without any file left, why the deletion is unconfirmed; nothing is logged for it."""
    returned: frozenset[str] = frozenset()
    """Keys that S3 reported as removed and that this scan listed."""
    strays: dict[str, str] = field(default_factory=dict)
    """By listed key that belongs to no table or has no rows, the reason."""
    seen: frozenset[str] = frozenset()
    """The keys that this scan listed."""
    keys: frozenset[str] | None = None
    """Every key of the location, if this scan completed the list; else None."""


def discover(
    source_name: str,
    source: SourceConfig,
    store: ObjectStore,
    log: FileLog,
    *,
    inspect_threads: int = 8,
    inspect_budget_bytes: int = INSPECT_BUDGET,
    removals: Mapping[str, Removed] | None = None,
    listing: Listing | None = None,
    hints: Collection[str] = (),
) -> Discovery:
    """Lists the source and logs new files, in at most one commit.
    `listing`: for a caller that scans repeatedly and need not list everything each time; `hints`: new keys by S3's
    notifications, whose tables are listed first.

    A file of more than `inspect_budget_bytes` (as stored), or with damaged content, is logged with rows=None: the
    reader decides how to treat it. A transaction file is inspected whatever its size. A file that vanishes or changes
    meanwhile is left to the next scan. `removals`: the removals that S3 reported, by key. Raises StoreError if the
    location cannot be listed; nothing is logged then.
    """
    listing = listing or Listing(source, store)
    scan = _Scan(source, store, log.reading(source_name, after=listing.head))
    listed = listing.scan(scan.log.added, hints)
    scan.classify(listed.objects)
    found = scan.inspected(inspect_threads, inspect_budget_bytes)
    absent = _absent(store, log.elsewhere(source_name, found), listed.keys)
    known = log.records(source_name, upto=scan.log.head) if scan.misses_a_table(listed.keys) else []
    vanished = scan.vanished(known, listed.keys or (), absent, removals)
    found += [vanished_record(table, scan.began) for table in vanished if table.certain]
    logged = log.append(source_name, found, based_on=scan.log.head, listed=listed.keys, absent=absent)
    seen = frozenset(obj.key for obj in listed.objects)
    return Discovery(
        logged,
        sorted(scan.unknown, key=lambda entry: entry.key),
        dict(scan.unconfigured),
        scan.ignored,
        len(listed.objects),
        hints={table: near for table in scan.unconfigured if (near := scan.folders.hint(table))},
        unconfirmed={table.table: table.reason for table in vanished if not table.certain},
        returned=seen & frozenset(removals or ()),
        strays=scan.strays | {entry.key: entry.reason for entry in scan.unknown},
        seen=seen,
        keys=listed.keys,
    )


@dataclass
class _Scan:
    """One scan of a location, and the log before the listing."""

    source: SourceConfig
    store: ObjectStore
    log: LogReading
    began: datetime = field(default_factory=lambda: datetime.now(UTC))
    candidates: list[tuple[StoredObject, DataFile | TransactionFile]] = field(default_factory=list)
    """Files that may be new."""
    data_files: list[DataFile] = field(default_factory=list)
    unknown: list[UnknownKey] = field(default_factory=list)
    unconfigured: Counter[str] = field(default_factory=Counter)
    strays: dict[str, str] = field(default_factory=dict)
    ignored: int = 0

    @cached_property
    def folders(self) -> TableFolders:
        """How the source's folders are named."""
        return TableFolders(self.source)

    def classify(self, objects: Iterable[StoredObject]) -> None:
        """Classifies by their keys the objects that the log alone does not classify."""
        for obj in objects:
            if not _is_settled(obj, self.log.newest.get(obj.key), self.log.vanished, self.source):
                self._classify(obj)
        if self.source.ignore_case:
            strange = mixed_folders(self.data_files, logged_folders(self.log.newest.values()))
            self.unknown += [UnknownKey(key, reason) for key, reason in strange.items()]
            self.candidates = [(obj, file) for obj, file in self.candidates if obj.key not in strange]

    def _classify(self, obj: StoredObject) -> None:
        parsed = self.folders.parse(obj.key)
        if self.source.consistent_cut is not None and _is_later(parsed, self.began):
            # A scan takes time: files that were written since it began are left to the next scan, for all tables alike.
            return
        if isinstance(parsed, IgnoredKey):
            self.ignored += 1
        elif isinstance(parsed, UnknownKey):
            self.unknown.append(parsed)
        elif isinstance(parsed, UnconfiguredKey):
            self.unconfigured[parsed.table] += 1
            self.strays[obj.key] = f"it is of {parsed.table}, which {NOT_CONFIGURED}"
        elif isinstance(parsed, TransactionFile):
            self._classify_transactions(obj, parsed)
        else:
            self._classify_data_file(obj, parsed)

    def _classify_transactions(self, obj: StoredObject, file: TransactionFile) -> None:
        held = self.log.shares.get(place_of(obj.key), {})
        if unnamed := unnamed_tables(held, self.source):
            self.strays[obj.key] = f"it has rows of {', '.join(sorted(unnamed))}, which {NOT_CONFIGURED}"
        known = _is_known(obj, self.log.newest.get(obj.key), self.log.vanished)
        if known and not is_unsettled(held, self.source):
            self.unconfigured.update(unnamed)
        else:
            self.candidates.append((obj, file))

    def _classify_data_file(self, obj: StoredObject, file: DataFile) -> None:
        if not obj.size:
            self.strays[obj.key] = EMPTY
        self.data_files.append(file)
        if not _is_known(obj, self.log.newest.get(obj.key), self.log.vanished):
            self.candidates.append((obj, file))

    def inspected(self, threads: int, budget: int) -> list[NewFile]:
        """The candidates as records for the log; a file that cannot be read becomes an unknown key."""
        with ThreadPoolExecutor(max_workers=max(1, min(threads, len(self.candidates)))) as pool:
            seen = list(pool.map(lambda candidate: self._inspected(candidate, budget), self.candidates))
        self.unknown += [entry for entry in seen if isinstance(entry, UnknownKey)]
        self.unknown += [UnknownKey(key, reason) for key, reason in self.store.left_out.items()]
        found = [file for entry in seen if not isinstance(entry, UnknownKey) for file in entry]
        for file in found:
            if file.format == TRANSACTIONS:
                self.unconfigured.update(unnamed_tables([table_text(*file.stream)], self.source))
        return found

    def _inspected(
        self, candidate: tuple[StoredObject, DataFile | TransactionFile], budget: int
    ) -> list[NewFile] | UnknownKey:
        obj, file = candidate
        if isinstance(file, TransactionFile):
            known = self.log.shares.get(place_of(obj.key), {})
            return find_shares(obj, file, known, self.store, self.source)
        dms = self.source.settings(file.qualified_table, file.flush_time)
        seen = _inspected_file(obj, file, self.log.newest.get(obj.key), self.store, dms, budget)
        if not isinstance(seen, NewFile):
            return seen or []
        if obj.size <= budget:
            seen = self._dated(seen, dms)
        if seen.format == "csv":
            table = self.source.tables.get(file.qualified_table)
            seen = replace(seen, columns=names_without_values(seen.columns, table))
        return [seen]

    def _dated(self, file: NewFile, dms: DmsSettings) -> NewFile:
        """A full-load part that was written again, with the earliest time of its rows: they may be in another order."""
        known = self.log.newest.get(file.key)
        again = file.version != known.version if known is not None else place_of(file.key) in self.places
        if not again or file.kind is not FileKind.LOAD or file.first_commit_ts is None:
            return file
        first = earliest_time(self.store, file, dms)
        return file if first is None else replace(file, first_commit_ts=first)

    @cached_property
    def places(self) -> frozenset[str]:
        """The places of the known files."""
        return frozenset(place_of(key) for key in self.log.newest)

    def misses_a_table(self, keys: Collection[str] | None) -> bool:
        """Whether a table may have no file among all `keys`; cheap, because every scan calls it."""
        if keys is None:
            return False
        alive = {self.log.newest[key].stream for key in keys if key in self.log.newest}
        return any(
            file.stream not in alive
            and file.qualified_table in self.source.tables
            and file.offset > self.log.vanished.get(file.stream, 0)
            for file in self.log.newest.values()
        )

    def vanished(
        self,
        records: Iterable[LoggedFile],
        keys: Collection[str],
        absent: Collection[str],
        removals: Mapping[str, Removed] | None,
    ) -> list[Vanished]:
        """The tables without any file left, by a listing of all `keys`. `absent`: files that were moved, so that their
        content exists under other keys."""
        gone = vanished_tables(newest_known(records), keys, self.source.tables, removals)
        # Listed a second time: a folder that is being moved, or was not mounted for a moment, exists again.
        gone = [table for table in gone if not (table.certain and any_left(self.store, table))]
        return [table for table in gone if not any(file.key in absent for file in table.files)]


def _absent(store: ObjectStore, keys: Collection[str], listed: Collection[str] | None) -> frozenset[str]:
    """The `keys` that the bucket does not have. Raises StoreError."""
    if listed is not None:
        return frozenset(key for key in keys if key not in listed)
    return frozenset(key for key in keys if all(obj.key != key for obj in store.list(key)))


def _is_later(parsed: object, moment: datetime) -> bool:
    flushed = parsed.flush_time if isinstance(parsed, (DataFile, TransactionFile)) else None
    # A clock that is ahead by more than this is wrong, and its files must be logged nevertheless.
    return flushed is not None and moment < flushed < moment + CLOCK_AHEAD


def unlogged_parts(
    source: SourceConfig, store: ObjectStore, parts: Sequence[LoggedFile], logged: Sequence[LoggedFile]
) -> list[str]:
    """The full-load files in the folders of a table's `parts` whose present version is not in `logged`, the records
    read so far. Raises StoreError."""
    folders, known = TableFolders(source), Known.of(logged)
    epoch = max(part.epoch for part in parts)
    prefixes = {folder.prefix for part in parts if (folder := folder_of(part.key))}
    listed = {obj.key: obj for prefix in sorted(prefixes) for obj in store.list(prefix)}
    absent = known.newest.keys() - listed.keys()
    found = []
    for obj in listed.values():
        parsed, newest = folders.parse(obj.key), known.newest.get(obj.key)
        if not isinstance(parsed, DataFile) or parsed.kind is not FileKind.LOAD:
            continue
        reloaded = newest is not None and may_be_reloaded(
            newest, obj.last_modified, epoch, stamped=_is_stamped(newest, source)
        )
        if reloaded or _is_unlogged(obj, parsed, known, absent, source, store):
            found.append(obj.key)
    return found


def _is_stamped(file: LoggedFile, source: SourceConfig) -> bool:
    """Whether the file's rows have timestamps. The record of a file without any has one if the file was asked about
    (`full-load --began`)."""
    dms = source.settings(file.qualified_table, file.flush_time)
    return dms.timestamp_column_name is not None and file.first_commit_ts is not None


def anything_unlogged(source_name: str, source: SourceConfig, store: ObjectStore, log: FileLog) -> bool:
    """Whether the bucket has files of the source's tables whose present version is not in the log. Raises
    StoreError."""
    folders, known = TableFolders(source), Known.of(log.records(source_name))
    listed = {obj.key: obj for obj in store.list()}
    absent = known.newest.keys() - listed.keys()
    parsed = ((obj, folders.parse(obj.key)) for obj in listed.values())
    return any(
        isinstance(file, (DataFile, TransactionFile))
        and _is_unlogged(obj, file, known, absent, source, store)
        for obj, file in parsed
    )


def _is_unlogged(
    obj: StoredObject,
    file: DataFile | TransactionFile,
    known: Known,
    absent: Collection[str],
    source: SourceConfig,
    store: ObjectStore,
) -> bool:
    """Whether the next scan would log the object; reads the object where the listing does not decide. `absent`: known
    keys that were not listed."""
    newest = known.newest.get(obj.key)
    if newest is not None and not known.has_vanished(newest):
        return not _is_known(obj, newest, known.vanished) and newest.version != store.version(obj)
    if isinstance(file, TransactionFile) or not any(same_name(key, obj.key) for key in known.newest):
        return True
    dms = source.settings(file.qualified_table, file.flush_time)
    seen = _inspected_file(obj, file, None, store, dms, INSPECT_BUDGET)
    return not isinstance(seen, NewFile) or not known.is_beside(seen, absent)


def _is_settled(
    obj: StoredObject, newest: LoggedFile | None, marks: Mapping[tuple[str, str], int], source: SourceConfig
) -> bool:
    """Whether the log alone classifies an object, so that its key need not be parsed; true of most objects."""
    if newest is None or not obj.size or newest.format == TRANSACTIONS or source.ignore_case:
        return False
    return newest.qualified_table in source.tables and _is_known(obj, newest, marks)


def _is_known(obj: StoredObject, newest: LoggedFile | None, marks: Mapping[tuple[str, str], int]) -> bool:
    """Whether the listing alone shows that the object need not be logged."""
    if newest is None or newest.offset < marks.get(newest.stream, 0):
        return False
    if obj.etag is None:
        return obj.size == newest.size and obj.last_modified == newest.last_modified
    # A LOAD file written again with the same bytes may belong to a new epoch (admission.py).
    rewritten = newest.kind is FileKind.LOAD and obj.last_modified > newest.last_modified
    return obj.etag == newest.version and not rewritten


def _inspected_file(
    obj: StoredObject,
    file: DataFile,
    newest: LoggedFile | None,
    store: ObjectStore,
    dms: DmsSettings,
    budget: int,
) -> NewFile | UnknownKey | None:
    """The record of the file; None if the file is gone."""
    inspection = FileInspection()
    try:
        version = store.version(obj)
    except ObjectGone:
        return None
    except StoreError as error:
        return UnknownKey(obj.key, str(error))
    if newest is not None and newest.version == version:
        inspection = newest
    else:
        inspect = inspect_file if obj.size <= budget else inspect_large_file
        try:
            inspection = inspect(store, file, dms) or inspection
        except ObjectGone:
            return None
        except (UnreadableFile, UnsupportedFile, StoreError):
            pass
    return NewFile.of(
        obj, file, version, inspection, schema=file.schema, table=file.table, partitions=file.partitions
    )
