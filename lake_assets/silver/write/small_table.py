"""Tables so small that a batch rewrites them whole.

Marking deleted rows costs a look into every data file, and each batch adds one: with forty files it takes longer than
all the rest of a batch. Here: which tables, and what of them stays. Not here: the rows that take the others' place
(`upsert.py`).
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lake_assets.iceberg.publish import Attempt
from lake_assets.iceberg.table_io import current_snapshot, summary
from lake_assets.silver.write.batch_work import Work
from lake_assets.spark.checkpoint import Observed

MOST_ROWS = 200_000
"""Of the table, and keys of the batch. Rows that are all alike take next to no space, and time all the same; keys are
sent to every task, and what is rewritten is one file."""


def is_small(work: Work) -> bool:
    """Whether the batch rewrites the table. Not one with partitions: the marts' work lists come from those that a
    commit touches."""
    if work.target.partition_by or not 0 < work.position.rows <= MOST_ROWS:
        return False
    size = int(summary(current_snapshot(work.table)).get("total-files-size", "-1"))
    return 0 <= size < work.runtime.lake.automation.rewrite_below_mb * 2**20


def kept_rows(work: Work, current: Attempt, keys: DataFrame) -> tuple[DataFrame, Observed]:
    """The rows that have none of the keys, and how many they are once they have been computed."""
    observed = Observed()
    table = work.spark.table(current.address).alias("t")
    matches = F.expr(work.target.key_matches("k", "t"))
    rows = table.join(F.broadcast(keys.alias("k")), matches, "left_anti")
    return observed.on(rows, F.count(F.lit(1)).alias("rows")), observed
