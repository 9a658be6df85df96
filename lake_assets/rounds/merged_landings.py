"""Merges the files of a stream's landings that silver has applied.

Here: what silver, the quarantine and the stream still need apart. Not here: which files fit
(`bronze/stream/merging.py`), when (`maintenance.py`, `commands/run/maintain.py`).
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.log.streams.stream_positions import parse_ranges
from lake_assets.bronze.stream.merging import Apart, Merged, is_small, merged_files, runs
from lake_assets.bronze.stream.orphans import replaced_keys
from lake_assets.iceberg.table_io import load_table, summary, tables_in
from lake_assets.iceberg.upkeep.table_maintenance import Maintained
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.plan.cut import ALL_FILES, may_wait
from lake_assets.silver.table.guard import SOURCE_TABLE
from lake_assets.silver.table.position import LOG_OFFSET, read_position
from lake_assets.silver.table.targets import Target, source_targets
from lake_assets.storage.object_store import ObjectGone, ObjectStore

logger = logging.getLogger(__name__)
SETTLED_AFTER = timedelta(minutes=10)
"""DMS may put a message so much later than it built it."""
MOST_FILES = 5000
"""At a time: in the continuous run, rounds wait for it."""
LEAST_SHARE = 10
"""Files are merged if that removes this part of the log's records, because the log is written again."""


def merge_landed(runtime: LakeRuntime, source: str, done: Maintained) -> bool:
    """Merges files of a source with a stream, MOST_FILES about. Notes in `done` how many records the log had and has.
    Returns whether there were any. Raises StoreError."""
    config, log = runtime.lake.sources[source], runtime.file_log
    assert config.stream is not None
    records = log.records(source)
    done.files_before, done.files_after = done.files_before or len(records), len(records)
    soon = datetime.now(UTC) - SETTLED_AFTER
    small = sum(is_small(file) and file.logged_at < soon for file in records)
    if not small or small * LEAST_SHARE < len(records):
        return False
    backlog = runtime.backlogs.of(source, config.stream)
    if backlog.asked is None or backlog.lost or backlog.silent:
        return False  # a full load of before may still be in a shard
    settled = backlog.asked - timedelta(seconds=backlog.seconds) - SETTLED_AFTER
    # Read after the stream was asked: what it had no more is in the log.
    merged = _written(_Tables(runtime, source).runs(settled), runtime.store(source))
    # Silver may have moved meanwhile, or a table of it may be there again.
    still = [{*run} for run in _Tables(runtime, source).runs(settled)]
    fits = [one for one in merged if any(run.issuperset(one.files) for run in still)]
    former = [file for one in fits for file in one.files]
    if former:
        replaced_keys(runtime.store(source), [file.key for file in former], datetime.now(UTC))
        log.merge(former, [one.record for one in fits])
        done.files_rewritten += len(former)
        done.files_after = len(records) - len(former) + len(fits)
    return bool(former)


def _written(every: Sequence[list[LoggedFile]], store: ObjectStore) -> list[Merged]:
    found, files = list[Merged](), 0
    for run in every:
        try:
            found += merged_files(run, store)
        except ObjectGone:
            continue  # they were superseded, and are deleted
        except ValueError as error:
            logger.warning("%s: these files stay as they are: %s", run[0].source, error)
        files += len(run)
        if files > MOST_FILES:
            break
    return found


class _Tables:
    """The source's tables, and what must stay apart of each."""

    def __init__(self, runtime: LakeRuntime, source: str) -> None:
        self._runtime, self._source = runtime, source
        self._targets = defaultdict[str, list[Target]](list)
        for target in source_targets(source, runtime.lake.sources[source]):
            self._targets[target.table].append(target)
        log = runtime.file_log.records(source)
        self._files = defaultdict[str, list[LoggedFile]](list)
        for record in log:
            self._files[record.qualified_table].append(record)
        copied = {record.copy_of for record in log}
        self._alone = (
            _newest_notes(log)
            | {held.key for held in runtime.quarantine.all() if held.source == source}
            # Rows of it may have been erased: the record has their number from before.
            | {record.key for record in log if record.offset in copied}
        )
        own = [target for targets in self._targets.values() for target in targets]
        self._others = further_tables(runtime.catalog, own)

    def runs(self, settled: datetime) -> list[list[LoggedFile]]:
        """The files that can be one. `settled`: see `Apart`."""
        return [
            run for table in self._targets for run in runs(self._files[table], self._apart(table, settled))
        ]

    def _apart(self, table: str, settled: datetime) -> Apart:
        files, runtime = self._files[table], self._runtime
        applied, positions, contracts = list[int](), set[int](), set[int]()
        for other in self._others[f"{self._source}/{table}"]:
            positions |= positions_of(other)
        for target in self._targets[table]:
            found = load_table(runtime.catalog, target.identifier)
            applied.append(_applied(runtime, target, found, files))
            positions |= positions_of(found)
            contracts |= {version.from_offset for version in runtime.contracts.of(target.identifier).versions}
        loads = [file for file in files if file.kind is FileKind.LOAD]
        began = {at for file in loads for at in (file.first_commit_ts, file.written_at) if at is not None}
        began |= {*runtime.file_log.created(self._source).get(table, ())}
        return Apart(min(applied), settled, sorted(positions), sorted(contracts), sorted(began), self._alone)


def _newest_notes(log: Sequence[LoggedFile]) -> set[str]:
    """The files whose records say up to where a shard was read, as no later one does."""
    newest: dict[str, str] = {}
    for record in log:
        if record.ranges is not None:
            newest |= dict.fromkeys(parse_ranges(record.ranges), record.key)
    return {*newest.values()}


def _applied(runtime: LakeRuntime, target: Target, table: Table | None, files: Sequence[LoggedFile]) -> int:
    """The offset up to which the table has all rows of its files."""
    position, settings = read_position(table), runtime.lake.sources[target.source].consistent_cut
    margin = ALL_FILES if settings is None else settings.margin
    waiting = [file.offset - 1 for file in files if may_wait(file, position, margin)]
    return min([position.log_offset, *waiting])


def further_tables(catalog: Catalog, targets: Sequence[Target]) -> Mapping[str, list[Table]]:
    """By `source/schema.table`, the silver tables in the namespaces of the targets that lake.yaml does not name any
    more, or not yet as this process has read it."""
    named = {target.identifier for target in targets}
    places = {target.namespace for target in targets}
    found = defaultdict[str, list[Table]](list)
    for identifier in sorted({t for place in places for t in tables_in(catalog, place)} - named):
        if (table := load_table(catalog, identifier)) is not None:
            found[table.properties.get(SOURCE_TABLE, "")].append(table)
    return found


def positions_of(table: Table | None) -> set[int]:
    """The positions of the snapshots that the table keeps."""
    found = (summary(snapshot) for snapshot in table.metadata.snapshots) if table is not None else ()
    return {int(properties[LOG_OFFSET]) for properties in found if LOG_OFFSET in properties}
