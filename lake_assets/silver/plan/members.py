"""The files that a table is computed from, in each of its folders: a pure function of the log's records.

A table with `folders` has several streams of files: the folder of its name, and one for each partition. Each is loaded
and reloaded by itself, with epochs of its own, and the table is the union of all. A full load in the folder of the
table's name has the rows of all partitions: it supersedes the changes before it in every folder. Here: which records
count. Not here: the next batch (`planner.py`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.copies import originals
from lake_assets.bronze.log.epochs import epoch_start
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.config import Mode, OnVanished


def by_stream(files: Iterable[LoggedFile]) -> dict[tuple[str, str], list[LoggedFile]]:
    """The files of each folder that a table has: its own, and those of its `folders`. Each is loaded by itself."""
    found: dict[tuple[str, str], list[LoggedFile]] = {}
    for file in files:
        found.setdefault(file.stream, []).append(file)
    return found


def table_epoch(files: Iterable[LoggedFile]) -> int:
    """The number of the table's full loads, over all of its folders; of a table with one folder, the newest epoch."""
    return sum(epoch_of(own) for own in by_stream(f for f in files if f.kind is FileKind.LOAD).values())


def epoch_of(files: Iterable[LoggedFile], upto: int | None = None) -> int:
    """The newest epoch of one folder's full-load files, up to an offset. A load whose parts were all logged again with
    the load before is none (`lake-assets full-load --same-load`)."""
    loads = (f for f in files if f.kind is FileKind.LOAD and (upto is None or f.offset <= upto))
    return max((file.epoch for file in newest_versions(loads)), default=0)


def living_files(files: Sequence[LoggedFile], mode: Mode, on_vanished: OnVanished) -> list[LoggedFile]:
    """The files from which the table's state may be computed, in the order of `files`: for a table that is emptied when
    its files vanish, those logged since then. Full loads of the partitions replace one of the whole table that has
    vanished."""
    marks = {file.stream: file.offset for file in files if file.kind is FileKind.VANISHED}
    if not empties(mode, on_vanished):
        by_partition = any(file.kind is FileKind.LOAD and file.partitions for file in files)
        marks = {
            stream: offset
            for stream, offset in marks.items()
            if by_partition and stream == (files[0].schema, files[0].table)
        }
    return [
        file
        for file in originals(files)
        if file.kind is not FileKind.VANISHED and file.offset > marks.get(file.stream, 0)
    ]


def empties(mode: Mode, on_vanished: OnVanished) -> bool:
    """Whether the table is emptied when its files vanish; never a change log, which keeps what happened."""
    return on_vanished != "keep" and mode is not Mode.CHANGE_LOG


def epoch_members(files: Sequence[LoggedFile], upto: int) -> tuple[LoggedFile, ...]:
    """All records from which the table's state at log offset `upto` is computed, in log order: of each folder, the
    newest full load and the changes since. A load of the table's own folder is of its other folders, too."""
    newest = newest_versions(files)
    parts: list[LoggedFile] = []
    starts: dict[tuple[str, str], datetime | None] = {}
    current = by_stream(file for file in newest if file.kind is FileKind.LOAD and file.offset <= upto)
    for stream, loads in by_stream(file for file in files if file.kind is FileKind.LOAD).items():
        epoch = epoch_of(loads, upto)
        own = [file for file in current.get(stream, ()) if file.epoch == epoch]
        starts[stream] = epoch_start(own, [file for file in loads if file.epoch < epoch])
        parts += own
    cdc = (_since(f, starts) for f in newest if f.kind is FileKind.CDC and f.offset <= upto)
    members = with_requests([*parts, *(file for file in cdc if file is not None)], files)
    return tuple(file for file in members if file.offset <= upto)


def _since(file: LoggedFile, starts: Mapping[tuple[str, str], datetime | None]) -> LoggedFile | None:
    """The changes in the file that no full load supersedes; None if there are none."""
    of_all = starts.get((file.schema, file.table))
    kept = sorted(n for n in file.names if not _superseded(file, starts.get((file.schema, n), of_all)))
    if len(kept) == len(file.names):
        return file
    return replace(file, partitions=tuple(kept), rows=None) if kept else None


def made_of(files: Sequence[LoggedFile], mode: Mode, upto: int) -> tuple[LoggedFile, ...]:
    """The records from which a table's state at log offset `upto` is computed, by its mode; `files` are living ones."""
    if mode is Mode.CHANGE_LOG:
        return newest_versions(file for file in files if file.offset <= upto)
    return epoch_members(files, upto)


def newest_versions(files: Iterable[LoggedFile]) -> tuple[LoggedFile, ...]:
    """The newest record of each file, in log order: the bucket has one object of a file, so the content of an older
    record is gone. A request for quarantined rows has no content, and supersedes no record."""
    ordered = sorted((file for file in files if not file.retry), key=_placed_at)
    return tuple(sorted({file.file: file for file in ordered}.values(), key=offset_of))


def with_requests(members: Iterable[LoggedFile], files: Iterable[LoggedFile]) -> tuple[LoggedFile, ...]:
    """The members and the records that request rows of them again, in log order."""
    at = {(member.key, member.version): member for member in members}
    requests = (f for f in files if f.retry and (f.key, f.version) in at)
    asking = [f for f in requests if f.offset > at[f.key, f.version].offset]
    return tuple(sorted([*at.values(), *asking], key=offset_of))


def offset_of(file: LoggedFile) -> int:
    """The record's offset, to sort by."""
    return file.offset


def _placed_at(file: LoggedFile) -> tuple[int, int]:
    return file.placed_at or file.offset, file.offset


def _superseded(file: LoggedFile, start: datetime | None) -> bool:
    return start is not None and file.flush_time is not None and file.flush_time < start
