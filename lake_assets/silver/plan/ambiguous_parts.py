"""Full-load files that only the user can assign to a full load: a pure decision.

A wrong guess loses rows: a part that is taken for a part of a reload supersedes all changes before it, and one that is
taken for a part of the applied load brings deleted rows back. Here: which parts are ambiguous, and why. Not here: the
epochs with which they were logged (`bronze/log/admission.py`), the user's decision
(`commands/mend/full_load_decision.py`).
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from lake_assets.bronze.files.keys import FileKind, same_name
from lake_assets.bronze.log.epochs import is_of_same_load, load_end
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.silver.table.position import Position
from lake_assets.words import many

LOADS_APART = timedelta(hours=6)
"""Parts of one full load are transferred in shorter intervals than this."""


class Stamps(StrEnum):
    """What the stamps of a table's full-load rows are."""

    TRANSFER = "transfer"
    """When DMS transferred each row."""
    TASK_START = "task start"
    """When the task started (UseTaskStartTimeForFullLoadTimestamp)."""
    ANNOUNCED = "announced"
    """When DMS transferred each row; and it has also said when each load began, so that no part is ambiguous."""


@dataclass(frozen=True, slots=True)
class Ambiguity:
    """Parts that may not belong to the load with which they were logged."""

    parts: tuple[LoggedFile, ...]
    reason: str
    """A sentence for the user."""
    came_late: bool = False
    """They arrived after their load had been applied, under new keys."""
    repeats: bool = False
    """They may repeat parts of the load before the one with which they were logged."""
    corrects: bool = False
    """They may correct parts of the load with which they were logged."""
    may_settle: bool = False
    """Further parts of the load may show which load they belong to."""

    @property
    def written_again(self) -> bool:
        """Whether they may be known parts with corrected rows."""
        return self.repeats or self.corrects


def ambiguous_parts(
    files: Sequence[LoggedFile], epoch: int, position: Position, stamps: Stamps
) -> Ambiguity | None:
    """The ambiguity about a pending full load, or None. `files` are the table's records without copies, by offset."""
    if stamps is Stamps.ANNOUNCED:
        return None
    every = [file for file in files if file.kind is FileKind.LOAD and not file.retry]
    if not any(file.offset > position.log_offset for file in every):
        return None
    records = _standing(every)
    own = [file for file in records if file.epoch == epoch]
    parts = list({file.file: file for file in own}.values())
    pending = [part for part in parts if part.offset > position.log_offset]
    new = [part for part in pending if not _decided(part, every)]
    same_stamps = stamps is Stamps.TASK_START or _may_have_the_tasks_start(parts)
    changed = any(file.kind is FileKind.CDC for file in files)
    # Before any change and any applied row, a correction and a reload have the same result.
    alone = position.epoch < epoch and not changed
    return (
        (None if alone else _rewritten(new, own, same_stamps))
        or _without_later_stamps(new, records, epoch, position)
        or (_without_stamps(new, records, epoch, position, changed=changed) if new == pending else None)
        or _loads_apart(new, parts, epoch, position)
        or _late(new, parts, records, files, epoch, position)
    )


def _standing(records: Sequence[LoggedFile]) -> list[LoggedFile]:
    """The records without those of a reload that the user has denied: their parts were logged again with the load
    before."""
    last = {(file.key, file.version): file.epoch for file in records}
    return [file for file in records if file.epoch <= last[file.key, file.version]]


def _decided(part: LoggedFile, records: Sequence[LoggedFile]) -> bool:
    """Whether the same object was logged before, because the user has decided (`lake-assets full-load`). An object that
    was written again with the same bytes has a later date."""
    same = (part.key, part.version, part.last_modified)
    return any((f.key, f.version, f.last_modified) == same and f.offset < part.offset for f in records)


def _may_have_the_tasks_start(parts: Sequence[LoggedFile]) -> bool:
    """Whether all parts, and all rows of each as far as known, have the same stamp, which may then be the task's start
    and not a time of transfer."""
    stamps = {part.first_commit_ts for part in parts}
    return len(stamps) == 1 and all(part.one_stamp is not False for part in parts)


def _rewritten(new: Sequence[LoggedFile], own: Sequence[LoggedFile], same_stamps: bool) -> Ambiguity | None:
    """Parts whose content differs from their key's former content in the same load, unless their stamps show that it is
    the same transfer, corrected in place."""
    ambiguous = []
    for part in new:
        former = [f for f in own if f.file == part.file and f.offset < part.offset]
        if not former or part.first_commit_ts is None:
            continue
        if part.first_commit_ts != former[-1].first_commit_ts or same_stamps:
            ambiguous.append(part)
    if not ambiguous:
        return None
    return Ambiguity(
        tuple(ambiguous),
        f"{ambiguous[0].key} was written again with other rows, and its timestamps do not show whether it was "
        f"transferred again ({_files(ambiguous)}).",
        corrects=True,
    )


def _without_later_stamps(
    new: Sequence[LoggedFile], records: Sequence[LoggedFile], epoch: int, position: Position
) -> Ambiguity | None:
    """Parts of a reload whose stamps are not later than the former load's, so that its beginning is unknown."""
    if position.epoch >= epoch:
        return None
    # A part of this load may first have been logged with the load before.
    own = {(file.key, file.version) for file in records if file.epoch == epoch}
    former = [f for f in records if f.epoch < epoch and (f.key, f.version) not in own]
    stamps = [f.first_commit_ts for f in former]
    ambiguous = [part for part in new if _is_no_later(part, stamps, former)]
    if not ambiguous:
        return None
    return Ambiguity(
        tuple(ambiguous),
        f"{ambiguous[0].key} was written again, and nothing in it shows that it was transferred later than the full "
        f"load before it ({_files(ambiguous)}).",
        repeats=True,
    )


def _is_no_later(part: LoggedFile, stamps: Sequence[datetime | None], former: Sequence[LoggedFile]) -> bool:
    contents = [f for f in former if f.file == part.file]
    if part.first_commit_ts is None:
        # It may copy a file that could not be compared, because that is large or was logged by an earlier version.
        unread = [f for f in former if None in (f.content, part.content) and f.first_commit_ts is None]
        alike = [f for f in unread if same_name(f.key, part.key) and f.format == part.format]
        return any(f.size == part.size or f.compression != part.compression for f in alike)
    back = any(f.content is not None and f.content == part.content for f in contents)
    return not back and any(stamp is not None and stamp >= part.first_commit_ts for stamp in stamps)


def _without_stamps(
    new: Sequence[LoggedFile],
    records: Sequence[LoggedFile],
    epoch: int,
    position: Position,
    *,
    changed: bool,
) -> Ambiguity | None:
    """Parts with other rows than before and without timestamps: of a reload, or corrected. It makes no difference where
    the table has no changes and every part was written again."""
    if position.epoch >= epoch:
        return None
    # An answer about a load (`--began`) dates its records; a part without rows has no timestamps in any source.
    first = {(file.key, file.version): file for file in reversed(records)}
    before = {file.file for file in first.values() if file.epoch < epoch and file.first_commit_ts is None}
    ambiguous = [part for part in new if part.first_commit_ts is None and part.file in before]
    last = max((file.epoch for file in records if file.epoch < epoch), default=0)
    left = {file.file for file in records if file.epoch == last} - {
        file.file for file in records if file.epoch == epoch
    }
    if not ambiguous or not (changed or left):
        return None
    return Ambiguity(
        tuple(ambiguous),
        f"{ambiguous[0].key} was written again with other rows, and the source has no timestamp column that would show "
        f"whether it was transferred again ({_files(ambiguous)}).",
        repeats=True,
        may_settle=not changed,
    )


def _loads_apart(
    new: Sequence[LoggedFile], parts: Sequence[LoggedFile], epoch: int, position: Position
) -> Ambiguity | None:
    """Parts of a load that was never applied, if they were transferred long after its other parts."""
    if position.epoch >= epoch or any(part not in new for part in parts):
        return None
    times = _transfer_times(parts, epoch)
    ordered = sorted(times.values())
    wide = [later for earlier, later in itertools.pairwise(ordered) if later - earlier > LOADS_APART]
    if not wide:
        return None
    ambiguous = tuple(part for part in parts if part.offset in times and times[part.offset] >= wide[-1])
    return Ambiguity(
        ambiguous,
        f"{ambiguous[0].key} was transferred more than {LOADS_APART.seconds // 3600} hours after other parts of its "
        f"full load, so that they may belong to two loads ({_files(ambiguous)}).",
    )


def _transfer_times(parts: Sequence[LoggedFile], epoch: int) -> dict[int, datetime]:
    """By offset, when parts were transferred: by their own stamps. For a reload in which no part has a stamp, by the
    objects' dates; never by both, because a bucket that was copied has new dates and former stamps."""
    times = {part.offset: part.first_commit_ts for part in parts if part.first_commit_ts is not None}
    if not times and epoch > 1:
        return {part.offset: part.last_modified for part in parts}
    return times


def _late(
    new: Sequence[LoggedFile],
    parts: Sequence[LoggedFile],
    records: Sequence[LoggedFile],
    files: Sequence[LoggedFile],
    epoch: int,
    position: Position,
) -> Ambiguity | None:
    """Parts under new keys, of the load that the table has applied."""
    applied = [part for part in parts if part.offset <= position.log_offset]
    if epoch != position.epoch or not applied:
        return None
    changes = list({f.file: f for f in files if f.kind is FileKind.CDC and not f.retry}.values())
    end = load_end(applied, changes, [f for f in records if f.epoch < epoch])
    known = {f.file for f in records if f.offset <= position.log_offset}
    ambiguous = [p for p in new if p.file not in known and not is_of_same_load(p, applied, end)]
    if not ambiguous:
        return None
    return Ambiguity(
        tuple(ambiguous),
        f"{ambiguous[0].key} arrived after its full load of {many(len(applied), 'file')} had been applied, and nothing "
        f"shows whether it is a late part of it or of a reload ({_files(ambiguous)}).",
        came_late=True,
    )


def _files(parts: Sequence[LoggedFile]) -> str:
    return many(len(parts), "such file")
