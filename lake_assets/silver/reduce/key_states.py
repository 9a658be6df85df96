"""States of keys: `_key_0`…, `_tombstone`, `_image`.

Here: their rows and keys, and a row of the table in their form. Not here: computing them (`key_moves.py`,
`silver/reconcile/expected_rows.py`).
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import quoted

MOST_BROADCAST_KEYS = 1_000_000


def living(states: DataFrame) -> DataFrame:
    """The rows of the states that have one, in the table's columns."""
    return states.filter(~F.col("_tombstone")).select("_image.*")


def broadcast_if_few(keys: DataFrame, count: int) -> DataFrame:
    """The keys, marked for a broadcast join unless they are too many."""
    return F.broadcast(keys) if count <= MOST_BROADCAST_KEYS else keys


def table_image(target: Target) -> Column:
    """The struct of the source's columns of a silver row, in the form that changes have."""
    return F.struct(*(F.col(quoted(column.name)) for column in target.image_columns))


def same_key(target: Target) -> Column:
    """Whether a state `k` and a row `t` have the same key."""
    return F.expr(target.key_matches("k", "t"))
