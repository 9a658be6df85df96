"""Each change once, however often DMS delivered it.

A task that resumes after a failure may write changes again, into another file. For a table of current rows the last
event of a key decides and nothing is left to do; a log has to recognise the repetition: by DMS's own sequence, and by
the change's content, so that no two different changes are ever taken for one.

Here: that recognition. Not here: which batches can contain repetitions at all (`apply.py`). DataFrame API only.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.reader import SYNTHETIC_TAIL

IDENTITY = ("_sequence", "_op", "_commit_ts", "_image")


def each_once(changes: DataFrame) -> DataFrame:
    """The changes without repetitions. Rows that have no sequence of their own are all kept."""
    place = F.when(~_has_own_sequence(), F.struct("_file", "_row"))
    return changes.withColumn("_place", place).dropDuplicates([*IDENTITY, "_place"]).drop("_place")


def not_among(changes: DataFrame, applied: DataFrame) -> DataFrame:
    """The changes that are not among the applied ones (a DataFrame with the columns of IDENTITY)."""
    earlier = applied.filter(_has_own_sequence()).select(*(F.col(name).alias(f"{name}_") for name in IDENTITY))
    same = F.col("_sequence") == F.col("_sequence_")
    for name in IDENTITY[1:]:
        same = same & F.col(name).eqNullSafe(F.col(f"{name}_"))
    return changes.join(earlier, same, "left_anti")


def _has_own_sequence() -> Column:
    return (F.col("_sequence") != "") & ~F.col("_sequence").endswith(SYNTHETIC_TAIL)
