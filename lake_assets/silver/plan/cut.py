"""The consistent cut: up to which commit all tables of a source show the same transactions, and which rows wait for it.

DMS writes the rows of one transaction to a file per table, each up to CdcMaxBatchInterval after the commit. So the
newest flush, less that interval and a margin, is a time up to which every transaction is in the bucket whole: an
assumption about DMS, about its lag behind the source and about two clocks, which nothing in the files can prove. Rows
of later commits are read, counted and left for the next batch. Here: finding the cut. Not here: the side of it that a
row is on (`silver/changes/row_cut.py`), its place in a batch's plan (`planner.py`), tags (`silver/apply/cut_tags.py`).
Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import ConsistentCut
from lake_assets.silver.table.position import Position
from lake_assets.words import many

_EPOCH, _SECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1)
ALL_FILES = timedelta(days=365_000)
"""The margin by which files are read again for a source that has no cut any more: whatever waits is applied then."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The cut of a source as one turn sees it."""

    upto: datetime | None
    """UTC. None: every row is applied, because no file tells of a flush yet or the source has no cut any more."""
    margin: timedelta = ALL_FILES
    quiet: bool = False
    """Whether no file has come for so long that everything is there."""

    def of(self, position: Position) -> datetime | None:
        """The cut that a table's next batch brings it to: never behind what the table shows."""
        if self.upto is None:
            return None
        shown = position.cut or position.max_commit_ts
        return self.upto if shown is None else max(self.upto, shown)


NO_CUT = Cut(None)


def source_cut(settings: ConsistentCut | None, files: Iterable[LoggedFile], now: datetime) -> Cut:
    """The cut by all the files of a source in the log; `now` is UTC.

    While files come, the newest flush tells how far DMS is. Once none has come for twice the time that a change may
    take, everything up to the newest file is there.
    """
    if settings is None:
        return NO_CUT
    flushed = logged = None
    written = datetime.min.replace(tzinfo=UTC)
    for file in files:
        if file.kind is FileKind.VANISHED:
            continue
        if file.flush_time is not None:
            # A file from the future must not take the cut there: it was written before it was seen.
            at = min(file.flush_time, file.logged_at)
            flushed = max(flushed or at, at)
        written = max(written, min(file.written_at, file.logged_at))
        logged = max(logged or file.logged_at, file.logged_at)
    if logged is not None and now - logged >= 2 * settings.delay:
        # A second more at most, for a name in whole seconds.
        return Cut(_floor(written + settings.margin + _SECOND, _SECOND), settings.margin, quiet=True)
    if flushed is None:
        return Cut(None, settings.margin)
    return Cut(_floor(flushed - settings.delay, settings.every), settings.margin)


def may_wait(file: LoggedFile, position: Position, margin: timedelta) -> bool:
    """Whether the table has read the file and rows of it may wait: it was flushed after the table's cut. That all of
    these are read again is proven by the number of rows that wait."""
    if file.kind is not FileKind.CDC or file.offset > position.log_offset or position.cut is None:
        return False
    if file.flush_time is None or margin >= ALL_FILES:
        return True
    return file.flush_time > position.cut - margin


def why_nothing(position: Position, pending: Sequence[LoggedFile], upto: datetime | None) -> str | None:
    """Why a table with pending files or rows has no batch before the cut moves on; None when it may have one."""
    if upto is None or position.cut is None or upto > position.cut or not (pending or position.waiting):
        return None
    # Not by its flush: a file that was flushed after the cut may have commits from before it.
    later = (f.kind is FileKind.CDC and not f.retry and (f.first_commit_ts or upto) > upto for f in pending)
    if not all(later):
        return None
    files = f" and {many(len(pending), 'file')}" if pending else ""
    return f"{many(position.waiting, 'row')}{files} from after the consistent cut at {upto:%Y-%m-%d %H:%M:%S} UTC"


def _floor(moment: datetime, step: timedelta) -> datetime:
    return moment - (moment - _EPOCH) % step
