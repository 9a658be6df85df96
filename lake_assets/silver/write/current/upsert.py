"""Upsert: a batch of a table of current rows replaces the rows of its keys by their new state.

Here: the state of the batch's keys, and writing it to the branch. Not here: a batch whose outcome a look at its files
foresees (`foreseen.py`), the rule of a key's state (`silver/changes/collapse.py`), late batches and doubtful keys
(`late_batch.py`), the order of the steps (`silver/apply/apply_batch.py`).
"""

from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.changes.key_states import broadcast_if_few, keys_of, living
from lake_assets.silver.changes.large_batch import batch_states
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.changes.touched_periods import all_touched, touched_by_keys
from lake_assets.silver.table.change_events import UPDATED, commit_of
from lake_assets.silver.table.position import REPAIR
from lake_assets.silver.write.batch import NO_KEY, Written
from lake_assets.silver.write.batch_context import BatchContext
from lake_assets.silver.write.batch_reader import BatchReader
from lake_assets.silver.write.commit import (
    count_unseen,
    delete_keys,
    delete_matching,
    on_branch,
    same_key,
    write_all,
)
from lake_assets.silver.write.current.foreseen import (
    foreseen,
    replace_foreseen_keys,
    write_foreseen_table,
    write_unique_inserts,
)
from lake_assets.silver.write.current.late_batch import replayed, settled_in_load, settled_in_order
from lake_assets.silver.write.current.rewrite import rewritten


def replace_keys(reader: BatchReader, reading: Reading, current: Attempt) -> Written:
    """Deletes the batch's keys on the branch; the commit that has the position appends their new rows."""
    context = reader.context
    position, target = context.position, context.target
    if (last := foreseen(reader, reading)) is not None:
        return replace_foreseen_keys(reader, reading, current, last)
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
        reason=context.why_not_rewritten(counts.keys),
    )
    if not reader.recomputes_keys:
        updated = delta.filter((F.col("_first") == UPDATED) & ~F.col("_tombstone"))
        unseen = partial(count_unseen, context, lambda: updated, counts)
        written = replace(written, unseen_updates=unseen, present=counts.present)
    if context.rewrites(counts.keys):
        return rewritten(context, current, delta, written)
    if not delete_keys(context, current, keys_of(delta, target, counts.keys), counts):
        return replace(written, strategy="append", reason=NO_KEY)
    return written


def replace_states(context: BatchContext, current: Attempt, states: DataFrame) -> Written:
    """Replaces the rows of the states' keys. The table may have several rows for one key."""
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
    if (written := write_unique_inserts(reader, reading, current)) is not None:
        return written
    if (last := foreseen(reader, reading)) is not None:
        return write_foreseen_table(reader, reading, current, last)
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
