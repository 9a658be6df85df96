"""Files that a later full load has made superfluous: a pure decision from the log's records of one table.

Nothing is computed from a file of a former full load once every commit that the table still has is of the newest load
or later: not a late batch, a rebuild, a repair or a table that was taken back to an older commit. What is in doubt
stays. Here: which files these are, and since when. Not here: what else may need them, and deleting them
(`rounds/superseded_files.py`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.epochs import transfers
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.silver.plan.ambiguous_parts import LOADS_APART
from lake_assets.silver.plan.members import by_stream, epoch_members, epoch_of, newest_versions, offset_of


@dataclass(frozen=True, slots=True)
class Superseded:
    """A record of a file from which nothing is computed any more. Times are UTC."""

    file: LoggedFile
    since: datetime
    """When both the file and the load were in the log."""
    load: datetime
    """When the newest full load began."""
    order: tuple[int, int]
    """By offset of the newest load, then of the file: what was superseded last is last."""


@dataclass(frozen=True, slots=True)
class Former:
    """The superseded files of one table."""

    files: tuple[Superseded, ...] = ()
    parts: tuple[LoggedFile, ...] = ()
    """All parts of former loads that the bucket may have."""
    kept: str = ""
    """Why files of former full loads stay, if some do for a reason of their load: a part of a sentence."""


@dataclass(frozen=True, slots=True)
class _Load:
    """The newest full load of one folder."""

    epoch: int
    began: datetime
    logged_at: datetime
    last: int


def superseded_files(living: Sequence[LoggedFile], positions: Collection[int], head: int) -> Former:
    """The superseded files of a table. `living`: its records without copies (`living_files`), by offset; `positions`:
    the offsets of the commits that the table still has; `head`: the offset of its newest record."""
    least = min(positions)
    loads, kept = _newest_loads(living, least)
    needed = {member.file for upto in {least, head} for member in epoch_members(living, upto)}
    found = []
    for file in living:
        own = [loads.get((file.schema, name)) for name in file.names]
        known = [load for load in own if load is not None]
        if len(known) < len(own) or file.retry or file.offset > least or file.file in needed:
            continue
        if all(_is_before(file, load) for load in known):
            last = max(known, key=lambda load: load.last)
            since = max(file.logged_at, *(load.logged_at for load in known))
            found.append(Superseded(file, since, last.began, (last.last, file.offset)))
    parts = tuple(file for file in living if file.kind is FileKind.LOAD and file.file not in needed)
    return Former(tuple(sorted(found, key=lambda each: each.order)), parts, kept)


def without_evidence(files: Sequence[Superseded], parts: Iterable[LoggedFile]) -> list[Superseded]:
    """The files that can go if no others do, in their order: the changes of a folder stay while a part of a former load
    stays. They are what shows a log that is made again that the part is not of the newest load. `parts`: those of
    `Former`."""
    going = {each.file.path for each in files}
    staying = {part.stream for part in parts if part.path not in going}
    return [
        each
        for each in files
        if each.file.kind is FileKind.LOAD
        or staying.isdisjoint((each.file.schema, name) for name in each.file.names)
    ]


def _newest_loads(living: Iterable[LoggedFile], least: int) -> tuple[Mapping[tuple[str, str], _Load], str]:
    """By folder, the newest full load where it supersedes files for certain, and every retained commit has it."""
    found, kept = {}, ""
    for stream, own in by_stream(file for file in living if file.kind is FileKind.LOAD).items():
        epoch = epoch_of(own)
        parts = [part for part in newest_versions(own) if part.epoch == epoch]
        stamps = transfers(parts, [file for file in own if file.epoch < epoch])
        last = max(map(offset_of, own))
        if len(stamps) < len(parts):
            # The user may still say that it is no reload.
            kept = "nothing in its newest full load shows when DMS transferred it"
        elif last > least:
            kept = "it has commits from before its newest full load"
        else:
            found[stream] = _Load(epoch, min(stamps), max(part.logged_at for part in parts), last)
    return found, kept


def _is_before(file: LoggedFile, load: _Load) -> bool:
    if file.kind is FileKind.LOAD:
        # Without a timestamp, the same rows in another folder may be a reload, and would count as this file, moved.
        return file.epoch < load.epoch and file.first_commit_ts is not None
    # A late part of the load may have been transferred so much earlier than the others.
    return file.flush_time is not None and file.flush_time < load.began - LOADS_APART


def has_former_loads(living: Iterable[LoggedFile]) -> bool:
    """Whether some files are of a full load before the newest one, or older than it."""
    return any(
        len({file.epoch for file in own}) > 1
        for own in by_stream(file for file in living if file.kind is FileKind.LOAD).values()
    )
