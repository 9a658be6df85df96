"""A batch of a small table, written by a commit that replaces all of its rows.

To mark deleted rows, Spark reads every data file, and each batch adds one: with forty files that takes longer than the
rest of a batch. Here: that commit's rows. Not here: which tables are small (`batch_context.py`), the new rows of the
batch's keys (`upsert.py`).
"""

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.reduce.key_states import broadcast_if_few
from lake_assets.silver.write.batch import REWRITE, Written
from lake_assets.silver.write.batch_context import BatchContext
from lake_assets.silver.write.commit import in_table_columns, on_branch, same_key
from lake_assets.spark.checkpoint import Observed
from lake_assets.spark.sql import Sql, quoted, sql
from lake_assets.words import many


def rewritten(context: BatchContext, current: Attempt, keys: DataFrame | Sql, written: Written) -> Written:
    """The same batch as a commit of the whole table: the images replace the rows of the keys. `keys` may be a list
    of literals if the table's key has one column."""
    assert written.images is not None, "the new rows of the keys"
    kept, observed = kept_rows(context, current, keys, written.keys)
    new = in_table_columns(written.images, context.target)
    return replace(
        written,
        strategy=REWRITE,
        reason=f"the table has {many(context.position.rows, 'row')}",
        # The new rows first: an event shows the first rows of its commit's file.
        images=new.union(in_table_columns(kept, context.target)),
        is_whole=True,
        kept=observed,
    )


def kept_rows(
    context: BatchContext, current: Attempt, keys: DataFrame | Sql, number: int
) -> tuple[DataFrame, Observed]:
    """The rows that have none of the `number` keys, and their number once they have been computed."""
    observed = Observed()
    rows = on_branch(context, current)
    if isinstance(keys, Sql):
        # `greatest` takes NULL for false. Iceberg does not know it, and so does not look for files that a NOT IN of so
        # many values would skip.
        column = quoted("t", context.target.key[0])
        rows = rows.filter(sql("NOT greatest({column} IN ({keys}), false)", column=column, keys=keys))
    else:
        rows = rows.join(broadcast_if_few(keys, number).alias("k"), same_key(context.target), "left_anti")
    return observed.on(rows, F.count(F.lit(1)).alias("rows")), observed
