"""When a full load began, what shows that it is over, and whether a part is one of it.

Here: pure decisions over the parts and the CDC files of one table. Not here: giving records their epochs
(`admission.py`), or when a full load is applied (`silver/plan/planner.py`).

Two clocks are DMS's own: the transfer time of a part's first row, and the flush time in a CDC file's name. Commit times
are the source's. DMS holds back the changes of a table while its full load runs (DMS guide: "cached
changes"): so a CDC file that holds changes from after a load's begin was written after its end, and a part
that was transferred after such a file belongs to another load.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from lake_assets.bronze.log.log_record import LoggedFile, NewFile

File = NewFile | LoggedFile

CLOCKS_APART = timedelta(minutes=1)
"""As far as the source's clock is taken to be from DMS's at most."""


def transfers(parts: Iterable[File], earlier: Iterable[File] = ()) -> list[datetime]:
    """When DMS transferred the first row of each part; nothing where the parts do not tell.

    They do not without a timestamp column, nor if a load before this one has as late a stamp: then it is the task's
    start (UseTaskStartTimeForFullLoadTimestamp), or old content that was put back.
    """
    own = {(part.key, part.version) for part in parts}
    stamps = [part.first_commit_ts for part in parts if part.first_commit_ts is not None]
    # A part of this load may have been taken for one of the load before, at first.
    before = [
        part.first_commit_ts
        for part in earlier
        if part.first_commit_ts is not None and (part.key, part.version) not in own
    ]
    return [] if stamps and before and max(before) >= min(stamps) else stamps


def epoch_start(
    parts: Sequence[File], earlier: Sequence[File] = (), *, reload: bool | None = None
) -> datetime | None:
    """When the full load began, UTC, on DMS's clock; None when nothing can have been superseded or nobody can tell.

    The transfer times in the files themselves decide. Without them a first load supersedes nothing: the objects' own
    dates are those of the latest copy of the bucket, and trusting them would drop every change made before it. A
    reload without them is dated by its objects, because nothing else can. `earlier` are the parts of the loads before,
    `reload` whether there were any, where their files are not known.
    """
    if not parts:
        return None
    if stamps := [part.first_commit_ts for part in parts if part.first_commit_ts is not None]:
        return min(stamps)
    return min(part.last_modified for part in parts) if _reloads(parts, earlier, reload) else None


def load_end(
    parts: Sequence[File],
    changes: Iterable[File],
    earlier: Sequence[File] = (),
    *,
    reload: bool | None = None,
) -> datetime | None:
    """The flush time of the first CDC file that shows that the load was over; None if none does.

    Of a table that had changes before the load began, files of theirs are flushed for a while after it, up to
    CdcMaxBatchInterval. So its CDC file must begin with a commit from after the load's begin, by more than the source's
    clock may be fast. A file from before a known part's transfer shows nothing, whatever it says.
    """
    flushed = [(change.flush_time, change) for change in changes if change.flush_time is not None]
    if not parts or not flushed:
        return None
    begun = epoch_start(parts, earlier, reload=reload)
    reloaded = _reloads(parts, earlier, reload)
    stamps = transfers(parts, earlier) or ([part.last_modified for part in parts] if reloaded else [])
    newest = max(stamps, default=None)
    had_changes = reloaded or any(begun is not None and at < begun for at, _ in flushed)
    ends = [
        at
        for at, change in flushed
        if (newest is None or at > newest) and (not had_changes or _committed_since(change, begun))
    ]
    return min(ends, default=None)


def _committed_since(change: File, begun: datetime | None) -> bool:
    first = change.first_commit_ts
    return first is not None and begun is not None and first >= begun + CLOCKS_APART


def _reloads(parts: Sequence[File], earlier: Sequence[File], reload: bool | None) -> bool:
    if reload is not None:
        return reload
    return bool(earlier) or any(isinstance(part, LoggedFile) and part.epoch > 1 for part in parts)


def is_of_same_load(part: File, others: Sequence[File], end: datetime | None) -> bool | None:
    """Whether a part under a key never seen is of the load of the `others`, of which `end` is `load_end`; None if
    nothing tells.

    A part that was transferred before the load's other parts were, or before anything showed that it is over, came
    late. One that was transferred after that is the first of a reload, say by another number of parallel threads.
    """
    at = part.first_commit_ts
    stamps = [other.first_commit_ts for other in others if other.first_commit_ts is not None]
    if at is None or not stamps or at in stamps:
        return None  # equal stamps are the task's start
    if end is not None:
        return at <= end
    return True if at < max(stamps) else None
