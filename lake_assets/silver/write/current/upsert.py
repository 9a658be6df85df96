"""Upsert: a batch of a table of current rows replaces the rows of its keys by their new state.

Here: the edit of a batch, and writing it to the branch. Not here: the last change of each key
(`silver/reduce/last_changes.py`), late batches and doubtful keys (`late_batch.py`), the order of the steps
(`silver/apply/apply_batch.py`).
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.reduce.edit import Edit, edit_of
from lake_assets.silver.reduce.key_states import broadcast_if_few, living
from lake_assets.silver.reduce.touched_periods import all_touched, touched_by_keys
from lake_assets.silver.table.change_events import INSERTED, commit_of
from lake_assets.silver.table.position import REPAIR
from lake_assets.silver.write.batch import NO_KEY, OVERWRITE, Recounted, Written
from lake_assets.silver.write.batch_context import BatchContext
from lake_assets.silver.write.batch_reader import BatchReader
from lake_assets.silver.write.commit import (
    are_all_new,
    delete_keys,
    delete_matching,
    on_branch,
    same_key,
)
from lake_assets.silver.write.current.late_batch import replayed, settled_in_load, settled_in_order
from lake_assets.silver.write.current.rewrite import rewritten


def replace_keys(reader: BatchReader, reading: Reading, current: Attempt) -> Written:
    """Deletes the batch's keys on the branch; the commit that has the position appends their new rows."""
    context = reader.context
    reader.check(reading)
    edit = _edit(reader, reading)
    keys = edit.keys.number
    touched = _touched(context, edit)
    context.stage("write")
    rewrites = context.rewrites(keys)
    with ThreadPoolExecutor(1, thread_name_prefix="images") as thread:
        # Spark deletes while this process writes many rows to files for it.
        images = thread.submit(lambda: edit.images)
        deletes = not rewrites and delete_keys(context, current, edit)
        new = images.result()
    written = Written(
        strategy="delete_and_append",
        reason=context.why_not_rewritten(keys),
        keys=keys,
        followed=edit.followed,
        rows=edit.rows,
        images=new,
        touched=touched,
        edit=None if reader.recomputes_keys else edit,
    )
    if rewrites:
        few = edit.keys.literals
        return rewritten(context, current, edit.keys.frame if few is None else few, written)
    return written if deletes else replace(written, strategy="append", reason=NO_KEY)


def replace_states(context: BatchContext, current: Attempt, states: DataFrame) -> Written:
    """Replaces the rows of the states' keys. The table may have several rows for one key."""
    target, rows = context.target, states.filter("NOT _tombstone").count()
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
        touched=touched,
        recounted=Recounted(replaced, versions=rows),
    )


def replace_table(reader: BatchReader, reading: Reading, current: Attempt) -> Written:
    """Writes a full load and the CDC that belongs to it: the whole table, in one commit."""
    context = reader.context
    reader.check(reading)
    if (written := _inserts(context, reading)) is not None:
        return written
    with context.watch.stage("read"):
        settle = partial(settled_in_load, reader, reading)
        # The table will have none of the keys but by this batch.
        edit = edit_of(reading, context.target, settle, lambda ends: True)
    context.stage("write")
    return Written(
        OVERWRITE,
        keys=edit.keys.number,
        followed=edit.followed,
        rows=edit.rows,
        images=edit.images,
        is_whole=True,
        touched=all_touched(context.target),
        edit=edit,
    )


def _inserts(context: BatchContext, reading: Reading) -> Written | None:
    """Writes a large full load as it is read. None unless it has nothing but inserts, no two of which have the same
    key, or whose keys are too many for a look."""
    figures = reading.figures
    rows, is_unique = figures.used, reading.has_unique_keys
    has_others = figures.by_op[INSERTED] != figures.rows or figures.passed_over
    if reading.held is not None or has_others or not (is_unique or not reading.has_events):
        return None
    context.stage("write")
    return Written(
        OVERWRITE,
        keys=rows,
        rows=rows,
        # Every row is written or bad, so that their number shows whether one is bad.
        images=reading.usable().select("_image.*"),
        is_whole=True,
        may_repeat=not is_unique,
        touched=all_touched(context.target),
    )


def _edit(reader: BatchReader, reading: Reading) -> Edit:
    context, target = reader.context, reader.context.target
    with context.watch.stage("read"):
        if reader.recomputes_keys:
            return replayed(reader, reading)
        return edit_of(
            reading,
            target,
            partial(settled_in_order, reader, reading),
            lambda ends: (
                context.position.snapshot_id is None if ends is None else are_all_new(context, *ends)
            ),
            applied_commit=commit_of(context.position.max_sequence),
        )


def _touched(context: BatchContext, edit: Edit) -> Mapping[str, str]:
    target = context.target
    columns = {*target.tracked.days, *target.tracked.hours}
    if not columns:
        return {}
    with context.watch.stage("touched_periods"):
        states, snapshot = edit.states(columns), context.position.snapshot_id
        return touched_by_keys(context.address, snapshot, target, states, edit.keys.frame)
