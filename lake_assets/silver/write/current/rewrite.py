"""A batch of a small table, written by a commit that replaces all of its rows.

To mark deleted rows, Spark reads every data file, and each batch adds one: with forty files that takes longer than the
rest of a batch. Here: that commit's rows. Not here: which tables are small (`batch_context.py`), the new rows of the
batch's keys (`foreseen.py`, `upsert.py`).
"""

from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.config import Strategy
from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.changes.key_states import broadcast_if_few
from lake_assets.silver.write.batch import Written
from lake_assets.silver.write.batch_context import BatchContext
from lake_assets.silver.write.commit import in_table_columns, on_branch, same_key
from lake_assets.spark.checkpoint import Observed
from lake_assets.spark.sql import quoted


def rewritten(
    context: BatchContext, current: Attempt, keys: DataFrame | list[Any], written: Written
) -> Written:
    """The same batch as a commit of the whole table: the images replace the rows of the keys. `keys` may be a list if
    the table's key has one column."""
    assert written.images is not None, "the new rows of the keys"
    kept, observed = kept_rows(context, current, keys, written.keys)
    new = in_table_columns(written.images, context.target)
    return replace(
        written,
        strategy=Strategy.REWRITE,
        reason=context.why_rewritten,
        images=in_table_columns(kept, context.target).union(new),
        is_whole=True,
        kept=observed,
    )


def kept_rows(
    context: BatchContext, current: Attempt, keys: DataFrame | list[Any], number: int
) -> tuple[DataFrame, Observed]:
    """The rows that have none of the `number` keys, and their number once they have been computed."""
    observed = Observed()
    rows = on_branch(context, current)
    if isinstance(keys, list):
        is_replaced = F.col(quoted("t", context.target.key[0])).isin(keys)
        # `greatest` takes NULL for false, and Iceberg does not understand it: a NOT IN of Iceberg's own would skip no
        # file, and take requests to look for row groups to skip.
        rows = rows.filter(~F.greatest(is_replaced, F.lit(False)))
    else:
        rows = rows.join(broadcast_if_few(keys, number).alias("k"), same_key(context.target), "left_anti")
    return observed.on(rows, F.count(F.lit(1)).alias("rows")), observed
