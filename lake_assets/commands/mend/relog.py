"""A new file log from the bucket, and silver positions in it.

A table has applied the listed files that were flushed no later than the newest file of its position. The position's
checksum proves this, if need be without one or two files that arrived late. If the checksum does not match, files that
were written after the table's last file was logged become pending. They are applied again, which changes nothing if
they were applied before. A placeholder record stands for files that are gone: a file that needs them is held back.

Here: making the log and moving the positions. Not here: finding a former log (`recover.py`), a batch.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

from lake_assets.bronze.files.keys import DataFile, FileKind, TransactionFile
from lake_assets.bronze.log.file_log import TABLE, LoggedFile, NewFile
from lake_assets.bronze.scan.discovery import discover
from lake_assets.bronze.scan.table_folders import TableFolders
from lake_assets.config import TableName
from lake_assets.errors import LakeError
from lake_assets.iceberg.publish import attempt
from lake_assets.iceberg.table_io import load_table
from lake_assets.lake import Lake
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.plan.members import living_files, made_of, table_epoch
from lake_assets.silver.table.guard import refuse_foreign_commits
from lake_assets.silver.table.log_mark import LogMark, mark_of, superfluous
from lake_assets.silver.table.position import Position
from lake_assets.silver.table.targets import Target
from lake_assets.storage.object_store import ObjectStore, StoredObject

Positions = Sequence[tuple[Target, Position]]
OLDEST = datetime(1970, 1, 1, tzinfo=UTC)
LOST = "files-before-the-log-was-recovered"
"""The name, in the table's folder, of the placeholder record for files that are gone."""


def log_again(lake: Lake, runtime: LakeRuntime, positions: Positions) -> Iterator[str]:
    """Makes the log, moves the positions, and yields a sentence for each step. Raises LakeError for a table that an
    earlier version has applied: its position lacks the mark of the file log."""
    streams = [name for name, source in lake.config.sources.items() if source.stream is not None]
    for name in streams:
        yield (
            f"{name}: only the file log had the positions up to which its stream was read. Drop the silver tables of "
            f"{name}, land its stream, and have DMS reload the tables"
        )
    positions = [(target, position) for target, position in positions if target.source not in streams]
    applied = [(target, position) for target, position in positions if position.log_offset]
    for target, position in applied:
        if position.mark is None:
            raise LakeError(
                f"{target.identifier} was last applied by an earlier version, whose commits do not name the file log, "
                "and no former state of the log is left. Drop that table to have it loaded again."
            )
    for target, _ in positions:
        # The commit that moves a position would hide foreign commits below it.
        refuse_foreign_commits(target, load_table(runtime.catalog, target.identifier))
    log = runtime.file_log
    first = 1 + max([log.head(), *_offsets(runtime, applied)])
    boundaries = _new_log(runtime, applied, first)
    yield f"{TABLE}: a new file log, from the files that are in the bucket now"
    for target, position in applied:
        yield _move_position(runtime, target, position, boundaries[target.source])


def _new_log(runtime: LakeRuntime, applied: Positions, first: int) -> dict[str, int]:
    """Logs every source, first the files that the tables have applied. Returns, by source, the offset of the last of
    these.

    By its name alone, a late file can count as applied. Then the table's checksum does not match. If leaving out one or
    two files does not make it match, the dates of the objects decide as well.
    """
    log, uncertain = runtime.file_log, _Uncertain()
    while True:
        log.begin(first)
        boundaries = {}
        for name in _with_files(runtime):
            marks = [(t, p.mark) for t, p in applied if t.source == name and p.mark is not None]
            _log_applied(runtime, name, marks, uncertain)
            boundaries[name] = log.head()
        files, before = log.files(), uncertain.size
        for target, position in applied:
            if (target.source, target.table) not in uncertain.tables and position.mark is not None:
                uncertain.add(target, _superfluous(files, target, position.mark, boundaries[target.source]))
        if uncertain.size == before:
            break
    for name in _with_files(runtime):
        log_arrivals(runtime, name)
    return boundaries


def _with_files(runtime: LakeRuntime) -> list[str]:
    """The sources whose files DMS has written: those that messages of a stream land in have the lake's own names."""
    return [name for name, source in runtime.lake.sources.items() if source.stream is None]


@dataclass
class _Uncertain:
    """What file names do not show: the keys of files that were not applied, and the tables whose files are gone, each
    with its source."""

    keys: set[tuple[str, str]] = field(default_factory=set)
    tables: set[tuple[str, str]] = field(default_factory=set)

    @property
    def size(self) -> int:
        return len(self.keys) + len(self.tables)

    def add(self, target: Target, found: Sequence[LoggedFile] | None) -> None:
        if found is None:
            self.tables.add((target.source, target.table))
        else:
            self.keys |= {(target.source, file.key) for file in found}


def _offsets(runtime: LakeRuntime, applied: Positions) -> Iterator[int]:
    """Every offset of the former log that a position or a contract refers to."""
    for target, position in applied:
        yield position.log_offset
        yield from (version.from_offset for version in runtime.contracts.of(target.identifier).versions)


@dataclass(frozen=True)
class _Part:
    """A store that lists only some of its objects."""

    store: ObjectStore
    wanted: Callable[[StoredObject], bool]

    def list(self, prefix: str = "", start_after: str | None = None) -> Iterator[StoredObject]:
        return filter(self.wanted, self.store.list(prefix, start_after))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def _log_applied(
    runtime: LakeRuntime,
    source: str,
    marks: Sequence[tuple[Target, LogMark]],
    uncertain: _Uncertain,
) -> None:
    """Logs the files that the tables have applied, and a placeholder record for each table whose files are gone."""
    config, log = runtime.lake.sources[source], runtime.file_log
    folders = TableFolders(config)
    until = {t.table: max(m.logged_at for o, m in marks if o.table == t.table) for t, _ in marks}
    flushes = [(t.table, mark.flushed) for t, mark in marks if mark.flushed is not None]

    def was_applied(obj: StoredObject) -> bool:
        parsed = folders.parse(obj.key)
        if (source, obj.key) in uncertain.keys:
            return False
        if isinstance(parsed, TransactionFile):
            late = any(obj.last_modified > until[t] for t in until if (source, t) in uncertain.tables)
            return not late and any(parsed.flush_time <= flushed for _, flushed in flushes)
        if not isinstance(parsed, DataFile) or parsed.qualified_table not in until:
            return False
        table, at = parsed.qualified_table, parsed.flush_time
        if (source, table) in uncertain.tables and obj.last_modified > until[table]:
            return False
        return at is None or any(at <= flushed for own, flushed in flushes if own == table)

    # The placeholder's offset is below those of the files. So if a table is behind, the files are above its position.
    for table in {t.table for t, _ in marks if (source, t.table) in uncertain.tables}:
        log.append(source, [_placeholder(table, [mark for t, mark in marks if t.table == table])])
    applied = _Part(runtime.store(source), was_applied)
    discover(source, config, cast(ObjectStore, applied), log)


def _superfluous(
    files: Sequence[LoggedFile], target: Target, mark: LogMark, boundary: int
) -> list[LoggedFile] | None:
    """The records up to the boundary that the table has not applied; None if records are missing."""
    own = _applied(_of_table(files, target), mark, boundary)
    if later := [file for file in own if _was_transferred_after(file, mark)]:
        return later
    living = living_files(own, target.mode, target.config.on_vanished)
    return superfluous(made_of(living, target.mode, _last(living)), mark.members)


def _was_transferred_after(file: LoggedFile, mark: LogMark) -> bool:
    """Whether a full-load part belongs to a transfer that the table cannot have applied. For a large part, whose
    content is not known, this is the only evidence."""
    at = file.first_commit_ts
    return file.kind is FileKind.LOAD and at is not None and at > mark.logged_at


def _placeholder(table: str, marks: Sequence[LogMark]) -> NewFile:
    placed = TableName.parse(table)
    return NewFile(
        schema=placed.schema,
        table=placed.table,
        key=placed.prefix + LOST,
        version=marks[0].log_id,
        kind=FileKind.CDC,
        format="csv",
        compression="none",
        size=0,
        last_modified=OLDEST,
        # A reload that begins later supersedes it.
        flush_time=min(mark.flushed or mark.logged_at for mark in marks),
        capture_date=OLDEST.date(),
        rows=0,
        columns=None,
        first_commit_ts=None,
    )


def _move_position(runtime: LakeRuntime, target: Target, position: Position, boundary: int) -> str:
    """Repeats the table's position, as a position in the new log, in a commit without rows."""
    log = runtime.file_log
    own = _of_table(log.files(), target)
    applied = _applied(own, position.mark, boundary)
    upto = _last(applied)
    epoch = max(table_epoch(applied), 1) if position.epoch else 0
    living = living_files(applied, target.mode, target.config.on_vanished)
    members = made_of(living, target.mode, upto)
    mark = mark_of(log.identity(), upto, applied, members)
    now = replace(position, log_offset=upto, epoch=epoch, mark=mark)
    with runtime.sessions.isolated() as spark:
        catalog = runtime.lake.catalog.name
        with attempt(spark, catalog, target.identifier, position.snapshot_id) as current:
            current.publish_nothing(runtime.catalog, now.properties(), position.snapshot_id)
    pending = sum(file.offset > upto for file in own)
    gone = any(file.key.endswith(LOST) for file in applied)
    return (
        f"{target.identifier}: {len(applied) - gone} of the listed files are applied and {pending} are pending"
        + (
            "; other files that it has applied are gone, so that a late file will be held back"
            if gone
            else ""
        )
    )


def _of_table(files: Sequence[LoggedFile], target: Target) -> list[LoggedFile]:
    return [f for f in files if (f.source, f.qualified_table) == (target.source, target.table)]


def _applied(files: Sequence[LoggedFile], mark: LogMark | None, boundary: int) -> list[LoggedFile]:
    """The records up to the boundary that the position covers: another shape of the table may have applied more."""
    flushed = mark.flushed if mark is not None else None
    return [
        file
        for file in files
        if file.offset <= boundary
        and (
            file.flush_time is None
            or file.key.endswith(LOST)
            or (flushed is not None and file.flush_time <= flushed)
        )
    ]


def _last(files: Sequence[LoggedFile]) -> int:
    return max((file.offset for file in files), default=0)
