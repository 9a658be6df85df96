"""Repairing rows of a silver table that differ from its files: replay of their keys, in one commit, the position kept.

The rows are computed from all files at the table's position, which may take minutes; meanwhile other processes go on
applying. So only the last step is an attempt on a branch: it takes the position of that moment, and leaves out the keys
that files applied meanwhile have changed. Here: those steps. Not here: finding the rows (`compare_slices.py`).
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from pyiceberg.table import Table
from pyspark.sql import DataFrame
from tenacity import (
    Retrying,
    retry_if_exception_type,
    retry_if_not_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.errors import ApplyConflict, TableStopped
from lake_assets.iceberg.table_io import load_table
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply.apply_batch import apply_batch
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.reader import BatchReader
from lake_assets.silver.batch.result import BatchResult
from lake_assets.silver.changes.row_cut import ALL_ROWS
from lake_assets.silver.plan.cut import ALL_FILES, may_wait
from lake_assets.silver.plan.members import epoch_members, living_files
from lake_assets.silver.plan.plan import Batch
from lake_assets.silver.reconcile.compare_slices import at_position, located
from lake_assets.silver.reconcile.cycle import Cycle
from lake_assets.silver.reduce.current.current_rows import recomputed
from lake_assets.silver.reduce.events import events
from lake_assets.silver.reduce.key_states import broadcast_if_few
from lake_assets.silver.table.change_events import key_columns
from lake_assets.silver.table.guard import refuse_unfit
from lake_assets.silver.table.position import Position, read_position
from lake_assets.silver.table.targets import Target
from lake_assets.spark.checkpoint import checkpointed
from lake_assets.words import many

MOST_ROWS = 1_000_000
"""Limit of the rows of one repair; more rows need a rebuild."""
ATTEMPTS = 20
"""The last step takes seconds: under a continuous feed, some attempts lose the race."""


class Outdated(ApplyConflict):
    """The computed rows may not be right any more: `at_position` computes them again."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """The outcome of a repair."""

    rows: int = 0
    """Keys whose rows were replaced, added or removed."""
    left: int = 0
    """Keys that files changed meanwhile: compare them again."""
    published: BatchResult | None = None


def repair(runtime: LakeRuntime, target: Target, cycle: Cycle, chosen: Collection[int]) -> Repaired:
    """Compares the slices, and publishes the rows that the files give for the keys that differ. Raises as `rebuild`,
    and TableStopped when another writer has committed to the table."""

    def work(context: BatchContext) -> Repaired:
        refuse_unfit(target, context.table)
        _, found = located(context, cycle, chosen)
        if found is None:
            return Repaired()
        states = found.select(*key_columns(context.target.key), "_tombstone", "_image")
        if (number := states.count()) > MOST_ROWS:
            raise TableStopped(
                target.table,
                f"{many(number, 'row', 'differ')} from the files of {target.identifier}.",
                "Use lake-assets rebuild.",
            )
        policy = Retrying(
            retry=retry_if_exception_type(ApplyConflict) & retry_if_not_exception_type(Outdated),
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_random_exponential(multiplier=0.1, max=2),
            reraise=True,
        )
        return policy(_publish, context, states, number)

    return at_position(runtime, target, work)


def _publish(context: BatchContext, states: DataFrame, number: int) -> Repaired:
    """Publishes the states of the keys that no file has changed since they were computed. Raises ApplyConflict."""
    runtime, target = context.runtime, context.target
    table = load_table(runtime.catalog, target.identifier)
    refuse_unfit(target, table)
    position, logged = _now(context, table)
    if newer := _applied_since(context, position, logged):
        changed = _keys_in(replace(context, logged=logged), newer)
        names = key_columns(target.key)
        states = checkpointed(states.join(changed, on=names, how="left_anti"))
    if not (rows := states.count()):
        return Repaired(left=number)
    batch = Batch("cdc", (), position.log_offset, position.epoch, cut=position.cut, again=True)
    attempt = replace(context, table=table, position=position, logged=logged, batch=batch)
    applied = apply_batch(attempt, edit=lambda context: recomputed(context, states))
    return Repaired(rows, number - rows, applied)


def _now(context: BatchContext, table: Table | None) -> tuple[Position, list[LoggedFile]]:
    """The table's position now, and its files. Raises Outdated."""
    position, before = read_position(table), context.position
    same_columns = (
        table is not None
        and context.table is not None
        and table.metadata.current_schema_id == context.table.metadata.current_schema_id
    )
    same_masks = position.masks == before.masks
    if not same_masks or position.log_offset < before.log_offset or not same_columns:
        raise Outdated(f"{context.target.identifier}: it was changed meanwhile")
    target = context.target
    files = context.runtime.file_log.files(target.source, target.table)
    return position, living_files(files, target.mode, target.config.on_vanished)


def _applied_since(context: BatchContext, position: Position, logged: list[LoggedFile]) -> list[LoggedFile]:
    """The files that have, or may have, rows that were applied since the states were computed. Raises Outdated if files
    that the states were computed from do not count any more: after a full load, a TRUNCATE, or when a file was written
    again."""
    before = context.position
    if (position.log_offset, position.cut) == (before.log_offset, before.cut):
        return []
    members = epoch_members(logged, position.log_offset)
    if {file.offset for file in context.members} - {file.offset for file in members}:
        raise Outdated(f"{context.target.identifier}: files that it was computed from do not count any more")
    at_cut = context.runtime.lake.sources[context.target.source].consistent_cut
    margin = at_cut.margin if at_cut is not None else ALL_FILES
    return [file for file in members if file.offset > before.log_offset or may_wait(file, before, margin)]


def _keys_in(context: BatchContext, files: list[LoggedFile]) -> DataFrame:
    """The keys that the files name."""
    target = context.target
    reading = BatchReader(context).read_again(files, ALL_ROWS)
    if reading is None:
        raise Outdated(f"{target.identifier}: files that were applied meanwhile cannot be read")
    found = events(reading.usable(), target.key, before_images=target.before_images)
    keys = checkpointed(found.select(*key_columns(target.key)).distinct())
    return broadcast_if_few(keys, keys.count())
