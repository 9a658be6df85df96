"""A batch of a table that keeps former rows: its history (SCD2), or its deleted rows.

A batch in order continues the table's rows of its keys with its events. A late batch recomputes these rows from all
files of the epoch, and from the table's rows of the time before the epoch: the full loads of earlier epochs are gone,
so that their rows cannot be recomputed. A full load is applied in the same way: rows from before the epoch end at its
beginning, unless the load has them.

Here: which events make the rows, and which rows they replace. Not here: the rows of the events (`scd2_versions.py`,
`soft_delete.py`), writing them (`silver/write/`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.epochs import epoch_start
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.scan.vanished import missing_files
from lake_assets.config import Mode
from lake_assets.iceberg.publish import EVERY_ROW
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.reader import BatchReader
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.changes.row_cut import ALL_ROWS
from lake_assets.silver.plan.cut import ALL_FILES, may_wait
from lake_assets.silver.plan.lateness import may_share_transaction, overlap_end
from lake_assets.silver.plan.members import newest_versions
from lake_assets.silver.plan.rewritten import rewritten
from lake_assets.silver.reduce.current.key_moves import followed_keys, with_destinations
from lake_assets.silver.reduce.current.late_batch import may_be_in_load, members_again
from lake_assets.silver.reduce.edit import Edit, EveryRow, Matching, Recounted, Rows
from lake_assets.silver.reduce.events import instant
from lake_assets.silver.reduce.key_states import broadcast_if_few
from lake_assets.silver.reduce.past import scd2_versions as history
from lake_assets.silver.reduce.past import soft_delete
from lake_assets.silver.reduce.past.partial_images import lacks_columns, with_whole_images
from lake_assets.silver.reduce.past.timeline import (
    BEFORE_ALL,
    change_timeline,
    departures_first,
    vanishing,
)
from lake_assets.silver.table.change_events import EARLIER, OWN, key_columns
from lake_assets.spark.checkpoint import Observed, checkpointed, shallow
from lake_assets.spark.sql import Sql, quoted, sql


def changed_versions(reader: BatchReader, reading: Reading) -> Edit:
    """Replaces the rows of the batch's keys that its events may change."""
    context = reader.context
    begun = epoch_beginning(context, context.batch.epoch, context.batch.upto)
    seen = reader.check(reading)
    with context.watch.stage("read"):
        own = _own_timeline(context, reading, begun)
        first = Observed()
        own = first.on(own, F.min(F.unix_micros("_at")).alias("first"))
        own = reading.checkpointed(own, first)
    distinct = Observed()
    affected = own.select(*key_columns(context.target.key)).distinct()
    affected = distinct.on(affected, F.count(F.lit(1)).alias("keys"))
    affected = checkpointed(affected, (distinct,))
    if not (keys := distinct.get["keys"]):
        return Edit()
    few = broadcast_if_few(affected, keys)
    versions, followed = _Versions(context, begun), 0
    # If a part of a transaction was applied before, the rest does not determine which row leaves a key.
    begun_before = may_share_transaction(seen.min_sequence, context.position.max_sequence)
    # If the full load may have the values that updates lack, a batch before may have taken its row for another one.
    in_load = may_be_in_load(context, seen) and not own.filter(lacks_columns()).isEmpty()
    if begun_before or reader.recomputes_keys or in_load:
        since = begun.at
        context.stage("replay")
        with context.watch.stage("replay"):
            again = members_again(reader, reading)
            everything = _own_timeline(context, again, begun)
            if context.target.may_be_partial:
                everything = again.checkpointed(everything)
                few, recomputed = _with_keys_of_moved_values(context, everything, affected)
                keys, followed = recomputed, recomputed - keys
            else:
                everything = shallow(everything, "changes_read_again")
            affecting = everything.join(few, on=few.columns, how="left_semi")
            before = versions.held(since, until=since, only=few)
            rows = versions.after(before, affecting, again.observations, end=since)
            rows = again.checkpointed(rows, *versions.observed)
    else:
        since = instant(first.get["first"])
        with context.watch.stage("versions"):
            rows = versions.after(versions.held(since, only=few), own)
            rows = checkpointed(rows, versions.observed)
    matches, figures = context.target.key_matches("k", "t"), versions.counted()
    removed = Matching(few, matches, _concerned(context, since))
    return Edit(removed, Rows(rows), keys, followed, rows=figures.rows, counted=lambda: figures)


def loaded_versions(reader: BatchReader, reading: Reading) -> Edit:
    """A full load and the CDC that belongs to it, after the table's rows of the time before it."""
    context = reader.context
    seen = reader.check(reading)
    begun = epoch_beginning(context, context.batch.epoch, context.batch.upto)
    versions = _Versions(context, begun)
    before = versions.held(begun.at, until=begun.at, withdrawn=_withdrawn(context))
    earlier = _earlier(reader, begun)
    if earlier is not None:
        before = earlier[1] if before is None else before.unionByName(earlier[1])
    own, readings = (
        _own_timeline(context, reading, begun),
        [reading] if earlier is None else [reading, earlier[0]],
    )
    observed = [each for one in readings for each in one.observations]
    rows = versions.after(before, own, observed, end=begun.at)
    removed = EveryRow() if context.reshape else Matching(condition=_concerned(context, begun.at))
    return Edit(removed, Rows(rows), keys=seen.used, rows=None, counted=versions.counted)


@dataclass(frozen=True, slots=True)
class _Begun:
    """When an epoch began."""

    at: datetime
    loaded: datetime
    """When the rows of its full load begin to hold: at the epoch's beginning, if that is known."""


def epoch_beginning(context: BatchContext, epoch: int, upto: int) -> _Begun:
    """When the epoch began, by the parts of its full load up to the offset."""
    loads = [file for file in context.logged if file.kind is FileKind.LOAD]
    newest = newest_versions(file for file in loads if file.offset <= upto)
    parts = [part for part in newest if part.epoch == epoch]
    start = epoch_start(parts, [file for file in loads if file.epoch < epoch])
    loaded = start or min((part.last_modified for part in parts), default=BEFORE_ALL)
    return _Begun(start or BEFORE_ALL, loaded)


class _Versions:
    """The rows of a table that keeps former rows, and the figures observed while they are computed."""

    def __init__(self, context: BatchContext, begun: _Begun) -> None:
        self._context = context
        former = epoch_beginning(context, context.position.epoch, context.position.log_offset)
        self._begins = {begun.at, former.at}
        self._known: Observed | None = None
        self._images = Observed()
        self._rows = Observed()

    def held(
        self,
        since: datetime,
        until: datetime | None = None,
        only: DataFrame | None = None,
        *,
        withdrawn: bool = False,
    ) -> DataFrame | None:
        """The rows that the table has and that events from `since` on may change, as a timeline: all their events, or
        only those before `until`. None without a table."""
        context, target = self._context, self._context.target
        if context.position.snapshot_id is None or context.reshape:
            return None
        rows = context.main.filter(_concerned(context, since))
        if only is not None:
            pairs = zip(only.columns, target.key, strict=True)
            same = [rows[quoted(name)] == only[held] for held, name in pairs]
            rows = rows.join(only, on=same, how="left_semi")
        self._known = Observed()
        rows = self._known.on(rows, F.count(F.lit(1)).alias("rows"))
        if target.mode is Mode.HISTORY:
            return history.as_timeline(rows, target, until)
        return soft_delete.as_timeline(rows, target, until, withdrawn=withdrawn)

    def after(
        self,
        before: DataFrame | None,
        own: DataFrame,
        observed: Sequence[Observed] = (),
        end: datetime | None = None,
    ) -> DataFrame:
        """The rows of the events; `end`: when rows of `before` end, unless `own` has them. `observed`: the observations
        in the plans of both, besides those of this object: where updates may lack columns, the events are computed
        now."""
        target, timeline = self._context.target, own
        if before is not None:
            before = before if end is None else vanishing(before, end)
            timeline = before.unionByName(own)
        if target.may_be_partial:
            known = () if self._known is None else (self._known,)
            timeline = checkpointed(timeline, (*observed, *known))
            spark, overlap = self._context.spark, self.overlap_end
            timeline = with_whole_images(spark, target, timeline, self._begins, overlap_end=overlap)
        timeline = departures_first(timeline, target)
        timeline = self._images.on(timeline, F.count_if(~F.col("_tombstone")).alias("images"))
        if target.mode is Mode.HISTORY:
            rows = history.versions(timeline, target)
            if (ended := self._context.position.history_from) is not None:
                rows = rows.filter(sql("NOT {ended}", ended=history.ended_before(ended)))
        else:
            rows = soft_delete.rows(timeline, target)
        return self._rows.on(rows, F.count(F.lit(1)).alias("rows"))

    @property
    def overlap_end(self) -> datetime | None:
        """Changes up to this time may have been committed while the full load ran."""
        return overlap_end(self._context.members, self._context.position)

    @property
    def observed(self) -> list[Observed]:
        """The observations that are filled while the rows are computed."""
        return [each for each in (self._known, self._images, self._rows) if each is not None]

    def counted(self) -> Recounted:
        """The figures of the rows, once they have been computed."""
        replaced = self._known.get["rows"] if self._known is not None else 0
        return Recounted(self._rows.get["rows"], replaced, self._images.get["images"])


def _own_timeline(context: BatchContext, reading: Reading, begun: _Begun) -> DataFrame:
    return change_timeline(reading.good, context.target, OWN, begun.at, begun.loaded)


def _with_keys_of_moved_values(
    context: BatchContext, everything: DataFrame, affected: DataFrame
) -> tuple[DataFrame, int]:
    """The keys that are recomputed, and their number: also those to which values of the batch's rows moved with them,
    and those from which a row moved to one of all these."""
    found = with_destinations(context.target, everything, affected)
    found = followed_keys(context.target, everything, found).drop("_number")
    count = found.count()
    return broadcast_if_few(found, count), count


def _concerned(context: BatchContext, since: datetime) -> Sql:
    """The condition for rows of the table that events from `since` on may change."""
    return history.concerned(since) if context.target.mode is Mode.HISTORY else EVERY_ROW


def _earlier(reader: BatchReader, begun: _Begun) -> tuple[Reading, DataFrame] | None:
    """Changes from before the epoch that were not applied when its full load arrived: those newer than the table. Older
    ones are left out, because the changes after them cannot be read again."""
    context, position = reader.context, reader.context.position
    if context.batch.epoch == position.epoch or begun.at == BEFORE_ALL:
        return None
    former = epoch_beginning(context, position.epoch, position.log_offset)
    # Regardless of the cut, because the full load shows a later time.
    pending = [
        file
        for file in newest_versions(context.logged)
        if file.offset > position.log_offset or may_wait(file, position, ALL_FILES)
    ]
    files = [f for f in pending if _reaches_before(f, begun.at) and not _was_before(f, former.at)]
    if files and not position.epoch:
        # A new table begins after the files that are gone (`rounds/superseded_files.py`).
        gone = max((f.written_at for f in missing_files(context.store, files)), default=BEFORE_ALL)
        files = [f for f in files if f.written_at > gone]
    reading = reader.read_again(files, ALL_ROWS) if files else None
    if reading is None:
        return None
    changes = reading.good.filter(F.col("_sequence") > position.max_sequence)
    found = change_timeline(changes, context.target, EARLIER, former.at)
    return reading, found.filter(F.col("_at") < F.lit(begun.at))


def _reaches_before(file: LoggedFile, begins: datetime) -> bool:
    first = file.first_commit_ts
    return file.kind is FileKind.CDC and (_was_before(file, begins) or (first is not None and first < begins))


def _was_before(file: LoggedFile, begins: datetime) -> bool:
    return file.flush_time is not None and file.flush_time < begins


def _withdrawn(context: BatchContext) -> bool:
    """Whether the epoch is recomputed because an applied CDC file has other content now: its former rows cannot be
    distinguished from those of other files."""
    position = context.position
    if context.target.mode is not Mode.SOFT_DELETE or context.batch.epoch != position.epoch:
        return False
    return bool(rewritten(context.batch.files, context.logged, position.log_offset, context.damaged))
