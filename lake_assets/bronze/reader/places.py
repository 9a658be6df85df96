"""The place of a row in its file, as a number that does not depend on what else was read with it.

`_row` rises with the line and has gaps; the place is the row's rank by it, from 0. Here: finding places, and rows by
them. It needs a sort of the file's rows, so it is for the few files that have something to be
named. DataFrame API only.
"""

import re
from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F


def plain(address: str) -> str:
    """An unescaped address in one form: Spark's readers write the scheme with one slash or with three."""
    return re.sub(r"^(\w+):/+", r"\1:/", address)


def placed(changes: DataFrame) -> DataFrame:
    """`changes` as the reader returns them, with `_place` long, if they do not have it."""
    if "_place" in changes.columns:
        return changes
    rank = F.row_number().over(Window.partitionBy("_file").orderBy("_row"))
    return changes.withColumn("_place", (rank - 1).cast("bigint"))


def in_places(
    spark: SparkSession, changes: DataFrame, wanted: Mapping[str, Collection[int]], *, others: bool = False
) -> DataFrame:
    """`placed` changes: of each file, by its address, nothing but the rows at those places; with `others`, all but
    them."""
    pairs = [(plain(address), place) for address, places in wanted.items() for place in sorted(places)]
    chosen = F.broadcast(spark.createDataFrame(pairs, "_address string, _place bigint"))
    decoded = F.url_decode(F.regexp_replace("_file", r"\+", "%2B"))
    listed = placed(changes).withColumn("_address", F.regexp_replace(decoded, r"^(\w+):/+", "$1:/"))
    kind = "left_anti" if others else "left_semi"
    return listed.join(chosen, on=["_address", "_place"], how=kind).drop("_address")
