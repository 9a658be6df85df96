"""Rows by their file and place.

Here: addresses in one spelling, and the rows at some places. Not here: which rows (`silver/plan/parts.py`). DataFrame
API only.
"""

import re
from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def plain(address: str) -> str:
    """An unescaped address in normal form: Spark's readers write the scheme with one slash or with three."""
    return re.sub(r"^(\w+):/+", r"\1:/", address)


def in_places(
    spark: SparkSession, changes: DataFrame, wanted: Mapping[str, Collection[int]], *, others: bool = False
) -> DataFrame:
    """Changes: from each file, by its address, only the rows at the wanted places (`_row`); with `others`, all rows
    except those."""
    pairs = [(plain(address), place) for address, places in wanted.items() for place in sorted(places)]
    chosen = F.broadcast(spark.createDataFrame(pairs, "_address string, _row bigint"))
    decoded = F.url_decode(F.regexp_replace("_file", r"\+", "%2B"))
    listed = changes.withColumn("_address", F.regexp_replace(decoded, r"^(\w+):/+", "$1:/"))
    kind = "left_anti" if others else "left_semi"
    return listed.join(chosen, on=["_address", "_row"], how=kind).select(changes.columns)
