"""One value of a DMS file as a value of its declared type: exactly, or not at all.

Here: what text and Parquet values mean under the types of lake.yaml. Not here: null tokens, rows, files (`reader.py`).

The answer is NULL for a value that the type cannot hold as it is. Spark's own casts are too kind: they round a
decimal, cut the time off a date and the zone off a timestamp, and take `10:00:00` for ten o'clock of today.
"""

import re

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, TimestampNTZType

from lake_assets.spark.types import spark_type

_DAY = r"[+-]?\d{4,6}-\d{1,2}-\d{1,2}"
# Iceberg keeps microseconds: more digits must be zeros.
_WALL_CLOCK = rf"^{_DAY}[ T]\d{{1,2}}:\d{{1,2}}:\d{{1,2}}(\.\d{{0,6}}0*)?"
_ZONE = r" ?(Z|UTC|[+-]\d{2}(:?\d{2})?)"
_MIDNIGHT = r"([ T]00:00:00(\.0*)?)?"


def exactly(value: Column, found: DataType, declared: str, zone: str) -> Column:
    """`value`, of Spark's type `found`, as the Iceberg type `declared`; NULL where that would change it.

    Wall-clock times of a `timestamptz` are in `zone`.
    """
    if isinstance(found, StringType):
        return _from_text(value, declared, zone)
    if isinstance(found, TimestampNTZType) and declared == "timestamptz":
        return instant(value.cast("string"), zone)
    target = spark_type(declared)
    if found.simpleString() == target.replace(" ", ""):
        return value
    converted = value.try_cast(target)
    return F.when(converted.try_cast(found).eqNullSafe(value), converted)


def instant(text: Column, zone: str) -> Column:
    """A timestamp's text as an instant. Its own zone counts; without one it is a wall-clock time in `zone`."""
    zoned = F.when(text.rlike(f"{_WALL_CLOCK}$"), F.concat(text, F.lit(f" {zone}")))
    return zoned.when(text.rlike(f"{_WALL_CLOCK}{_ZONE}$"), text).try_cast("timestamp")


def _from_text(text: Column, declared: str, zone: str) -> Column:
    if declared == "timestamptz":
        return instant(text, zone)
    target = spark_type(declared)
    if declared == "timestamp":
        return F.when(text.rlike(f"{_WALL_CLOCK}$"), text).try_cast(target)
    if declared == "date":
        return F.when(text.rlike(f"^{_DAY}{_MIDNIGHT}$"), text).try_cast(target)
    if declared == "binary":
        # DMS writes binary columns to CSV as hexadecimal digits, two a byte.
        return F.try_to_binary(F.when(text.rlike("^([0-9A-Fa-f]{2})*$"), text), F.lit("hex"))
    if (decimal := re.fullmatch(r"decimal\(\d+, (\d+)\)", declared)) is not None:
        return _decimal(text, target, int(decimal[1]))
    return text.try_cast(target)


def _decimal(text: Column, target: str, scale: int) -> Column:
    value = text.try_cast(target)
    plain = text.rlike(rf"^\s*[+-]?\d*\.?\d{{0,{scale}}}0*\s*$")
    scientific = text.rlike("[eE]") & (value.cast("double") == text.try_cast("double"))
    return F.when(plain | scientific, value)
