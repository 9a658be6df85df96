"""A batch of a log: rows are only ever added, each change once.

A DMS task that resumes after a failure may write changes again, into another file. Among current rows the last event
of a key decides, and a repetition changes nothing; a log has to recognise it: by DMS's own sequence and the change's
whole content, so that no two different changes are ever taken for one.

Here: the rows of a log, and that recognition. Not here: the order of the steps (`silver/apply/apply_batch.py`).
"""

from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.reader.places import plain
from lake_assets.bronze.reader.typed_rows import has_own_sequence
from lake_assets.config import Mode
from lake_assets.errors import TableStopped
from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.changes.row_cut import RowCut
from lake_assets.silver.changes.touched_days import all_days
from lake_assets.silver.plan.planner import epoch_members
from lake_assets.silver.table.change_events import ChangeFigures
from lake_assets.silver.table.targets import Target
from lake_assets.silver.write.batch import Written, nothing_readable
from lake_assets.silver.write.batch_work import Work
from lake_assets.silver.write.commit import write_all, write_nothing
from lake_assets.silver.write.reapplied_log import not_in_log
from lake_assets.spark.checkpoint import Observed, checkpointed
from lake_assets.spark.sql import quoted
from lake_assets.words import does, many

IDENTITY = ("_sequence", "_op", "_commit_ts", "_image")


def replace_log(work: Work, current: Attempt) -> Written:
    """A full load and the CDC that belongs to it: the whole log anew, read and written in one pass."""
    target, reading = work.target, work.read_batch()
    if reading is None:  # a table without a full load, of whose changes none can be read any more
        return write_nothing(work.spark, current, target)
    rows = each_once(reading.good) if _may_repeat(work, late=False) else reading.good
    counted = Observed()
    rows = counted.on(_columns(target, rows), F.count(F.lit(1)).alias("rows"))
    work.stage("write")
    with work.watch.stage("write"):
        write_all(rows, current, target)
    seen = work.seen(reading)
    refuse_changes(target, seen)
    # What the position needs is known only now, so that the commit that bears it comes second, without rows.
    return Written(
        strategy="overwrite",
        changes=seen,
        rows_counted=reading.rows_counted,
        keys=seen.used,
        rows=int(counted.get["rows"]),
        touched=all_days(target),
    )


def append(work: Work, current: Attempt) -> Written:
    """Reads the batch; its rows are left to the commit that bears the position."""
    reading = work.read_batch()
    if reading is None:
        return nothing_readable()
    work.stage("read")
    with work.watch.stage("read"):
        delta = reading.checkpointed(reading.good)
    seen = work.seen(reading)
    refuse_changes(work.target, seen)
    rows, late = seen.used, seen.is_late(work.position.max_sequence)
    if work.grown or work.asked_anew:
        with work.watch.stage("repetitions"):
            delta = checkpointed(_without_known(work, current, delta))
            rows = delta.count()
    if _may_repeat(work, late=late):
        with work.watch.stage("repetitions"):
            delta = each_once(delta)
            if late:
                delta = _not_applied(work, current, delta)
            delta = checkpointed(delta)
            rows = delta.count()
    return Written(
        strategy="append",
        changes=seen,
        rows_counted=reading.rows_counted,
        keys=seen.used,
        rows=rows,
        images=_columns(work.target, delta),
    )


def refuse_changes(target: Target, seen: ChangeFigures) -> None:
    """Raises TableStopped for updates and deletes of a log of inserts."""
    others = seen.by_op["U"] + seen.by_op["D"]
    if target.mode is Mode.APPEND_LOG and others:
        raise TableStopped(
            target.table,
            f"{many(others, 'change', 'update')} or {does(others, 'delete')}, the first of them in "
            f"{seen.first_change_file}; an append_log cannot "
            "express that.",
            "Declare a primary_key for mode: current, or use mode: change_log.",
        )


def _columns(target: Target, changes: DataFrame) -> DataFrame:
    if target.mode is Mode.CHANGE_LOG:
        return changes.select("_op", "_commit_ts", "_sequence", "_image.*")
    return changes.select("_image.*")


def _may_repeat(work: Work, *, late: bool) -> bool:
    """Whether the batch can hold a change twice, or one that was applied before, and that could be told. A change that
    is written again goes to another file, whose sequences then do not lie above all the earlier ones."""
    several = sum(file.kind is FileKind.CDC for file in work.batch.files) > 1
    return work.target.dms.change_sequence_column is not None and (several or late)


def each_once(changes: DataFrame) -> DataFrame:
    """Without repetitions. Rows that have no sequence of their own are all kept."""
    place = F.when(~has_own_sequence(F.col("_sequence")), F.struct("_file", "_row"))
    return changes.withColumn("_place", place).dropDuplicates([*IDENTITY, "_place"])


def _without_known(work: Work, current: Attempt, delta: DataFrame) -> DataFrame:
    """The batch without the rows that the log has of files that were written again."""
    store = work.runtime.store(work.target.source)
    wanted = {plain(store.spark_uri(file.path)) for file in (*work.grown, *work.asked_anew)}
    found = [row["_file"] for row in delta.select("_file").distinct().collect()]
    of_these = F.col("_file").isin([name for name in found if plain(unquote(name)) in wanted])
    return delta.filter(~of_these).unionByName(not_in_log(work, current, delta.filter(of_these)))


def _not_among(changes: DataFrame, applied: DataFrame) -> DataFrame:
    earlier = applied.filter(has_own_sequence(F.col("_sequence"))).select(
        *(F.col(name).alias(f"{name}_") for name in IDENTITY)
    )
    same = F.col("_sequence") == F.col("_sequence_")
    for name in IDENTITY[1:]:
        same = same & F.col(name).eqNullSafe(F.col(f"{name}_"))
    return changes.join(earlier, same, "left_anti")


def _not_applied(work: Work, current: Attempt, delta: DataFrame) -> DataFrame:
    """What of a late batch is no repetition: of the log itself, if it has the columns of IDENTITY, else of the files
    that were applied."""
    if work.target.mode is Mode.CHANGE_LOG:
        bounds = delta.agg(F.min("_commit_ts"), F.max("_commit_ts")).first()
        assert bounds is not None, "an aggregate without grouping has one row"
        image = F.struct(*(F.col(quoted(column.name)) for column in work.target.image_columns))
        # The table is partitioned by the day of its commits, and a repetition has the commit of its first delivery.
        rows = work.spark.table(current.table).filter(F.col("_commit_ts").between(*bounds))
        return _not_among(delta, rows.select(*IDENTITY[:-1], image.alias("_image")))
    members = epoch_members(work.logged, work.batch.epoch, work.position.log_offset)
    cut = RowCut(work.position.cut) if work.position.cut is not None else None
    reading = work.read_again([file for file in members if file.kind is FileKind.CDC], cut)
    if reading is None:
        return delta
    applied = reading.checkpointed(reading.good)
    reading.figures()
    return _not_among(delta, applied)
