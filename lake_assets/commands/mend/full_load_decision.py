"""`lake-assets full-load`: the user decides whether ambiguous full-load parts are a reload.

Here: which parts, and the log records of the decision. Not here: why they are ambiguous
(`silver/plan/ambiguous_parts.py`), printing (`cli.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.epochs import epoch_start
from lake_assets.bronze.log.file_log import FileLog
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.scan.table_folders import folder_of
from lake_assets.errors import LakeError
from lake_assets.iceberg.table_io import load_table
from lake_assets.lake import Lake
from lake_assets.silver.plan.ambiguous_parts import Ambiguity, ambiguous_parts
from lake_assets.silver.plan.members import by_stream, epoch_of, living_files, newest_versions
from lake_assets.silver.plan.table_state import stamps_of
from lake_assets.silver.table.position import Position, read_position
from lake_assets.silver.table.targets import Target


def decide(
    lake: Lake, table: str, source: str | None, *, reload: bool, began: datetime | None = None
) -> list[LoggedFile]:
    """Logs the ambiguous parts of a table (`schema.table`) again. With `reload`, they become parts of the next full
    load; `began` is its start (UTC), which is needed if the parts' own timestamps do not show it. Otherwise they become
    parts of the load that they were logged with. The decision is in the file log, so a rebuild repeats it. Returns the
    records. Raises LakeError if no part is ambiguous."""
    targets = [t for t in lake.targets if t.is_called(table) and source in (None, t.source)]
    sources = sorted({target.source for target in targets})
    if len(sources) > 1:
        raise LakeError(f"{table} is a table of {' and '.join(sources)}: name one with --source.")
    if not sources:
        raise LakeError(f"lake.yaml has no table {table}.")
    log = lake.runtime.file_log
    table = targets[0].table
    logged = log.files(sources[0], table)
    for target in targets:
        position = read_position(load_table(lake.runtime.catalog, target.identifier))
        living = living_files(logged, target.mode, target.config.on_vanished)
        found = (
            (ambiguity, files)
            for files in by_stream(living).values()
            if (ambiguity := _ambiguity(lake, target, files, position)) is not None
        )
        if (undecided := next(found, None)) is not None:
            ambiguity, files = undecided
            break
    else:
        raise LakeError(
            f"{table}: no full-load file is ambiguous: it is known which full load each belongs to."
        )
    loads = [file for file in files if file.kind is FileKind.LOAD and not file.retry]
    if ambiguity.repeats:
        return _decided_reload(table, log, loads, position.log_offset, reload=reload, began=began)
    if not reload:
        return _logged_as_before(log, ambiguity, loads)
    former = [file for file in loads if file not in ambiguity.parts]
    return log.log_again(
        [*ambiguity.parts, *_rewritten(lake, target, ambiguity.parts, former)],
        epoch=ambiguity.parts[0].epoch + 1,
        began=_began(table, ambiguity.parts, former, began),
    )


def _ambiguity(
    lake: Lake, target: Target, files: Sequence[LoggedFile], position: Position
) -> Ambiguity | None:
    then = replace(position, epoch=epoch_of(files, position.log_offset))
    return ambiguous_parts(files, epoch_of(files), then, stamps_of(lake.runtime, target, files))


def _decided_reload(
    table: str,
    log: FileLog,
    loads: Sequence[LoggedFile],
    applied: int,
    *,
    reload: bool,
    began: datetime | None,
) -> list[LoggedFile]:
    """Logs the parts that were logged as a reload again: as that reload, or with the load that the table has, which it
    has applied up to the offset `applied`."""
    epoch = epoch_of(loads, applied) or min(file.epoch for file in loads)
    parts = [part for part in newest_versions(loads) if part.epoch > epoch]
    former = [file for file in loads if file not in parts]
    if reload:
        return log.log_again(parts, epoch=epoch_of(loads), began=_began(table, parts, former, began))
    last = newest_versions([file for file in former if file.epoch == epoch])
    start = epoch_start(last, [file for file in loads if file.epoch < epoch])
    return log.log_again(parts, epoch=epoch, began=start)


def _logged_as_before(log: FileLog, ambiguity: Ambiguity, loads: Sequence[LoggedFile]) -> list[LoggedFile]:
    """Logs the parts as parts of the current load, with that load's start, whatever their own timestamps are."""
    epoch = ambiguity.parts[0].epoch
    logged = []
    for part in ambiguity.parts:
        former = [f for f in loads if (f.file, f.epoch) == (part.file, epoch) and f.offset < part.offset]
        same = former[-1].first_commit_ts if former else None
        logged += log.log_again([part], epoch=epoch, began=same)
    return logged


def _began(
    table: str, parts: Sequence[LoggedFile], former: Sequence[LoggedFile], given: datetime | None
) -> datetime | None:
    """When the reload began, if its parts' timestamps do not show it. Files that were flushed before are superseded."""
    stamps = [part.first_commit_ts for part in parts if part.first_commit_ts is not None]
    before = [file.first_commit_ts for file in former if file.first_commit_ts is not None]
    if given is not None or not stamps or not before or min(stamps) > max(before):
        return given
    raise LakeError(
        f"{table}: the timestamps in {parts[0].key} are not later than those of the previous full load, so it is not "
        "known which changes the reload includes. Say when it began, in UTC: --reload --began "
        "2026-01-31T12:00:00 (DMS shows it in the table statistics of the task)."
    )


def _rewritten(
    lake: Lake, target: Target, parts: Sequence[LoggedFile], former: Sequence[LoggedFile]
) -> Iterator[LoggedFile]:
    """Other parts of the previous load that DMS has rewritten with the same bytes."""
    again = {part.file for part in parts}
    last = newest_versions([f for f in former if f.epoch == parts[0].epoch and f.file not in again])
    store = lake.runtime.store(target.source)
    prefixes = {folder.prefix for part in parts if (folder := folder_of(part.key))}
    written = {obj.key: obj.last_modified for prefix in prefixes for obj in store.list(prefix)}
    begun = min(part.last_modified for part in parts)
    for file in last:
        if file.path in written and written[file.path] > file.last_modified and written[file.path] >= begun:
            yield file
