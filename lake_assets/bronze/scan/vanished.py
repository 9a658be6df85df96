"""Which logged files are gone from the bucket, and what that means.

DMS deletes all files and folders of a table when the source truncates or drops it (HandleSourceTableTruncated,
HandleSourceTableDropped), and writes no file about it. Here: distinguishing this from other causes of missing files, as
pure decisions from a listing. Not here: listing (`discovery.py`), the record's place among the others
(`bronze/log/admission.py`), the effect on silver (`on_vanished`, `silver/plan/planner.py`), S3's messages
(`bronze/scan/s3_events.py`).

A table counts as vanished when none of its files exists any more, but files of other tables exist that are at least as
old. These show that the location is readable and the right one, and that no lifecycle rule has expired old files. Where
no file as old is left, only S3's events decide: they must show that each file was deleted, or had expired before the
others were deleted. Otherwise the deletion is unconfirmed: its reason is reported, and nothing is logged.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from lake_assets.bronze.files.keys import TRANSACTIONS, FileKind
from lake_assets.bronze.log.log_record import LoggedFile, NewFile
from lake_assets.bronze.scan.table_folders import folder_of
from lake_assets.config import TableName, table_text
from lake_assets.storage.object_store import ObjectStore
from lake_assets.words import many


class Removal(StrEnum):
    """Why S3 says that an object is gone."""

    DELETED = "deleted"
    EXPIRED = "expired"
    """By a lifecycle rule."""


@dataclass(frozen=True, slots=True)
class Removed:
    """S3's event for a key that is gone."""

    why: Removal
    at: datetime
    """UTC."""


@dataclass(frozen=True, slots=True)
class Vanished:
    """A table, or one folder of a table with `folders`, without any file left in the bucket."""

    files: tuple[LoggedFile, ...]
    """Newest versions, by offset."""
    certain: bool
    """Whether the files were deleted, by DMS or another actor."""
    reason: str = ""
    """Why the deletion is unconfirmed; a part of a sentence."""

    @property
    def table(self) -> str:
        """The table, or the folder of a table with `folders`."""
        return table_text(*self.files[0].stream)


def newest_known(records: Iterable[LoggedFile]) -> list[LoggedFile]:
    """The newest record of each file and table, without the records of vanished files and those before them. `records`:
    by offset."""
    found: dict[tuple[tuple[str, str], str], LoggedFile] = {}
    marks: dict[tuple[str, str], int] = {}
    for record in records:
        if record.kind is FileKind.VANISHED:
            marks[record.stream] = record.offset
        else:
            found[record.stream, record.key] = record
    return [record for record in found.values() if record.offset > marks.get(record.stream, 0)]


def gone_files(known: Iterable[LoggedFile], listed: Collection[str]) -> list[LoggedFile]:
    """The newest records whose keys are missing in a listing of the whole location."""
    return [record for record in known if record.path not in listed]


def missing_files(store: ObjectStore, files: Sequence[LoggedFile]) -> list[LoggedFile]:
    """Those of the files that the bucket no longer has, before they are read again; lists their folders. Raises
    StoreError."""
    prefixes = {folder(file.path) for file in files}
    listed = {obj.key for prefix in prefixes for obj in store.list(prefix)}
    return gone_files(files, listed)


def folder(key: str) -> str:
    """The folder of the file's table, else the file's own folder; ends with a slash."""
    table = folder_of(key)
    return table.prefix if table is not None else key[: key.rfind("/") + 1]


def vanished_tables(
    known: Sequence[LoggedFile],
    listed: Collection[str],
    tables: Collection[str],
    removals: Mapping[str, Removed] | None = None,
) -> list[Vanished]:
    """The tables without any file left. `known`: the log's records of the source (`newest_known`); `listed`: every key
    of its location; `tables`: those that lake.yaml names; `removals`: the removals that S3 reported, by key."""
    streams: dict[tuple[str, str], list[LoggedFile]] = defaultdict(list)
    left = [record for record in known if record.key in listed]
    for record in known:
        if record.qualified_table in tables:
            streams[record.stream].append(record)
    alive = {record.stream for record in left}
    found = []
    for stream in sorted(streams.keys() - alive):
        # Transaction files are not the table's own, and DMS does not delete them with it.
        if any(record.format == TRANSACTIONS for record in streams[stream]):
            continue
        files = tuple(sorted(streams[stream], key=lambda record: record.offset))
        reason = _why_unconfirmed(files, left, removals or {})
        found.append(Vanished(files, certain=not reason, reason=reason))
    return found


def _why_unconfirmed(
    files: Sequence[LoggedFile], left: Sequence[LoggedFile], removals: Mapping[str, Removed]
) -> str:
    events = [(file, removals.get(file.key)) for file in files]
    # An event from before the file was written is about an older file of that name.
    reasons = {
        event.why if event is not None and event.at >= file.last_modified else None for file, event in events
    }
    # Some files may have expired long before the others were deleted.
    if reasons - {Removal.EXPIRED} == {Removal.DELETED}:
        return ""
    if Removal.EXPIRED in reasons:
        return "S3 says that a lifecycle rule expired them"
    if not left:
        return "no other logged file exists either, so the location itself may have changed, or be empty"
    newest = max(file.last_modified for file in files)
    if not any(record.last_modified <= newest for record in left):
        return "no other file as old exists either, so a lifecycle rule may have expired them"
    return ""


def vanished_record(vanished: Vanished, seen_at: datetime) -> NewFile:
    """The log's record of vanished files; `seen_at` is the time of the listing."""
    first = vanished.files[0]
    folder = folder_of(first.key) or TableName(first.schema, first.table)
    moment = seen_at.astimezone(UTC)
    return NewFile(
        schema=first.schema,
        table=first.table,
        partitions=first.partitions,
        key=folder.prefix,
        version=moment.isoformat(),
        kind=FileKind.VANISHED,
        format="none",
        compression="none",
        size=0,
        last_modified=moment,
        flush_time=None,
        capture_date=moment.date(),
        rows=0,
    )


@dataclass(frozen=True, slots=True)
class VanishedFiles:
    """The files that a record reports as vanished."""

    seen_at: datetime
    files: int
    bytes: int

    def __str__(self) -> str:
        what = "its only file" if self.files == 1 else f"all {many(self.files, 'file')}"
        return f"{what} had vanished from the bucket at {self.seen_at:%Y-%m-%d %H:%M:%S} UTC"


def before(mark: LoggedFile, records: Sequence[LoggedFile]) -> VanishedFiles:
    """The files that the record `mark` reports as vanished; `records` are all of the table's, by offset."""
    files = newest_known([record for record in records if record.offset < mark.offset])
    return VanishedFiles(mark.last_modified, len(files), sum(file.size for file in files))


def still_vanished(records: Sequence[LoggedFile]) -> LoggedFile | None:
    """The newest record of a table, if it is a record of vanished files."""
    return records[-1] if records and records[-1].kind is FileKind.VANISHED else None


def any_left(store: ObjectStore, vanished: Vanished) -> bool:
    """Whether the bucket still has one of the files."""
    folder = folder_of(vanished.files[0].key)
    known = {file.key for file in vanished.files}
    return any(obj.key in known for obj in store.list(folder.prefix if folder else "/"))
