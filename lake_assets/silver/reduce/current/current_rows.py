"""The edit of a table of current rows: a batch replaces the rows of its keys by their new state.

Here: the edits of a batch, of a full load and of recomputed states. Not here: the last change of each key
(`last_changes.py`), late batches and doubtful keys (`late_batch.py`), writing (`silver/write/`).
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from pyiceberg.expressions import And, GreaterThanOrEqual, LessThanOrEqual
from pyspark.sql import DataFrame

from lake_assets.iceberg.table_io import load_table
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.reader import BatchReader
from lake_assets.silver.changes.reading import Reading
from lake_assets.silver.reduce.current.keyed_edit import KeyedEdit, edit_of
from lake_assets.silver.reduce.current.late_batch import replayed, settled_in_load, settled_in_order
from lake_assets.silver.reduce.edit import Edit, EveryRow, Matching, Recounted, Rows
from lake_assets.silver.reduce.key_states import broadcast_if_few, living, same_key
from lake_assets.silver.reduce.touched_periods import all_touched, touched_by_keys
from lake_assets.silver.table.change_events import INSERTED, commit_of


def changed_keys(reader: BatchReader, reading: Reading) -> Edit:
    """Replaces the rows of the batch's keys."""
    context = reader.context
    reader.check(reading)
    found = _found(reader, reading)
    edit = replace(_edit(found), removed=found.keys, touched=_touched(context, found))
    # What the table should have is known of keys that the batch alone determines.
    return replace(edit, present=None, updated=0) if reader.recomputes_keys else edit


def whole_table(reader: BatchReader, reading: Reading) -> Edit:
    """A full load and the CDC that belongs to it: the whole table."""
    context = reader.context
    reader.check(reading)
    edit = _inserts(context, reading)
    if edit is None:
        with context.watch.stage("read"):
            settle = partial(settled_in_load, reader, reading)
            # The table will have none of the keys but by this batch.
            edit = _edit(edit_of(reading, context.target, settle, lambda ends: True))
    return replace(edit, removed=EveryRow(), touched=all_touched(context.target))


def recomputed(context: BatchContext, states: DataFrame) -> Edit:
    """Replaces the rows of the states' keys. The table may have several rows for one key."""
    target, rows = context.target, states.filter("NOT _tombstone").count()
    keys = broadcast_if_few(states, states.count())
    replaced = context.main.alias("t").join(keys.alias("k"), same_key(target), "left_semi").count()
    return Edit(
        removed=Matching(keys, target.key_matches("k", "t")),
        added=Rows(living(states)),
        keys=rows,
        followed=rows,
        rows=rows,
        counted=lambda: Recounted(rows, replaced, images=rows),
        touched=touched_by_keys(context.address, context.position.snapshot_id, target, states),
        repairs=True,
    )


def are_all_new(context: BatchContext, lowest: int, highest: int) -> bool:
    """Whether, by the bounds that Iceberg keeps of each file, the table can have none of the keys from `lowest` to
    `highest`."""
    if context.position.snapshot_id is None:
        return True
    # Not the planned table, whose columns may have other names. If main has moved since, nothing is published.
    table, name = load_table(context.runtime.catalog, context.target.identifier), context.target.key[0]
    within = And(GreaterThanOrEqual(term=name, value=lowest), LessThanOrEqual(term=name, value=highest))
    return table is not None and not any(table.scan(row_filter=within).plan_files())


def _edit(found: KeyedEdit) -> Edit:
    return Edit(
        added=found,
        keys=found.keys.number,
        followed=found.followed,
        rows=found.rows,
        present=found.present,
        updated=found.keys.updated,
    )


def _inserts(context: BatchContext, reading: Reading) -> Edit | None:
    """A large full load as it is read. None unless it has nothing but inserts, no two of which have the same key, or
    whose keys are too many for a look."""
    figures = reading.figures
    rows, is_unique = figures.used, reading.has_unique_keys
    has_others = figures.by_op[INSERTED] != figures.rows or figures.passed_over
    if reading.held is not None or has_others or not (is_unique or not reading.has_events):
        return None
    # Every row is written or bad, so that their number shows whether one is bad.
    images = reading.usable().select("_image.*")
    return Edit(added=Rows(images), keys=rows, rows=rows, may_repeat=not is_unique)


def _found(reader: BatchReader, reading: Reading) -> KeyedEdit:
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


def _touched(context: BatchContext, found: KeyedEdit) -> Mapping[str, str]:
    target = context.target
    columns = {*target.tracked.days, *target.tracked.hours}
    if not columns:
        return {}
    with context.watch.stage("touched_periods"):
        states, snapshot = found.states(columns), context.position.snapshot_id
        return touched_by_keys(context.address, snapshot, target, states, found.keys.frame)
