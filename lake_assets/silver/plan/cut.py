"""The consistent cut: the commit time up to which all tables of a source show the same transactions.

DMS writes the rows of one transaction to a file per table, each up to CdcMaxBatchInterval after the commit. So the
newest flush, less that interval and a margin, is a time up to which every transaction is in the bucket whole. The files
cannot prove that: it is an assumption about DMS, about its lag behind the source and about two clocks. Rows of later
commits are read, counted and left for the next batch. The changes of a stream name each other, which shows what is
whole (`bronze/log/streams/transaction_chain.py`). Here: finding the cut, the files with waiting rows, and why a table
waits for the cut. Not here: the side of a row (`silver/changes/row_cut.py`), planning a batch (`planner.py`), tags
(`silver/apply/cut_tags.py`). Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.log.streams.stream_positions import parse_transactions
from lake_assets.config import ConsistentCut
from lake_assets.silver.table.position import Position
from lake_assets.words import does, many, them

_EPOCH, _SECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1)
ALL_FILES = timedelta(days=365_000)
"""The margin for a source without a cut: all files that may have waiting rows are read again, and the rows applied."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The cut of a source in one round."""

    upto: datetime | None
    """UTC. None: every row is applied, because no file has a flush time yet or the source has no cut."""
    margin: timedelta = ALL_FILES
    quiet: bool = False
    """Whether no file has arrived for so long that all transactions are in the bucket."""

    def of(self, position: Position) -> datetime | None:
        """The cut up to which a table's next batch applies: never earlier than what the table already shows."""
        if self.upto is None:
            return None
        shown = position.cut or position.max_commit_ts
        return self.upto if shown is None else max(self.upto, shown)


NO_CUT = Cut(None)


def source_cut(settings: ConsistentCut | None, files: Iterable[LoggedFile], now: datetime) -> Cut:
    """The cut by all the files of a source in the log; `now` is UTC.

    While files arrive, the newest flush time shows how far DMS is; of a stream, the chain of its transactions. When
    none has arrived for twice the time that a change may take, all transactions up to the newest file are there.
    """
    if settings is None:
        return NO_CUT
    flushed = logged = None
    notes: list[LoggedFile] = []
    written = datetime.min.replace(tzinfo=UTC)
    for file in files:
        if file.kind is FileKind.VANISHED:
            continue
        if file.ranges is not None:
            notes.append(file)
        if file.flush_time is not None:
            # A flush time in the future must not move the cut there: the file was flushed before it was logged.
            at = min(file.flush_time, file.logged_at)
            flushed = max(flushed or at, at)
        written = max(written, min(file.written_at, file.logged_at))
        logged = max(logged or file.logged_at, file.logged_at)
    delay = settings.margin if notes else settings.delay  # a stream has no interval
    if logged is not None and now - logged >= 2 * delay:
        # One second is added, because a file's name may have whole seconds.
        return Cut(_floor(written + settings.margin + _SECOND, _SECOND), settings.margin, quiet=True)
    if notes:
        whole = _newest_whole(notes)
        return Cut(None if whole is None else _floor(whole, settings.every), settings.margin)
    if flushed is None:
        return Cut(None, settings.margin)
    return Cut(_floor(flushed - delay, settings.every), settings.margin)


def _newest_whole(notes: Iterable[LoggedFile]) -> datetime | None:
    for file in sorted(notes, key=lambda file: file.offset, reverse=True):
        if (found := parse_transactions(file.ranges or "")) is not None:
            return found.whole
    return None


def may_wait(file: LoggedFile, position: Position, margin: timedelta) -> bool:
    """Whether the table has read the file and rows of it may wait, because it was flushed after the table's cut. The
    row-count check compares the number of rows that wait, and so detects a file that is left out."""
    if file.kind is not FileKind.CDC or file.offset > position.log_offset or position.cut is None:
        return False
    if file.flush_time is None or margin >= ALL_FILES:
        return True
    return file.flush_time > position.cut - margin


def why_nothing(position: Position, pending: Sequence[LoggedFile], upto: datetime | None) -> str | None:
    """Why a table with pending files or rows has no batch before the cut moves; None when it may have one."""
    if upto is None or position.cut is None or upto > position.cut or not (pending or position.waiting):
        return None
    # Not by the flush time: a file that was flushed after the cut may have earlier commits.
    later = (f.kind is FileKind.CDC and not f.retry and (f.first_commit_ts or upto) > upto for f in pending)
    if not all(later):
        return None
    rows = [many(position.waiting, "row")] if position.waiting else []
    files = [f"the rows of {many(len(pending), 'file')}"] if pending else []
    number = position.waiting + 2 * len(pending)  # a file counts as several rows
    return (
        f"{' and '.join(rows + files)} {does(number, 'were')} committed after the consistent cut at "
        f"{upto:%Y-%m-%d %H:%M:%S} UTC; a later cut applies {them(number)}"
    )


def _floor(moment: datetime, step: timedelta) -> datetime:
    return moment - (moment - _EPOCH) % step
