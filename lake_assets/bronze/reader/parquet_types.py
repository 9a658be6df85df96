"""The conversion of Parquet columns, by the Spark types that they are read with.

Here: schemas to read with, and values as types of lake.yaml. Not here: which Spark type a column is read with
(`bronze/files/parquet_columns.py`), the types of lake.yaml (`casts.py`).
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructType, TimestampNTZType, TimestampType

from lake_assets.bronze.files.parquet_columns import DICTIONARY, TIMESTAMP, ParquetColumn, spark_name
from lake_assets.bronze.reader.casts import after_epoch, exactly
from lake_assets.local_times import LocalClock

READ_OPTIONS = {
    # DMS writes dates of the Gregorian calendar, also before 1582. By default, Spark may refuse such a file or shift
    # its dates.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "mergeSchema": "false",
}

_TIME_UNITS = {"time32[ms]": 1_000, "time64[us]": 1_000_000, "time64[ns]": 1_000_000_000}
"""The column's units per second."""
_DAY = 86_400


def read_type(arrow: str) -> DataType:
    """The Spark type to read a column of this Arrow type with. The type must have a `spark_name`."""
    return read_schema([ParquetColumn("value", arrow)]).fields[0].dataType


def read_schema(columns: Sequence[ParquetColumn]) -> StructType:
    """The schema to read a file with. Every type must have a `spark_name`."""
    names = {column.name: spark_name(column.arrow) for column in columns}
    assert None not in names.values(), f"{names} were to be refused before"
    fields: list[dict[str, Any]] = [
        {"name": column.name, "type": spark_name(column.arrow), "nullable": True, "metadata": {}}
        for column in columns
    ]
    return StructType.fromJson({"type": "struct", "fields": fields})


def from_parquet(value: Column, arrow: str, declared: str, clock: LocalClock) -> Column:
    """`value`, read with the `read_type` of `arrow`, as the type `declared`, like `exactly`; NULL where that would
    change it."""
    if (match := DICTIONARY.fullmatch(arrow)) is not None:
        return from_parquet(value, match[1], declared, clock)
    if arrow == "null":
        return exactly(value.cast("string"), StringType(), declared, clock)
    if arrow in _TIME_UNITS:
        return exactly(_time_text(value.cast("bigint"), arrow), StringType(), declared, clock)
    if (match := TIMESTAMP.fullmatch(arrow)) is not None and match[1] == "ns":
        return _from_nanos(value, adjusted=match[2] is not None, declared=declared, clock=clock)
    return exactly(value, read_type(arrow), declared, clock)


def _micros(nanos: Column) -> Column:
    """Rounded down. Computed in decimals: a division of integers uses doubles, which lose the last digits."""
    return F.floor(nanos.cast("decimal(20, 0)") / 1000).cast("bigint")


def _whole_micros(nanos: Column) -> Column:
    return F.pmod(nanos, F.lit(1000)) == 0


def _time_text(value: Column, arrow: str) -> Column:
    micros, exact = value, F.lit(True)
    if arrow == "time32[ms]":
        micros = value * 1000
    elif arrow == "time64[ns]":
        micros, exact = _micros(value), _whole_micros(value)
    in_the_day = exact & (value >= 0) & (value < _DAY * _TIME_UNITS[arrow])
    return F.when(in_the_day, F.substring(after_epoch(micros).cast("string"), 12, 15))


def _from_nanos(value: Column, *, adjusted: bool, declared: str, clock: LocalClock) -> Column:
    if adjusted:
        converted = exactly(F.timestamp_micros(_micros(value)), TimestampType(), declared, clock)
    else:
        converted = exactly(after_epoch(_micros(value)), TimestampNTZType(), declared, clock)
    return F.when(_whole_micros(value), converted)
