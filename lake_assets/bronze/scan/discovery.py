"""One pass over a source's location: what is there that the log does not know.

Here: list, recognise, fingerprint, inspect, append. Not here: how any one of these is done.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lake_assets.bronze.files.content import content_digest
from lake_assets.bronze.files.inspect import (
    FileInspection,
    UnreadableFile,
    inspect_file,
    inspect_large_file,
)
from lake_assets.bronze.files.keys import (
    TRANSACTIONS,
    DataFile,
    FileKind,
    IgnoredKey,
    TransactionFile,
    UnknownKey,
    same_name,
)
from lake_assets.bronze.log.file_log import FileLog, LoggedFile, NewFile
from lake_assets.bronze.scan.object_listing import Listing
from lake_assets.bronze.scan.shares import find_shares, is_unsettled
from lake_assets.bronze.scan.shares import strangers as unnamed_tables
from lake_assets.bronze.scan.strays import EMPTY
from lake_assets.bronze.scan.table_folders import (
    TableFolders,
    UnconfiguredKey,
    folder_of,
    logged_folders,
    strangers,
)
from lake_assets.bronze.scan.vanished import Removed, Vanished, newest_known, vanished_record, vanished_tables
from lake_assets.config import DmsSettings, SourceConfig
from lake_assets.storage.object_store import ObjectGone, ObjectStore, StoredObject, StoreError

CLOCK_AHEAD = timedelta(minutes=10)
NOT_CONFIGURED = "lake.yaml does not configure"


@dataclass(frozen=True, slots=True)
class Discovery:
    """What one pass found."""

    logged: list[LoggedFile]
    """Entered into the log by this pass, by offset; of a transaction file, a record for each table; of a table whose
    files have all vanished, a record that says so."""
    unknown: list[UnknownKey]
    """What cannot be recognised or read at all, by key; not logged."""
    unconfigured: dict[str, int]
    """Files by `schema.table` of tables that lake.yaml does not name; not logged, until it does, but for transaction
    files."""
    ignored: int
    """Control tables, folder markers, temporary files."""
    listed: int
    hints: dict[str, str] = field(default_factory=dict)
    """By `unconfigured` table, the configured one that it differs from only by case."""
    doubtful: dict[str, str] = field(default_factory=dict)
    """By table of which no file is there any more, what speaks against their having been deleted; not logged."""
    returned: frozenset[str] = frozenset()
    """Of the keys that S3 has told to be gone, those that were seen."""
    strays: dict[str, str] = field(default_factory=dict)
    """Of what was seen, the keys that are in no table, or have nothing for it, each with the reason."""
    seen: frozenset[str] = frozenset()
    """The keys that this look has listed."""
    keys: frozenset[str] | None = None
    """Every key of the location, when this look has completed them; else None."""


def discover(
    source_name: str,
    source: SourceConfig,
    store: ObjectStore,
    log: FileLog,
    *,
    inspect_threads: int = 8,
    inspect_budget_bytes: int = 64 << 20,
    removals: Mapping[str, Removed] | None = None,
    listing: Listing | None = None,
    hints: Collection[str] = (),
) -> Discovery:
    """Lists the source and logs what is new, in at most one commit.

    `listing`: of somebody who looks again and again, and need not see everything each time; `hints`: keys that S3 says
    are new, for which it looks first.

    A file of more than `inspect_budget_bytes` (as stored), or with damaged content, is logged with rows=None: what
    to make of it is the reader's decision. A transaction file is inspected whatever its size. One that vanishes or
    changes meanwhile is left to the next pass. `removals`: what S3 has told of keys that are gone. Raises StoreError if
    the location cannot be listed; nothing is logged then.
    """
    # Before the listing: what another process logs from now on may be newer than what this listing will show.
    head = log.head()
    newest = log.newest(source_name)
    # Without the setting no key is one of a transaction file.
    shares = log.shares(source_name) if source.dms.preserve_transactions else {}
    marks, seen_at = log.vanished(source_name), datetime.now(UTC)
    folders = TableFolders(source)
    listed = (listing or Listing(source, store)).look(log, source_name, hints)
    listed_files: list[DataFile] = []
    candidates: list[tuple[StoredObject, DataFile | TransactionFile]] = []
    unknown: list[UnknownKey] = []
    unconfigured: Counter[str] = Counter()
    strays: dict[str, str] = {}
    ignored = 0
    for obj in listed.objects:
        if _is_settled(obj, newest.get(obj.key), marks, source):
            continue
        parsed = folders.parse(obj.key)
        if source.consistent_cut is not None and _is_later(parsed, seen_at):
            # A look takes a while: what was written since it began is left to the next one, of all tables alike.
            continue
        if isinstance(parsed, IgnoredKey):
            ignored += 1
        elif isinstance(parsed, UnknownKey):
            unknown.append(parsed)
        elif isinstance(parsed, TransactionFile):
            held = shares.get(obj.key, {})
            if unnamed := unnamed_tables(held, source.tables):
                strays[obj.key] = f"it has rows of {', '.join(sorted(unnamed))}, which {NOT_CONFIGURED}"
            if _is_known(obj, newest.get(obj.key), marks) and not is_unsettled(held, source.tables):
                unconfigured.update(unnamed)
            else:
                candidates.append((obj, parsed))
        elif isinstance(parsed, UnconfiguredKey):
            unconfigured[parsed.table] += 1
            strays[obj.key] = f"it is of {parsed.table}, which {NOT_CONFIGURED}"
        else:
            if not obj.size:
                strays[obj.key] = EMPTY
            if source.ignore_case:
                listed_files.append(parsed)
            if not _is_known(obj, newest.get(obj.key), marks):
                candidates.append((obj, parsed))
    if source.ignore_case:
        strange = strangers(listed_files, logged_folders(newest.values()))
        unknown += [UnknownKey(key, reason) for key, reason in strange.items()]
        candidates = [(obj, file) for obj, file in candidates if obj.key not in strange]

    def look(candidate: tuple[StoredObject, DataFile | TransactionFile]) -> list[NewFile] | UnknownKey:
        obj, file = candidate
        if isinstance(file, TransactionFile):
            return find_shares(obj, file, shares.get(obj.key, {}), store, source.dms, source.tables)
        dms = source.settings(file.qualified_table, file.flush_time)
        seen = _look(obj, file, newest.get(obj.key), store, dms, inspect_budget_bytes)
        return [seen] if isinstance(seen, NewFile) else seen or []

    with ThreadPoolExecutor(max_workers=max(1, min(inspect_threads, len(candidates)))) as pool:
        seen = list(pool.map(look, candidates))
    unknown += [entry for entry in seen if isinstance(entry, UnknownKey)]
    unknown += [UnknownKey(key, reason) for key, reason in store.left_out.items()]
    found = [file for entry in seen if not isinstance(entry, UnknownKey) for file in entry]
    unconfigured.update(
        file.qualified_table
        for file in found
        if file.format == TRANSACTIONS and unnamed_tables([file.qualified_table], source.tables)
    )
    absent = _absent(store, log.repeated(source_name, found), listed.keys)
    vanished = []
    if listed.keys is not None and _suspects(source, newest, marks, listed.keys):
        known = newest_known(log.files(source_name, upto=head))
        vanished = _not_back(store, vanished_tables(known, listed.keys, source.tables, removals))
        # Its files have been moved: their content is there under other keys.
        vanished = [table for table in vanished if not any(f.key in absent for f in table.files)]
    found += [vanished_record(table, seen_at) for table in vanished if table.certain]
    logged = log.append(source_name, found, based_on=head, listed=listed.keys, absent=absent)
    nearest = {table: near for table in unconfigured if (near := folders.hint(table))}
    return Discovery(
        logged,
        sorted(unknown, key=lambda entry: entry.key),
        dict(unconfigured),
        ignored,
        len(listed.objects),
        nearest,
        {table.table: table.doubt for table in vanished if not table.certain},
        frozenset(obj.key for obj in listed.objects if obj.key in removals) if removals else frozenset(),
        strays | {entry.key: entry.reason for entry in unknown},
        frozenset(obj.key for obj in listed.objects),
        listed.keys,
    )


def _absent(store: ObjectStore, keys: Collection[str], listed: Collection[str] | None) -> frozenset[str]:
    """Those of the keys that the bucket does not have. Raises StoreError."""
    if listed is not None:
        return frozenset(key for key in keys if key not in listed)
    return frozenset(key for key in keys if all(obj.key != key for obj in store.list(key)))


def _is_later(parsed: object, moment: datetime) -> bool:
    flushed = parsed.flush_time if isinstance(parsed, (DataFile, TransactionFile)) else None
    # A clock that is ahead by more than this is wrong, and its files must come in all the same.
    return flushed is not None and moment < flushed < moment + CLOCK_AHEAD


def unlogged_parts(
    source: SourceConfig, store: ObjectStore, parts: Sequence[LoggedFile], logged: Sequence[LoggedFile]
) -> list[str]:
    """The full-load files in the folders of a table's `parts` that the log, as far as it was read (`logged`), does not
    have as they are now. Raises StoreError."""
    folders, newest = TableFolders(source), {file.key: file for file in logged}
    epoch = max(part.epoch for part in parts)
    prefixes = {"/".join(folder) + "/" for part in parts if (folder := folder_of(part.key))}
    found = []
    listed = {obj.key: obj for prefix in sorted(prefixes) for obj in store.list(prefix)}
    for obj in listed.values():
        parsed, known = folders.parse(obj.key), newest.get(obj.key)
        if not isinstance(parsed, DataFile) or parsed.kind is not FileKind.LOAD:
            continue
        # One with the bytes that it had in the load before is logged again.
        stale = known is not None and known.epoch < epoch and obj.last_modified > known.last_modified
        if stale or not (_is_logged(obj, known, {}, store) or _is_there_twice(parsed, newest, listed, store)):
            found.append(obj.key)
    return found


def _is_there_twice(
    file: DataFile, newest: Mapping[str, LoggedFile], listed: Collection[str], store: ObjectStore
) -> bool:
    """Whether an object that is not logged has the content of one that is, and that the bucket has too: see
    `Known.doubled`."""
    others = [newest[key] for key in listed if key != file.key and key in newest and same_name(key, file.key)]
    if not others:
        return False
    try:
        content = content_digest(store, file.key, "none" if file.format == "parquet" else file.compression)
    except UnreadableFile:
        return False
    return any(other.content == content for other in others)


def anything_unlogged(source_name: str, source: SourceConfig, store: ObjectStore, log: FileLog) -> bool:
    """Whether the bucket has files of the source's tables that the log does not have as they are now. Raises
    StoreError."""
    folders, newest, marks = TableFolders(source), log.newest(source_name), log.vanished(source_name)
    listed = {obj.key: obj for obj in store.list()}
    parsed = ((obj, folders.parse(obj.key)) for obj in listed.values())
    return any(
        isinstance(file, (DataFile, TransactionFile))
        and not _is_logged(obj, newest.get(obj.key), marks, store)
        and not (isinstance(file, DataFile) and _is_there_twice(file, newest, listed, store))
        for obj, file in parsed
    )


def _suspects(
    source: SourceConfig,
    newest: Mapping[str, LoggedFile],
    marks: Mapping[tuple[str, str], int],
    keys: Collection[str],
) -> bool:
    """Whether there may be a table none of whose files is there any more; cheap, because every look asks."""
    alive = {newest[key].qualified_table for key in keys if key in newest}
    return any(
        file.qualified_table not in alive
        and file.qualified_table in source.tables
        and file.offset > marks.get((file.schema, file.table), 0)
        for file in newest.values()
    )


def _not_back(store: ObjectStore, found: Sequence[Vanished]) -> list[Vanished]:
    """Those that a second look misses too: a folder that is being moved, or was not mounted for a moment, is back."""
    return [table for table in found if not (table.certain and _any_left(store, table))]


def _any_left(store: ObjectStore, vanished: Vanished) -> bool:
    folder = folder_of(vanished.files[0].key)
    known = {file.key for file in vanished.files}
    return any(obj.key in known for obj in store.list("/".join(folder or ()) + "/"))


def _is_settled(
    obj: StoredObject, newest: LoggedFile | None, marks: Mapping[tuple[str, str], int], source: SourceConfig
) -> bool:
    """Whether the log alone tells what an object is: of most objects of most looks, and its key need not be parsed."""
    if newest is None or not obj.size or newest.format == TRANSACTIONS or source.ignore_case:
        return False
    return newest.qualified_table in source.tables and _is_known(obj, newest, marks)


def _is_known(obj: StoredObject, newest: LoggedFile | None, marks: Mapping[tuple[str, str], int]) -> bool:
    """Whether the listing alone tells that there is nothing to log."""
    if newest is None or newest.offset < marks.get((newest.schema, newest.table), 0):
        return False
    if obj.etag is None:
        return obj.size == newest.size and obj.last_modified == newest.last_modified
    # A LOAD file written again with the same bytes may belong to a new epoch (admission.py).
    rewritten = newest.kind is FileKind.LOAD and obj.last_modified > newest.last_modified
    return obj.etag == newest.version and not rewritten


def _is_logged(
    obj: StoredObject, newest: LoggedFile | None, marks: Mapping[tuple[str, str], int], store: ObjectStore
) -> bool:
    """Whether the log has this content; looks into the object where the listing does not tell."""
    if newest is None or newest.offset < marks.get((newest.schema, newest.table), 0):
        return False
    return _is_known(obj, newest, marks) or newest.version == store.version(obj)


def _look(
    obj: StoredObject,
    file: DataFile,
    newest: LoggedFile | None,
    store: ObjectStore,
    dms: DmsSettings,
    budget: int,
) -> NewFile | UnknownKey | None:
    """The file as the log wants it; None if it is gone."""
    inspection: FileInspection | LoggedFile | None = None
    try:
        version = store.version(obj)
    except ObjectGone:
        return None
    except StoreError as error:
        return UnknownKey(obj.key, str(error))
    if newest is not None and newest.version == version:
        inspection = newest
    else:
        look = inspect_file if obj.size <= budget else inspect_large_file
        try:
            inspection = look(store, file, dms)
        except ObjectGone:
            return None
        except (UnreadableFile, StoreError):
            pass
    return NewFile(
        schema=file.schema,
        table=file.table,
        key=file.key,
        version=version,
        kind=file.kind,
        format=file.format,
        compression=file.compression,
        size=obj.size,
        last_modified=obj.last_modified,
        flush_time=file.flush_time,
        capture_date=file.capture_date or obj.last_modified.date(),
        rows=inspection.rows if inspection else None,
        columns=inspection.columns if inspection else None,
        first_commit_ts=inspection.first_commit_ts if inspection else None,
        width=inspection.width if inspection else None,
        irregular=inspection.irregular if inspection else None,
        content=inspection.content if inspection else None,
        one_stamp=inspection.one_stamp if inspection else None,
    )
