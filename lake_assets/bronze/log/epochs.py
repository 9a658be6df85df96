"""When a full load began, which file shows its end, and whether a part belongs to it.

Here: pure decisions from the parts and the CDC files of one table. Not here: assigning epochs to records
(`admission.py`), or when a full load is applied (`silver/plan/planner.py`).

Two clocks are DMS's own: the transfer time of a part's first row, and the flush time in a CDC file's name. Commit times
are the source's. DMS holds back the changes of a table while its full load runs (DMS guide: "cached changes"): so a CDC
file with changes committed after a load's start was written after its end, and a part that was transferred after such a
file belongs to another load.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from lake_assets.bronze.log.log_record import LoggedFile, NewFile

File = NewFile | LoggedFile

CLOCKS_APART = timedelta(minutes=1)
"""The largest assumed difference between the source's clock and DMS's."""


def transfers(parts: Iterable[File], earlier: Iterable[File] = ()) -> list[datetime]:
    """When DMS transferred the first row of each part; empty where the parts do not show it.

    They do not show it without a timestamp column, nor if an earlier load has an equal or later stamp: then the stamp
    is the task's start (UseTaskStartTimeForFullLoadTimestamp), or old content was restored.
    """
    own = {(part.key, part.version) for part in parts}
    stamps = [part.first_commit_ts for part in parts if part.first_commit_ts is not None]
    # A part of this load may first have been logged with the previous load.
    before = [
        part.first_commit_ts
        for part in earlier
        if part.first_commit_ts is not None and (part.key, part.version) not in own
    ]
    return [] if stamps and before and max(before) >= min(stamps) else stamps


def epoch_start(
    parts: Sequence[File], earlier: Sequence[File] = (), *, reload: bool | None = None
) -> datetime | None:
    """When the full load began, UTC, on DMS's clock; None when the load supersedes nothing or its start is unknown.

    The transfer times in the files decide. Without them, a first load supersedes nothing: the objects' dates are those
    of the latest copy of the bucket, and by them every change made before that copy would be dropped. A reload without
    transfer times is dated by its objects, because nothing else dates it. `earlier` are the parts of the previous
    loads; `reload` states whether there were any, where their files are not known.
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
    """The flush time of the first CDC file that shows the end of the load; None if none does.

    If the table had changes before the load began, DMS flushes their files for a while after the start, up to
    CdcMaxBatchInterval. So the first commit in the CDC file must be later than the load's start by more than
    CLOCKS_APART. A file that was flushed before a known part's transfer never shows the end.
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


def may_be_reloaded(former: LoggedFile, written: datetime, epoch: int, *, stamped: bool) -> bool:
    """Whether an object with the bytes of a part of a previous load, written again later, may be a part of the load
    `epoch`. `stamped`: its rows have timestamps; then they are those of the former transfer, and it was copied."""
    return not stamped and former.epoch < epoch and written > former.last_modified


def is_of_same_load(part: File, others: Sequence[File], end: datetime | None) -> bool | None:
    """Whether a part with a new key belongs to the load of the `others`, whose `load_end` is `end`; None if that is
    unknown.

    A part that was transferred before another part of the load, or before the load's end, arrived late. A part that was
    transferred after the end is the first of a reload, for example with another number of parallel threads.
    """
    at = part.first_commit_ts
    stamps = [other.first_commit_ts for other in others if other.first_commit_ts is not None]
    if at is None or not stamps or at in stamps:
        return None  # equal stamps are the task's start
    if end is not None:
        return at <= end
    return True if at < max(stamps) else None


def is_of_earlier_load(
    file: File, others: Sequence[File], before: Sequence[File], cdc: Sequence[File], *, reload: bool
) -> bool:
    """Whether a late part belongs to the previous load (the parts `before`): it was transferred before the `others` and
    before that load ended. Where nothing shows the end, the part belongs to the load with the nearer transfer."""
    begun, at = epoch_start(others, before), file.first_commit_ts
    if not transfers(others, before) or begun is None or at is None or at >= begun:
        return False
    between = [change for change in cdc if change.flush_time is not None and change.flush_time < begun]
    same = is_of_same_load(file, before, load_end(before, between, reload=reload))
    stamps = [part.first_commit_ts for part in before if part.first_commit_ts is not None]
    if same is None and stamps:
        return at - max(stamps) < begun - at
    return same is True


def is_of_reload(part: File, former: Sequence[File], begun: datetime, end: datetime | None) -> bool:
    """Whether a part belongs to the load that began at `begun`, rather than to the load of the `former` parts."""
    at = part.first_commit_ts
    if at is None or at >= begun:
        return at is not None
    before = [f.first_commit_ts for f in former if f.first_commit_ts is not None and f.first_commit_ts < at]
    if not before or len(before) < len(former):
        return False
    return at > end if end is not None else begun - at < at - max(before)
