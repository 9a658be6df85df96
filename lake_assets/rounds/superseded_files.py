"""Deletes files of sources that a later full load has made superfluous, after `maintenance.keep_superseded_files`.

The log keeps the records: they show what a file was, if somebody puts it back. Each deletion stands alone, so that a
kill between two of them leaves nothing half done. Here: what else needs the files of a table, and deleting them. Not
here: which files a later load has superseded (`silver/plan/superseded.py`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.iceberg.erasure_log import ErasureLog
from lake_assets.iceberg.table_io import load_table
from lake_assets.iceberg.upkeep.table_maintenance import Maintained, timed
from lake_assets.rounds.merged_landings import further_tables, positions_of
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.plan.members import living_files
from lake_assets.silver.plan.plan import State
from lake_assets.silver.plan.superseded import (
    Superseded,
    has_former_loads,
    superseded_files,
    without_evidence,
)
from lake_assets.silver.plan.table_state import TableState, table_states
from lake_assets.silver.table.folders import KEEPING_THE_PAST
from lake_assets.silver.table.targets import Target, source_targets
from lake_assets.storage.object_store import ObjectStore, StoredObject
from lake_assets.words import many

Objects = Sequence[tuple[StoredObject, Superseded]]
"""Objects of a bucket, each with its file; what was superseded last is last."""


@dataclass(frozen=True, slots=True)
class FormerFiles:
    """The files of one source table that a later full load has superseded."""

    source: str
    table: str
    files: tuple[Superseded, ...] = ()
    """Those that can go, what was superseded last at the end; perhaps some are deleted already."""
    parts: tuple[LoggedFile, ...] = ()
    """See `Former`."""
    kept: str = ""
    """Why others stay for now, if they do: a part of a sentence."""


def former_files(runtime: LakeRuntime, source: str, now: datetime) -> list[FormerFiles]:
    """The tables of a source that have files of former full loads. Reads the log and the tables, and lists nothing.
    `now`: UTC. Raises StoreError if a table's state needs the bucket, which cannot be read."""
    window = runtime.lake.maintenance.keep_superseded_files
    if window is None:
        return []
    targets = source_targets(source, runtime.lake.sources[source])
    states = defaultdict[str, list[TableState]](list)
    for state in table_states(runtime, targets, now):
        states[state.target.table].append(state)
    needs = _Needs(runtime, source, targets)
    every = (needs.former(table, own, now - window) for table, own in states.items())
    found = [former for former in every if former is not None]
    free = _free_keys(runtime.file_log.records(source), found)
    free -= _oldest_changes(runtime.file_log.newest(source).values())
    left = []
    for former in found:
        own = without_evidence([each for each in former.files if each.file.path in free], former.parts)
        left.append(replace(former, files=tuple(own)))
        free -= {each.file.path for each in own}  # a file of whole transactions is reported once
    return left


def due_sources(runtime: LakeRuntime, now: datetime) -> list[str]:
    """The sources that have superseded files to delete: those where the file that is deleted last is still there, by
    one request. `now`: UTC."""
    found = []
    for source in runtime.lake.sources:
        files = [file for former in former_files(runtime, source, now) for file in former.files]
        last = max(files, key=lambda each: each.order, default=None)
        if last is not None and any(
            obj.key == last.file.path for obj in runtime.store(source).list(last.file.path)
        ):
            found.append(source)
    return found


def present(runtime: LakeRuntime, former: Iterable[FormerFiles]) -> dict[str, Objects]:
    """By source table, the objects of these files of one source that the bucket has, as the log knows them. Raises
    StoreError."""
    listed: dict[str, StoredObject] = {}
    found: dict[str, Objects] = {}
    for each in former:
        if each.files and not listed:
            listed = {obj.key: obj for obj in runtime.store(each.source).list()}
        newest = runtime.file_log.newest(each.source)
        by_path = {file.file.path: file for file in each.files}
        objects = ((listed[path], file) for path, file in by_path.items() if path in listed)
        found[each.table] = [(obj, file) for obj, file in objects if _is_same(obj, newest.get(obj.key))]
    return found


def delete_superseded(runtime: LakeRuntime, source: str) -> dict[str, Maintained]:
    """Deletes the files of a source that can go; a result by source table, for those that have some in the bucket.
    Never raises: see the `error` of the results; if it is not known which files can go, that of the empty name."""
    objects: dict[str, Objects] = {}

    def look(done: Maintained) -> None:
        objects.update(present(runtime, former_files(runtime, source, datetime.now(UTC))))

    looked = timed(f"files of {source}", look)
    if looked.error is not None:
        return {"": looked}
    store = runtime.store(source)
    return {
        table: timed(f"files of {source}/{table}", partial(_delete, store, own))
        for table, own in objects.items()
        if own
    }


def _delete(store: ObjectStore, objects: Sequence[tuple[StoredObject, Superseded]], done: Maintained) -> None:
    done.files_before = done.files_after = len(objects)
    for obj, _ in objects:
        if store.remove_same(obj):
            done.files_after -= 1
            done.bytes_removed += obj.size


class _Needs:
    """What may need the files of a source's tables."""

    def __init__(self, runtime: LakeRuntime, source: str, targets: Sequence[Target]) -> None:
        self._runtime = runtime
        self._others = further_tables(runtime.catalog, targets)
        self._erased = {
            each.table
            for each in ErasureLog(runtime.catalog).all()
            if each.source == source and each.finished is None
        }
        self._quarantined = {held.key for held in runtime.quarantine.open() if held.source == source}
        self._source = source

    def former(self, table: str, states: Sequence[TableState], before: datetime) -> FormerFiles | None:
        """The files of a source table with these silver tables that were superseded before that time; None for a table
        that was loaded once."""
        first = states[0]
        living = living_files(first.logged, first.target.mode, first.target.config.on_vanished)
        if not has_former_loads(living):
            return None
        former = FormerFiles(self._source, table)
        if reason := next(filter(None, (self._why_all(state) for state in states)), None):
            return replace(former, kept=reason)
        positions = {upto for state in states for upto in self._positions(state)}
        found = superseded_files(living, positions, first.logged[-1].offset)
        files = [each for each in found.files if each.file.key not in self._quarantined]
        going = tuple(each for each in files if each.since < before)
        kept = found.kept or _why_some(len(found.files) - len(files), len(files) - len(going))
        return replace(former, files=going, parts=found.parts, kept=kept)

    def _why_all(self, state: TableState) -> str | None:
        """Why a silver table needs all files; None if it may not."""
        target, batch = state.target, state.plan.batch
        if target.mode in KEEPING_THE_PAST:
            return (
                f"{target.identifier} has mode {target.mode.value}, and may need the files of every full load"
            )
        if target.table in self._erased:
            return "an erasure is not finished"
        if others := self._others.get(f"{target.source}/{target.table}"):
            return f"{'.'.join(others[0].name())} has its rows, too, and lake.yaml does not name that table"
        applies = state.state is State.UP_TO_DATE or (batch is not None and batch.kind == "cdc")
        if not applies or state.error is not None:
            return f"{target.identifier} is {state.state.value}"
        return None

    def _positions(self, state: TableState) -> Collection[int]:
        # Loaded now: the files go, and a tag may have been made since the state was read.
        table = load_table(self._runtime.catalog, state.target.identifier)
        return positions_of(table) | {state.position.log_offset}


def _why_some(quarantined: int, young: int) -> str:
    """Why superseded files stay that are quarantined, or were superseded within the window."""
    reasons = []
    if quarantined:
        reasons.append(f"{many(quarantined, 'file', 'have')} an open entry in the quarantine")
    if young:
        reasons.append(f"{many(young, 'file', 'were')} superseded within maintenance.keep_superseded_files")
    return ", and ".join(reasons)


def _free_keys(records: Iterable[LoggedFile], found: Iterable[FormerFiles]) -> set[str]:
    """The keys under which no table has another record than one of a superseded file, or a copy of one. A file of
    whole transactions has records of many tables."""
    going = {(former.table, each.file.key, each.file.version) for former in found for each in former.files}
    free, needed, offsets = set[str](), set[str](), set[int | None]()
    for record in records:
        if record.kind is FileKind.VANISHED:
            continue
        version = (record.qualified_table, record.key, record.version)
        if version in going or record.copy_of in offsets:
            offsets.add(record.offset)
            free.add(record.key)
        else:
            needed.add(record.key)
    return free - needed


def _oldest_changes(newest: Iterable[LoggedFile]) -> set[str]:
    """The key of the oldest file of changes of each folder. It stays: a scan tells a TRUNCATE of another table from
    files that have expired by files that are as old (`bronze/scan/vanished.py`)."""
    found: dict[tuple[str, str], LoggedFile] = {}
    for record in newest:
        before = found.get(record.stream)
        if record.kind is FileKind.CDC and (before is None or record.last_modified < before.last_modified):
            found[record.stream] = record
    return {record.key for record in found.values()}


def _is_same(obj: StoredObject, newest: LoggedFile | None) -> bool:
    """Whether the object is still the one that the log knows: DMS may have written it again."""
    if newest is None or obj.size != newest.size:
        return False
    return obj.last_modified == newest.last_modified if obj.etag is None else obj.etag == newest.version
