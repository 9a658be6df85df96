"""A batch of a log: rows are only appended, each change once.

A DMS task that resumes after a failure may write changes again, into another file. In a table of current rows a
repetition changes nothing, because a key's last event decides. A log has to recognise repetitions: by DMS's own
sequence and the change's whole content, so that two different changes are never taken for one.

Here: the rows of a log, and that comparison. Not here: writing them (`silver/write/`).
"""

from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.reader.places import plain
from lake_assets.config import Mode
from lake_assets.errors import TableStopped
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.reader import BatchReader
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.plan.lateness import is_late
from lake_assets.silver.plan.rewritten import former_content, rewritten
from lake_assets.silver.reduce.compare_rewritten import not_in_log, rows_of_commits, since_history
from lake_assets.silver.reduce.current.late_batch import refuse_missing
from lake_assets.silver.reduce.edit import Edit, EveryRow, Recounted, Rows
from lake_assets.silver.reduce.events import has_own_sequence
from lake_assets.silver.reduce.touched_periods import all_touched, touched_by_rows
from lake_assets.silver.table.change_events import ChangeFigures
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import Observed, checkpointed
from lake_assets.words import does, many

IDENTITY = ("_sequence", "_op", "_commit_ts", "_image")


def whole_log(reader: BatchReader, reading: Reading) -> Edit:
    """A full load and the CDC that belongs to it: the whole log, in one pass."""
    context, seen = reader.context, reader.check(reading)
    refuse_changes(context.target, reading, seen)
    edit = _held(reader, reading, after="")
    if edit is None:
        changes, counted = since_history(context, reading.good), Observed()
        if _may_repeat(context, late=False):
            changes = each_once(changes)
        rows = counted.on(_columns(context.target, changes), F.count(F.lit(1)).alias("rows"))
        edit = Edit(
            added=Rows(rows), keys=seen.used, rows=None, counted=lambda: Recounted(counted.get["rows"])
        )
    return replace(edit, removed=EveryRow(), touched=all_touched(context.target))


def added_changes(reader: BatchReader, reading: Reading) -> Edit:
    """Appends the batch's changes."""
    context, seen = reader.context, reader.check(reading)
    refuse_changes(context.target, reading, seen)
    known = _files_in_log(reader)
    edit = None if known else _held(reader, reading, after=context.position.max_sequence)
    if edit is None:
        edit = _compared(reader, reading, known)
    if edit.added is None:
        return edit
    with context.watch.stage("touched_periods"):
        return replace(edit, touched=touched_by_rows(context.target, edit.added.frame))


def _compared(reader: BatchReader, reading: Reading, known: Sequence[LoggedFile]) -> Edit:
    """The batch's changes without those that the log has, of these files or by repetition."""
    context, seen = reader.context, reader.seen
    with context.watch.stage("read"):
        delta = reading.checkpointed(reading.good)
    rows, late = seen.used, is_late(seen.min_sequence, context.position.max_sequence)
    if _has_removed(context, seen):
        with context.watch.stage("repetitions"):
            delta = checkpointed(since_history(context, delta))
            rows = delta.count()
    if known:
        with context.watch.stage("repetitions"):
            delta = checkpointed(_without_known(context, known, delta))
            rows = delta.count()
    if _may_repeat(context, late=late):
        with context.watch.stage("repetitions"):
            delta = each_once(delta)
            if late:
                delta = _not_applied(reader, reading, delta)
            delta = checkpointed(delta)
            rows = delta.count()
    return Edit(added=Rows(_columns(context.target, delta)), keys=seen.used, rows=rows)


def _held(reader: BatchReader, reading: Reading, *, after: str) -> Edit | None:
    """The rows that this process holds; None if they have to be compared, with each other or with those that were
    applied up to the sequence `after`."""
    context, seen = reader.context, reader.seen
    if reading.held is None or context.retries or context.batch.again:
        return None
    if is_late(seen.min_sequence, after) or not reading.held.sequences_differ or _has_removed(context, seen):
        return None
    return Edit(added=Rows(reading.held.log_rows), keys=seen.used, rows=seen.used)


def _has_removed(context: BatchContext, seen: ChangeFigures) -> bool:
    """Whether some of the changes are of the time from which a change log has none any more."""
    ended, first = context.position.history_from, seen.min_commit_ts
    return (
        context.target.mode is Mode.CHANGE_LOG and None not in (ended, first) and first < ended  # type: ignore[operator]
    )


def refuse_changes(target: Target, reading: Reading, seen: ChangeFigures) -> None:
    """Raises TableStopped for updates and deletes of a log of inserts."""
    others = seen.by_op["U"] + seen.by_op["D"]
    if target.mode is Mode.APPEND_LOG and others:
        of_file = {address: seen.by_op["U"] + seen.by_op["D"] for address, seen in reading.by_file().items()}
        first = min(address for address, number in of_file.items() if number)
        raise TableStopped(
            target.table,
            f"{many(others, 'change', 'update')} or {does(others, 'delete')}, the first of them in {first}; an "
            "append_log cannot express that.",
            "Declare a primary_key for mode: current, or use mode: change_log.",
        )


def _columns(target: Target, changes: DataFrame) -> DataFrame:
    if target.mode is Mode.CHANGE_LOG:
        return changes.select("_op", "_commit_ts", "_sequence", "_image.*")
    return changes.select("_image.*")


def _may_repeat(context: BatchContext, *, late: bool) -> bool:
    """Whether the batch may have a change twice, or one that was applied before, and repetitions can be recognised. DMS
    writes a repeated change to another file, whose sequences then are not above all earlier ones. Of a stream, one file
    may have both."""
    changes = sum(file.kind is FileKind.CDC for file in context.batch.files)
    alone = 0 if context.runtime.lake.sources[context.target.source].stream is not None else 1
    return context.target.dms.change_sequence_column is not None and (changes > alone or late)


def each_once(changes: DataFrame) -> DataFrame:
    """The changes without repetitions. Keeps all rows without a sequence of their own."""
    place = F.when(~has_own_sequence(F.col("_sequence")), F.struct("_file", "_row"))
    # Spark groups -0.0 with 0.0, and a column that it groups by has 0.0 afterwards.
    kept = changes.withColumns({"_place": place, "_kept": F.col("_image")})
    return kept.dropDuplicates([*IDENTITY, "_place"]).withColumn("_image", F.col("_kept")).drop("_kept")


def _files_in_log(reader: BatchReader) -> list[LoggedFile]:
    """Files of the batch that were written again, and whose former rows are in the log: those with additional rows, and
    those that `quarantine retry` has requested."""
    context, applied = reader.context, reader.context.position.log_offset
    grown = rewritten(context.batch.files, context.logged, applied, context.damaged)
    retried = [part.file for part in reader.parts if part.file.retry and part.only is None]
    return grown + [
        file for file in retried if former_content(file, context.logged, applied, context.damaged) is not None
    ]


def _without_known(context: BatchContext, files: Sequence[LoggedFile], delta: DataFrame) -> DataFrame:
    """The batch without those rows of these files that the log already has."""
    wanted = {plain(context.store.spark_uri(file.path)) for file in files}
    found = [row["_file"] for row in delta.select("_file").distinct().collect()]
    of_these = F.col("_file").isin([name for name in found if plain(unquote(name)) in wanted])
    return delta.filter(~of_these).unionByName(not_in_log(context, delta.filter(of_these)))


def _not_among(changes: DataFrame, applied: DataFrame) -> DataFrame:
    earlier = applied.filter(has_own_sequence(F.col("_sequence"))).select(
        *(F.col(name).alias(f"{name}_") for name in IDENTITY)
    )
    same = F.col("_sequence") == F.col("_sequence_")
    for name in IDENTITY[1:]:
        same = same & F.col(name).eqNullSafe(F.col(f"{name}_"))
    return changes.join(earlier, same, "left_anti")


def _not_applied(reader: BatchReader, own: Reading, delta: DataFrame) -> DataFrame:
    """The rows of a late batch without repetitions: compared with the log itself if it has the columns of IDENTITY,
    else with the applied files. Raises FilesUnusable when one of these is gone."""
    context = reader.context
    if context.target.mode is Mode.CHANGE_LOG:
        # A repetition has the commit time of its first delivery.
        return _not_among(delta, rows_of_commits(context, delta))
    files = [file for file in context.members if file.kind is FileKind.CDC]
    refuse_missing(context, own, files)
    reading = reader.read_applied(files)
    if reading is None:
        return delta
    return _not_among(delta, reading.checkpointed(reading.good))
