"""Removing the rows of erased keys from a silver table of any shape, in one commit that keeps the position.

Here: the edit, and applying it. Not here: writing it (`silver/write/`), the table's former commits and files
(`iceberg/upkeep/purge.py`).
"""

from pyspark.sql import DataFrame

from lake_assets.iceberg.table_io import current_snapshot, load_table
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply.apply_batch import apply_batch
from lake_assets.silver.apply.planned import Planned, in_context, retrying
from lake_assets.silver.batch.context import BatchContext
from lake_assets.silver.batch.result import BatchResult
from lake_assets.silver.erase.erased_keys import ErasedKeys
from lake_assets.silver.plan.members import living_files
from lake_assets.silver.plan.plan import Batch
from lake_assets.silver.reduce.edit import Edit, Matching, Recounted
from lake_assets.silver.reduce.key_states import same_key
from lake_assets.silver.reduce.touched_periods import touched_by_rows
from lake_assets.silver.table.guard import refuse_unfit
from lake_assets.silver.table.position import read_position
from lake_assets.silver.table.targets import Target


def erase_rows(runtime: LakeRuntime, target: Target, keys: ErasedKeys) -> BatchResult | None:
    """Publishes the table without the rows of the keys. Also without any: the commit has the mark of the files as they
    are now, and a batch under way is planned again. None for a table without commits. Raises TableStopped and
    ApplyConflict."""

    def once() -> BatchResult | None:
        table = load_table(runtime.catalog, target.identifier)
        refuse_unfit(target, table)
        if current_snapshot(table) is None:
            return None
        position = read_position(table)
        batch = Batch("cdc", (), position.log_offset, position.epoch, cut=position.cut, again=True)
        logged = runtime.file_log.files(target.source, target.table)
        living = living_files(logged, target.mode, target.config.on_vanished)
        return in_context(
            runtime, Planned(target, table, position, batch, living), {}, lambda stage: None, work
        )

    def work(context: BatchContext) -> BatchResult | None:
        erased = context.spark.createDataFrame(keys.in_silver(context.target))
        return apply_batch(context, edit=lambda context: without_keys(context, erased))

    return retrying(target, once)


def without_keys(context: BatchContext, keys: DataFrame) -> Edit:
    """Removes every row of the keys, in the columns `key_columns`."""
    rows = rows_of(context, keys)
    number = rows.count()
    return Edit(
        removed=Matching(keys, context.target.key_matches("k", "t")),
        rows=0,
        counted=lambda: Recounted(0, replaced=number),
        touched=touched_by_rows(context.target, rows),
        repairs=True,
    )


def rows_of(context: BatchContext, keys: DataFrame) -> DataFrame:
    """The table's rows of the keys."""
    return context.main.alias("t").join(keys.alias("k"), same_key(context.target), "left_semi")
