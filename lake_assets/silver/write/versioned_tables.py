"""A batch of a table that keeps what was before: its history, or its deleted rows.

In order, what the table holds of the batch's keys goes on with the batch's events. Late, it is computed again from all
files of the epoch, and from what the table holds of the time before the epoch: the full loads of earlier epochs are
gone, so that what they have led to cannot be computed again. That is also how a full load is applied: what was before
ends where the epoch begins, unless the load has it.

Here: which events make the rows, which rows they replace, and their way onto the branch. Not here: what the events
amount to (`silver/changes/scd2.py`, `silver/changes/soft_delete.py`), the order of the steps
(`silver/apply/apply_batch.py`).
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.config import Mode
from lake_assets.errors import TableStopped
from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.changes import scd2 as history
from lake_assets.silver.changes import soft_delete
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.changes.row_cut import ALL_ROWS
from lake_assets.silver.changes.timeline import (
    BEFORE_ALL,
    EARLIER,
    OWN,
    change_timeline,
    departures_first,
    vanishing,
)
from lake_assets.silver.plan.cut import ALL_FILES, may_wait
from lake_assets.silver.plan.planner import epoch_members, epoch_start, newest_versions
from lake_assets.silver.plan.rewritten import rewritten
from lake_assets.silver.table.change_events import ChangeFigures, commit_of, key_columns
from lake_assets.silver.write.batch import Written, nothing_readable
from lake_assets.silver.write.batch_work import Work
from lake_assets.silver.write.commit import in_table_columns, write_all
from lake_assets.silver.write.late_batch import refuse_missing
from lake_assets.spark.checkpoint import Observed, checkpointed, shallow
from lake_assets.spark.sql import Sql, quoted, sql

KEYS_VIEW = "versioned_keys"
MOST_BROADCAST_KEYS = 1_000_000


def replace_versions(work: Work, current: Attempt) -> Written:
    """Deletes on the branch what of the batch's keys may be another now; the rows that are to be there instead are left
    to the commit that bears the position."""
    reading = work.read_batch()
    if reading is None:
        return nothing_readable()
    work.stage("read")
    begun = epoch_beginning(work, work.batch.epoch, work.batch.upto)
    with work.watch.stage("read"):
        told = _own(work, reading, begun)
        first = Observed()
        told = first.on(told, F.min(F.unix_micros("_at")).alias("first"))
        told = reading.checkpointed(told, first)
    seen = work.seen(reading)
    distinct = Observed()
    affected = told.select(*key_columns(work.target.key)).distinct()
    affected = distinct.on(affected, F.count(F.lit(1)).alias("keys"))
    affected = checkpointed(affected, (distinct,))
    if not (keys := distinct.get["keys"]):
        return Written("delete_and_append", seen, reading.rows_counted, keys=0, rows=0)
    few = F.broadcast(affected) if keys <= MOST_BROADCAST_KEYS else affected
    counted = _Counted()
    # A part of a transaction of which another was applied before does not tell which row leaves a key.
    begun_before = "" < commit_of(seen.min_sequence) <= commit_of(work.position.max_sequence)
    if begun_before or seen.is_late(work.position.max_sequence) or work.retries or work.again:
        work.stage("replay")
        with work.watch.stage("replay"):
            since = begun.at
            members = epoch_members(work.logged, work.batch.epoch, work.batch.upto)
            refuse_missing(work, reading, members)
            again = work.read_again(members)
            assert again is not None, "the batch's own files are among them"
            own = _of_keys(shallow(_own(work, again, begun), "changes_read_again"), few)
            before = _table(work, current, since, counted, before=True, only=few)
            rows = again.checkpointed(_rows(work, own, _ended(before, begun), counted), *counted.all)
            again.figures()
    else:
        since = _instant(first.get["first"])
        with work.watch.stage("versions"):
            before = _table(work, current, since, counted, before=False, only=few)
            rows = checkpointed(_rows(work, told, before, counted), counted.all)
    work.stage("write")
    with work.watch.stage("delete"):
        _delete(work, current, since, affected)
    return _written("delete_and_append", reading, seen, counted, keys=keys, images=rows)


def load_versions(work: Work, current: Attempt) -> Written:
    """A full load and the CDC that belongs to it, after what the table holds of the time before it."""
    reading = work.read_batch()
    if reading is None:
        raise TableStopped(
            work.target.table,
            f"none of the files that {work.target.identifier} is recomputed from can be read.",
            "Have DMS reload the table.",
        )
    begun = epoch_beginning(work, work.batch.epoch, work.batch.upto)
    counted = _Counted()
    own = _own(work, reading, begun)
    table = _table(work, current, begun.at, counted, before=True, withdrawn=_withdrawn(work))
    earlier = _earlier(work, begun)
    before = [part for part in (table, earlier and earlier[1]) if part is not None]
    ended = _ended(reduce(DataFrame.unionByName, before) if before else None, begun)
    rows = in_table_columns(_rows(work, own, ended, counted), work.target)
    work.stage("write")
    with work.watch.stage("write"):
        if work.fresh:
            write_all(rows, current, work.target)
        else:
            _delete(work, current, begun.at, None)
            rows.writeTo(current.address).option("check-nullability", False).append()
    if earlier is not None:
        earlier[0].figures()
    seen = work.seen(reading)
    # What the position needs is known only now, so that the commit that bears it comes second, without rows.
    strategy = "overwrite" if work.fresh else "delete_and_append"
    return _written(strategy, reading, seen, counted, keys=seen.used, images=None)


@dataclass(frozen=True, slots=True)
class _Begun:
    """When an epoch began."""

    at: datetime
    loaded: datetime
    """From when on the rows of its full load hold: the same, if it is known."""


def epoch_beginning(work: Work, epoch: int, upto: int) -> _Begun:
    """When the epoch began, by its parts up to the offset."""
    files = [f for f in work.logged if f.kind is FileKind.LOAD and f.epoch == epoch and f.offset <= upto]
    parts = newest_versions(files)
    earlier = [f for f in work.logged if f.kind is FileKind.LOAD and f.epoch < epoch]
    start = epoch_start(parts, earlier)
    loaded = start or min((part.last_modified for part in parts), default=BEFORE_ALL)
    return _Begun(start or BEFORE_ALL, loaded)


class _Counted:
    """What is counted while the rows are computed."""

    def __init__(self) -> None:
        self.known = Observed()
        self.told = Observed()
        self.rows = Observed()
        self.has_table = False

    @property
    def all(self) -> tuple[Observed, ...]:
        return (*([self.known] if self.has_table else []), self.told, self.rows)


def _own(work: Work, reading: Reading, begun: _Begun) -> DataFrame:
    return change_timeline(reading.good, work.target, OWN, begun.at, begun.loaded)


def _ended(before: DataFrame | None, begun: _Begun) -> DataFrame | None:
    return None if before is None else vanishing(before, begun.at)


def _of_keys(timeline: DataFrame, keys: DataFrame) -> DataFrame:
    return timeline.join(keys, on=keys.columns, how="left_semi")


def _rows(work: Work, own: DataFrame, before: DataFrame | None, counted: _Counted) -> DataFrame:
    """The rows that the events amount to."""
    timeline = departures_first(own if before is None else before.unionByName(own), work.target)
    images = F.count_if(~F.col("_tombstone")).alias("images")
    timeline = counted.told.on(timeline, images)
    shape = history.versions if work.target.mode is Mode.HISTORY else soft_delete.rows
    return counted.rows.on(shape(timeline, work.target), F.count(F.lit(1)).alias("rows"))


def _table(
    work: Work,
    current: Attempt,
    since: datetime,
    counted: _Counted,
    *,
    before: bool,
    only: DataFrame | None = None,
    withdrawn: bool = False,
) -> DataFrame | None:
    """The rows that may be others by what happens from `since` on, as a timeline: all that they say, or only what was
    `before` that."""
    target = work.target
    if work.position.snapshot_id is None or work.fresh:
        return None
    # main, not the planned snapshot, which may lack a column: had main moved, nothing of this could be published.
    rows = work.spark.table(current.table)
    if target.mode is Mode.HISTORY:
        rows = rows.filter(history.concerned(since))
    if only is not None:
        same = [rows[quoted(name)] == only[held] for held, name in zip(only.columns, target.key, strict=True)]
        rows = rows.join(only, on=same, how="left_semi")
    rows = counted.known.on(rows, F.count(F.lit(1)).alias("rows"))
    counted.has_table = True
    until = since if before else None
    if target.mode is Mode.HISTORY:
        return history.known(rows, target, until)
    return soft_delete.known(rows, target, until, withdrawn=withdrawn)


def _delete(work: Work, current: Attempt, since: datetime, affected: DataFrame | None) -> None:
    """What `_table` has read, of the affected keys or of all."""
    if work.position.snapshot_id is None:
        return
    concerned = history.concerned(since) if work.target.mode is Mode.HISTORY else Sql("true")
    if affected is None:
        work.spark.sql(
            sql("DELETE FROM {branch} AS t WHERE {concerned}", branch=current.address, concerned=concerned)
        )
        return
    affected.createOrReplaceTempView(KEYS_VIEW)
    matches = work.target.key_matches("k", "t")
    work.spark.sql(
        sql(
            "DELETE FROM {branch} AS t WHERE {concerned} AND EXISTS (SELECT 1 FROM {keys} AS k WHERE {matches})",
            branch=current.address,
            concerned=concerned,
            keys=KEYS_VIEW,
            matches=matches,
        )
    )
    work.spark.catalog.dropTempView(KEYS_VIEW)


def _earlier(work: Work, begun: _Begun) -> tuple[Reading, DataFrame] | None:
    """What happened before the epoch and was not applied when its full load came: the changes that are newer than the
    table. Older ones are left out, because what came between cannot be read again."""
    position, batch = work.position, work.batch
    if batch.epoch == position.epoch or begun.at == BEFORE_ALL:
        return None
    former = epoch_beginning(work, position.epoch, position.log_offset)
    # Whether or not it is up to the cut: the full load shows a later time.
    pending = [
        f
        for f in newest_versions(work.logged)
        if f.offset > position.log_offset or may_wait(f, position, ALL_FILES)
    ]
    files = [f for f in pending if _reaches_before(f, begun.at) and not _was_before(f, former.at)]
    reading = work.read_again(files, ALL_ROWS) if files else None
    if reading is None:
        return None
    changes = reading.good.filter(F.col("_sequence") > position.max_sequence)
    found = change_timeline(changes, work.target, EARLIER, former.at)
    return reading, found.filter(F.col("_at") < F.lit(begun.at))


def _reaches_before(file: LoggedFile, begins: datetime) -> bool:
    first = file.first_commit_ts
    return file.kind is FileKind.CDC and (_was_before(file, begins) or (first is not None and first < begins))


def _was_before(file: LoggedFile, begins: datetime) -> bool:
    return file.flush_time is not None and file.flush_time < begins


def _withdrawn(work: Work) -> bool:
    """Whether the first epoch is made anew because a CDC file that was applied has another content now: what its rows
    said cannot be distinguished from the others."""
    position = work.position
    if work.target.mode is not Mode.SOFT_DELETE or work.batch.epoch != position.epoch:
        return False
    return bool(rewritten(work.batch.files, work.logged, position.log_offset, work.damaged))


def _instant(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def _written(
    strategy: str,
    reading: Reading,
    seen: ChangeFigures,
    counted: _Counted,
    *,
    keys: int,
    images: DataFrame | None,
) -> Written:
    replaced = counted.known.get["rows"] if counted.has_table else 0
    return Written(
        strategy=strategy,
        changes=seen,
        rows_counted=reading.rows_counted,
        keys=keys,
        rows=counted.rows.get["rows"],
        images=images,
        replaced=replaced,
        versions=counted.told.get["images"],
    )
