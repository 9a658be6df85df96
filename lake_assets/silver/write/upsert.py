"""Upsert: a batch of a table of current rows replaces the rows of its keys by their new state.

To mark deleted rows, Spark reads every data file, and each batch adds one: with forty files that takes longer than the
rest of a batch. So a small table is rewritten whole.

Here: the state of the batch's keys, writing it to the branch, and which tables are small. Not here: the rule of a key's
state (`silver/changes/collapse.py`), late batches and doubtful keys (`late_batch.py`), the order of the steps
(`silver/apply/apply_batch.py`).
"""

from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.files.keys import FileKind
from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.changes.key_states import broadcast_if_few, keys_of, living
from lake_assets.silver.changes.large_batch import batch_states
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.changes.touched_periods import all_touched, touched_by_keys
from lake_assets.silver.table.change_events import UPDATED, commit_of
from lake_assets.silver.table.position import REPAIR
from lake_assets.silver.write.batch import NO_KEY, REWRITE, Written
from lake_assets.silver.write.batch_context import SMALL_ROWS, BatchContext
from lake_assets.silver.write.batch_reader import BatchReader
from lake_assets.silver.write.commit import (
    count_unseen,
    delete_keys,
    delete_matching,
    in_table_columns,
    on_branch,
    same_key,
    write_all,
)
from lake_assets.silver.write.large_load import write_large_load
from lake_assets.silver.write.large_upsert import foreseen, write_large_batch
from lake_assets.silver.write.late_batch import replayed, settled_in_load, settled_in_order
from lake_assets.spark.checkpoint import Observed
from lake_assets.words import many


def replace_keys(reader: BatchReader, reading: Reading, current: Attempt) -> Written:
    """Deletes the batch's keys on the branch; the commit that has the position appends their new rows."""
    context = reader.context
    position, target = context.position, context.target
    marked = context.why_marked
    if marked is not None and (last := foreseen(reader, reading)) is not None:
        return write_large_batch(reader, reading, current, last)
    with context.watch.stage("read"):
        delta, counts = batch_states(target, reading, applied_commit=commit_of(position.max_sequence))
    reader.check(reading)
    if reader.recomputes_keys:
        delta, counts = replayed(reader, reading, delta, counts)
    elif counts.doubtful:
        delta, counts = settled_in_order(reader, reading, delta, counts)
    with context.watch.stage("touched_periods"):
        touched = touched_by_keys(context.address, position.snapshot_id, target, delta)
    context.stage("write")
    written = Written(
        strategy="delete_and_append",
        keys=counts.keys,
        followed=counts.followed,
        rows=counts.rows,
        images=living(delta),
        touched=touched,
        reason=marked or f"{many(counts.keys, 'key')} are too many to rewrite a small table",
    )
    if not reader.recomputes_keys:
        updated = delta.filter((F.col("_first") == UPDATED) & ~F.col("_tombstone"))
        unseen = partial(count_unseen, context, updated, counts)
        written = replace(written, unseen_updates=unseen, present=counts.present)
    if 0 < counts.keys <= SMALL_ROWS and marked is None:
        return _rewritten(context, current, delta, written)
    if not delete_keys(context, current, keys_of(delta, target, counts.keys), counts):
        return replace(written, strategy="append", reason=NO_KEY)
    return written


def replace_states(context: BatchContext, current: Attempt, states: DataFrame) -> Written:
    """Replaces the rows of the states' keys, of which the table may have several for one key."""
    target, rows = context.target, states.filter(~F.col("_tombstone")).count()
    keys = broadcast_if_few(states, states.count())
    replaced = on_branch(context, current).join(keys.alias("k"), same_key(target), "left_semi").count()
    touched = touched_by_keys(context.address, context.position.snapshot_id, target, states)
    delete_matching(context, current, keys, target.key_matches("k", "t"))
    return Written(
        REPAIR,
        keys=rows,
        followed=rows,
        rows=rows,
        images=living(states),
        replaced=replaced,
        versions=rows,
        touched=touched,
    )


def replace_table(reader: BatchReader, reading: Reading, current: Attempt) -> Written:
    """Writes a full load and the CDC that belongs to it: the whole table."""
    if reading.is_large and any(part.file.kind is FileKind.LOAD for part in reading.parts):
        return write_large_load(reader, reading, current)
    context, target = reader.context, reader.context.target
    with context.watch.stage("read"):
        delta, counts = batch_states(target, reading)
    reader.check(reading)
    if counts.doubtful:
        with context.watch.stage("replay"):
            delta, counts = settled_in_load(reader, delta, counts)
    write_all(context, current, living(delta))
    return Written(
        "overwrite",
        keys=counts.keys,
        rows=counts.rows,
        followed=counts.followed,
        touched=all_touched(target),
        unseen_updates=lambda removed: counts.updated,
    )


def _rewritten(context: BatchContext, current: Attempt, delta: DataFrame, written: Written) -> Written:
    """The same batch, written by a commit that replaces the whole table."""
    assert written.images is not None, "the new rows of the keys"
    kept, observed = kept_rows(context, current, delta)
    new = in_table_columns(written.images, context.target)
    rows = in_table_columns(kept, context.target).union(new)
    reason = f"the table has {many(context.position.rows, 'row')}"
    return replace(written, strategy=REWRITE, reason=reason, images=rows.coalesce(1), kept=observed)


def kept_rows(context: BatchContext, current: Attempt, keys: DataFrame) -> tuple[DataFrame, Observed]:
    """The rows that have none of the keys, and their number once they have been computed."""
    observed = Observed()
    rows = on_branch(context, current).join(
        F.broadcast(keys.alias("k")), same_key(context.target), "left_anti"
    )
    return observed.on(rows, F.count(F.lit(1)).alias("rows")), observed
