"""The place of a row in its file, a number that does not depend on the other files of the read.

`_row` rises with the line and has gaps; the place is the row's rank by `_row`, from 0. Here: finding places, and rows
by place. This sorts the file's rows, so it is for the few files with rows to report. DataFrame API only.
"""

import re
from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F


def plain(address: str) -> str:
    """An unescaped address in normal form: Spark's readers write the scheme with one slash or with three."""
    return re.sub(r"^(\w+):/+", r"\1:/", address)


def placed(changes: DataFrame) -> DataFrame:
    """`changes` of the reader, with `_place` long added if it is missing."""
    if "_place" in changes.columns:
        return changes
    rank = F.row_number().over(Window.partitionBy("_file").orderBy("_row"))
    return changes.withColumn("_place", (rank - 1).cast("bigint"))


def in_places(
    spark: SparkSession, changes: DataFrame, wanted: Mapping[str, Collection[int]], *, others: bool = False
) -> DataFrame:
    """`placed` changes: from each file, by its address, only the rows at the wanted places; with `others`, all rows
    except those."""
    pairs = [(plain(address), place) for address, places in wanted.items() for place in sorted(places)]
    chosen = F.broadcast(spark.createDataFrame(pairs, "_address string, _place bigint"))
    decoded = F.url_decode(F.regexp_replace("_file", r"\+", "%2B"))
    listed = placed(changes).withColumn("_address", F.regexp_replace(decoded, r"^(\w+):/+", "$1:/"))
    kind = "left_anti" if others else "left_semi"
    return listed.join(chosen, on=["_address", "_place"], how=kind).drop("_address")
