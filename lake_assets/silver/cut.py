"""The consistent cut: up to which commit all tables of a source show the same transactions, and which rows wait for it.

DMS writes the rows of one transaction to a file per table, each up to CdcMaxBatchInterval after the commit. So the
newest flush, less that interval and a margin, is a time up to which every transaction is in the bucket whole: an
assumption about DMS, about its lag behind the source and about two clocks, which nothing in the files can prove. Rows
of later commits are read, counted and left for the next batch. Here: finding the cut, and the side of it that a row is
on. Not here: its place in a batch's plan (`plan.py`), tags (`cut_tags.py`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.keys import FileKind
from lake_assets.bronze.log_record import LoggedFile
from lake_assets.config import ConsistentCut
from lake_assets.silver.collapse import ChangeFigures
from lake_assets.silver.position import Position
from lake_assets.spark.checkpoint import Observed
from lake_assets.words import many

BEHIND, IN, APPLIED, WAITS = range(4)
"""Sides of a cut: two kinds of rows of the batch, the first of which an earlier cut should have had; rows of an earlier
batch, rows of a later batch."""
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


@dataclass(frozen=True, slots=True)
class RowCut:
    """Which rows of some files a reading is about, by the commits of their transactions."""

    upto: datetime | None = None
    reopened: frozenset[int] = frozenset()
    """Offsets of records of which the rows up to `applied` were applied by an earlier batch."""
    applied: datetime | None = None

    def side(self, *, reopened: bool) -> Column:
        """The side of a row. Rows of a full load are always in, and so is what has no commit time, once."""
        commit = F.col("_commit_ts")
        timed = F.coalesce((F.col("_sequence") != "") & commit.isNotNull(), F.lit(False))
        waits = timed & (commit > F.lit(self.upto)) if self.upto is not None else F.lit(False)
        side = F.when(waits, WAITS)
        if self.applied is not None:
            before = timed & (commit <= F.lit(self.applied))
            side = side.when(~timed | before, APPLIED) if reopened else side.when(before, BEHIND)
        return side.otherwise(IN)


NO_CUT = Cut(None)
ALL_ROWS = RowCut()


def observe_sides(rows: DataFrame) -> tuple[DataFrame, Observed]:
    """The rows within the cut, and the observation that counts all of them by their `_side`."""
    sides = Observed()
    counted = sides.on(
        rows,
        F.count(F.lit(1)).alias("rows"),
        F.count_if(F.col("_side") > IN).alias("passed_over"),
        F.count_if(F.col("_side") == BEHIND).alias("behind"),
        F.count_if(F.col("_side") == WAITS).alias("waiting"),
    )
    return in_cut(counted), sides


def in_cut(rows: DataFrame) -> DataFrame:
    """The rows within the cut; all, where none was made."""
    return rows.filter(F.col("_side") <= IN).drop("_side") if "_side" in rows.columns else rows


def add_sides(seen: ChangeFigures, sides: Observed) -> None:
    """Adds to the figures of the rows within the cut those of the others. Blocks until they are known."""
    found = sides.get
    seen.rows, seen.passed_over, seen.waiting = found["rows"], found["passed_over"], found["waiting"]
    seen.behind_cut = found["behind"]


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
