"""The commit that has a batch's position, always the branch's last one.

It is an append, or the overwrite of all rows. It is never a delete, because a delete that changes only metadata would
lose the properties. Here: the commit, the position, the properties of the summary. Not here: the deletes before it
(`write_edit.py`), the proof (`proof.py`).
"""

from dataclasses import replace
from datetime import datetime

from pyspark.sql import functions as F

from lake_assets.iceberg.publish import Attempt
from lake_assets.iceberg.table_io import APPLIED_AT, RESTAMP_OF, committed_at
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.result import BatchResult
from lake_assets.silver.reduce.edit import Edit
from lake_assets.silver.reduce.touched_periods import all_touched
from lake_assets.silver.table.change_events import ChangeFigures
from lake_assets.silver.table.guard import foreign_commits
from lake_assets.silver.table.masks import described
from lake_assets.silver.table.position import Position
from lake_assets.silver.table.shape import SHAPE
from lake_assets.silver.write.write_edit import SMALL_ROWS, Begun, in_table_columns

FEW_WRITTEN = 10_000
"""The most rows that one task writes, except in a rewrite."""


def next_position(context: BatchContext, seen: ChangeFigures) -> Position:
    """The table's position after the batch. A full load starts the maxima again; CDC never lowers them."""
    position, batch = context.position, context.batch
    sequences = [seen.max_sequence]
    stamps = [seen.max_commit_ts]
    if batch.kind == "cdc":
        sequences.append(position.max_sequence)
        stamps.append(position.max_commit_ts)
    return Position(
        log_offset=batch.upto,
        epoch=batch.epoch,
        max_sequence=max(sequences),
        max_commit_ts=_latest(stamps),
        contract_version=context.contracts.versions[-1].number,
        masks=described(context.target),
        folders=context.target.folder_rule.text,
        history_from=position.history_from,
        mark=context.log_mark,
        cut=batch.cut,
        unknown_rows=position.unknown_rows if batch.kind == "cdc" else 0,
        # Recomputing some keys does not apply rows that wait.
        waiting=position.waiting if batch.again and batch.kind == "cdc" else seen.waiting,
    )


def _latest(stamps: list[datetime | None]) -> datetime | None:
    return max((stamp for stamp in stamps if stamp is not None), default=None)


def write_final_commit(
    context: BatchContext, current: Attempt, result: BatchResult, edit: Edit, begun: Begun
) -> None:
    """Writes the rows of the batch, possibly none, in the commit that has the position."""
    properties = _properties(context, result, edit)
    if begun.rows is None:
        current.write_nothing(properties)
        return
    # A rewrite also writes the rows that it keeps; it is of a small table.
    is_small = begun.kept is not None or (edit.rows is not None and edit.rows <= FEW_WRITTEN)
    # Changes that are read now are read by the same task: many of them may leave few rows.
    one_task = is_small and result.rows_counted <= SMALL_ROWS
    writer = current.writer(in_table_columns(begun.rows, context.target), properties, one_task=one_task)
    if begun.is_whole:
        writer.overwrite(F.lit(True))
    else:
        writer.append()


def repeat_position(context: BatchContext, current: Attempt, result: BatchResult, edit: Edit) -> BatchResult:
    """Repeats the commit without rows, with properties that were known only after the rows were written. Returns the
    result with the snapshot to publish."""
    _, head = current.head(context.runtime.catalog)
    properties = _properties(context, result, edit) | {
        RESTAMP_OF: str(head.snapshot_id),
        APPLIED_AT: committed_at(head).isoformat(),
    }
    current.write_nothing(properties)
    # Never a branch that Iceberg has created again: it would have the position, but not the rows.
    published = current.head_upon(context.runtime.catalog, result.position.snapshot_id)
    return replace(result, position=replace(result.position, snapshot_id=published))


def _properties(context: BatchContext, result: BatchResult, edit: Edit) -> dict[str, str]:
    # What others have touched since the last batch is unknown, and marts take it for a part of this batch.
    touched = all_touched(context.target) if foreign_commits(context.table) else edit.touched
    # The table has its mode, too; `restore --to` needs that of a former commit.
    shape = {SHAPE: str(context.target.mode)}
    return {**result.position.properties(), **shape, **result.properties(), **touched}
