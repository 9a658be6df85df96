"""A batch of a table of current rows whose outcome is foreseen, written while it is read.

A look at the files has found the last change of each key before Spark reads the rows, or that a full load has nothing
but inserts. So Spark writes the new rows without computing the changes in between. Whether a row is unusable is known
only when all rows are written. If one is, this attempt is given up, and the next one computes the changes first. Here:
that strategy. Not here: the last changes (`silver/changes/last_changes.py`), every other batch (`upsert.py`).
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.changes.collapse import events
from lake_assets.silver.changes.hold_batch import Marks
from lake_assets.silver.changes.last_changes import LastChanges, last_changes
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.changes.touched_periods import all_touched, touched_by_keys
from lake_assets.silver.table.change_events import INSERTED, commit_of
from lake_assets.silver.table.targets import Target
from lake_assets.silver.write.batch import NO_KEY, Written
from lake_assets.silver.write.batch_context import BatchContext
from lake_assets.silver.write.batch_reader import BatchReader
from lake_assets.silver.write.commit import (
    are_all_new,
    count_unseen,
    delete_last,
    refuse_repeated_keys,
    refuse_unforeseen,
    refuse_written_again,
)
from lake_assets.silver.write.current.rewrite import rewritten
from lake_assets.spark.checkpoint import Observed


def foreseen(reader: BatchReader, reading: Reading) -> LastChanges | None:
    """The last changes of the batch; None if it has to be computed before it is written."""
    context, figures, changes = reader.context, reading.foreseen, reading.changes_by_file
    if figures is None or changes is None or not context.may_foresee:
        return None
    is_late = commit_of(figures.min_sequence) <= commit_of(context.position.max_sequence)
    if context.batch.kind == "cdc" and is_late:
        return None  # late, or of a transaction that was applied in part
    with context.watch.stage("read"):
        last = last_changes(changes, context.target.key, has_range=context.target.has_number_key)
        replaces_table = context.batch.kind == "full_load"
        if last is None or last.if_new is None or replaces_table or are_all_new(context, *last.if_new):
            return last
        return None


def replace_foreseen_keys(
    reader: BatchReader, reading: Reading, current: Attempt, last: LastChanges
) -> Written:
    """Replaces the rows of the batch's keys. Raises Unforeseen."""
    context, target, counts = reader.context, reader.context.target, last.counts
    reader.check(reading, reading.foreseen)
    touched: Mapping[str, str] = {}
    if target.tracked.days or target.tracked.hours:
        with context.watch.stage("touched_periods"):
            states = _states(target, reading, last, last.is_row)
            keys = last.keys_in(context.spark)
            touched = touched_by_keys(context.address, context.position.snapshot_id, target, states, keys)
    context.stage("write")
    rewrites = context.rewrites(counts.keys)
    with ThreadPoolExecutor(1, thread_name_prefix="images") as thread:
        # Spark deletes while this process writes many rows to files for it.
        last_images = thread.submit(_last_images, context, reading, last)
        deletes = not rewrites and delete_last(context, current, last)
        images, confirm = last_images.result()

    def unseen_updates(removed: int) -> int:
        return count_unseen(context, lambda: _states(target, reading, last, last.is_update), counts, removed)

    written = Written(
        strategy="delete_and_append",
        reason=f"{context.why_not_rewritten(counts.keys)}; the files' own figures foresee the batch",
        keys=counts.keys,
        rows=counts.rows,
        images=images,
        confirm=confirm,
        touched=touched,
        unseen_updates=unseen_updates,
        present=counts.present,
    )
    if rewrites:
        return rewritten(context, current, last.few_keys or last.keys_in(context.spark), written)
    return written if deletes else replace(written, strategy="append", reason=NO_KEY)


def write_foreseen_table(
    reader: BatchReader, reading: Reading, current: Attempt, last: LastChanges
) -> Written:
    """Writes a full load and the CDC that belongs to it: the whole table, in one commit. Raises Unforeseen."""
    context, counts = reader.context, last.counts
    reader.check(reading, reading.foreseen)
    context.stage("write")
    images, confirm = _last_images(context, reading, last)
    return Written(
        "overwrite",
        keys=counts.keys,
        rows=counts.rows,
        images=images,
        is_whole=True,
        confirm=confirm,
        touched=all_touched(context.target),
        unseen_updates=lambda removed: counts.updated,
    )


def write_unique_inserts(reader: BatchReader, reading: Reading, current: Attempt) -> Written | None:
    """Writes a full load as it is read: the whole table, in one commit. None unless a look at the files has found
    nothing but inserts, and that no two have the same key, or that the keys are too many for a look. Raises
    Unforeseen."""
    context, figures = reader.context, reading.foreseen
    if context.in_steps or reading.held is not None or figures is None:
        return None
    rows, is_unique = figures.rows, reading.has_unique_keys
    if figures.by_op[INSERTED] != rows or not (is_unique or reading.changes_by_file is None):
        return None
    reader.check(reading, figures)

    def confirm(added: int) -> None:
        # Every row is written or bad, so that their number shows whether one is bad.
        refuse_unforeseen(added, rows)
        refuse_written_again(reading)
        if not is_unique:
            refuse_repeated_keys(context, current, rows)

    context.stage("write")
    return Written(
        "overwrite",
        keys=rows,
        rows=rows,
        images=reading.usable.select("_image.*"),
        is_whole=True,
        confirm=confirm,
        touched=all_touched(context.target),
    )


def _last_images(
    context: BatchContext, reading: Reading, last: LastChanges
) -> tuple[DataFrame, Callable[[int], None]]:
    """The rows of the keys that have one in the end, and a function that confirms that these rows were written."""
    rows = last.counts.rows
    if reading.held is not None:
        return reading.held.rows(last.is_row), lambda added: refuse_unforeseen(added, rows)
    observed = Observed()
    changes = observed.on(
        last.marked(reading.changes, last.is_row),
        F.count_if(F.col("_bad").isNotNull()).alias("bad"),
    )
    images = changes.filter(F.col("_marked") & F.col("_bad").isNull())

    def confirm(added: int) -> None:
        refuse_unforeseen(added, rows, bad=int(observed.get["bad"]))
        refuse_written_again(reading)

    return images.select("_image.*"), confirm


def _states(target: Target, reading: Reading, last: LastChanges, marks: Marks) -> DataFrame:
    """The states of the keys whose last change has a mark; they have a row."""
    if reading.held is not None:
        tracked = target.tracked
        return reading.held.states(marks, {*tracked.days, *tracked.hours})
    marked = last.marked(reading.usable, marks).filter("_marked")
    return events(marked, target.key, before_images=False)
