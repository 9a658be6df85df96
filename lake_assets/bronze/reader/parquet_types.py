"""Parquet columns: which Spark type each is read as, and what the values then mean.

The types are those that the file log holds of a file's footer, under Arrow's names. A file is read with them and never
with types that Spark infers: for one column of TIME (milliseconds) or of a timestamp in nanoseconds Spark refuses the
whole file. Here: that mapping. Not here: the types of lake.yaml (`values.py`), footers (`bronze/files/inspect.py`).

Arrow's names give the physical unit (seen: a column of seconds is written, and named, in milliseconds); only Spark's
and Hive's old INT96 timestamps are named by their physical type.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from lake_assets.bronze.files.inspect import INT96
from lake_assets.bronze.reader.values import after_epoch, exactly

READ_OPTIONS = {
    # DMS writes dates of the Gregorian calendar, also before 1582. Left to itself, Spark may refuse such a file or
    # shift its dates.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "mergeSchema": "false",
}

_TYPES: dict[str, DataType] = {
    "bool": BooleanType(),
    "int8": ByteType(),
    "int16": ShortType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "uint8": ShortType(),
    "uint16": IntegerType(),
    "uint32": LongType(),
    "uint64": DecimalType(20, 0),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "large_string": StringType(),
    "string_view": StringType(),
    "extension<arrow.json>": StringType(),
    "binary": BinaryType(),
    "large_binary": BinaryType(),
    "binary_view": BinaryType(),
    "extension<arrow.uuid>": BinaryType(),
    "date32[day]": DateType(),
    "time32[ms]": IntegerType(),
    "time64[us]": LongType(),
    "time64[ns]": LongType(),
    INT96: TimestampType(),
    "null": IntegerType(),
}
_DECIMAL = re.compile(r"decimal\d+\((\d+), (\d+)\)")
_TIMESTAMP = re.compile(r"timestamp\[(ms|us|ns)(, tz=[^\]]+)?\]")
_DICTIONARY = re.compile(r"dictionary<values=([^<>]+), indices=\w+, ordered=\d>")
_TIME_UNITS = {"time32[ms]": 1_000, "time64[us]": 1_000_000, "time64[ns]": 1_000_000_000}
"""A column's units in a second."""
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class ParquetColumn:
    """One column of a Parquet file."""

    name: str
    arrow: str
    """Arrow's name of its type, or `int96`."""


def parquet_columns(logged: Sequence[str]) -> tuple[ParquetColumn, ...]:
    """A file's columns from the file log's `name:type` entries. Either part may contain colons."""
    return tuple(_column(entry) for entry in logged)


def _column(entry: str) -> ParquetColumn:
    for colon in (match.start() for match in re.finditer(":", entry)):
        if read_type(entry[colon + 1 :]) is not None:
            return ParquetColumn(entry[:colon], entry[colon + 1 :])
    name, _, arrow = entry.partition(":")
    return ParquetColumn(name, arrow)


def read_type(arrow: str) -> DataType | None:
    """The Spark type to read a column of this Arrow type as; None for one that no column of lake.yaml can be."""
    if (match := _DICTIONARY.fullmatch(arrow)) is not None:
        return read_type(match[1])
    if (match := _DECIMAL.fullmatch(arrow)) is not None:
        precision, scale = int(match[1]), int(match[2])
        return DecimalType(precision, scale) if precision <= 38 else None
    if (match := _TIMESTAMP.fullmatch(arrow)) is not None:
        if match[1] == "ns":
            return LongType()
        return TimestampNTZType() if match[2] is None else TimestampType()
    if arrow.startswith("fixed_size_binary["):
        return BinaryType()
    return _TYPES.get(arrow)


def read_schema(columns: Sequence[ParquetColumn]) -> StructType:
    """The schema to read a file with. Every type must have a `read_type`."""
    fields = []
    for column in columns:
        kind = read_type(column.arrow)
        assert kind is not None, f"{column.name}: {column.arrow} was to be refused before"
        fields.append(StructField(column.name, kind))
    return StructType(fields)


def from_parquet(value: Column, arrow: str, declared: str, zone: str) -> Column:
    """`value`, read as the `read_type` of `arrow`, as the type `declared`, as `exactly` does; NULL where that would
    change it."""
    if (match := _DICTIONARY.fullmatch(arrow)) is not None:
        return from_parquet(value, match[1], declared, zone)
    if arrow == "null":
        return exactly(value.cast("string"), StringType(), declared, zone)
    if arrow in _TIME_UNITS:
        return exactly(_time_text(value.cast("bigint"), arrow), StringType(), declared, zone)
    if (match := _TIMESTAMP.fullmatch(arrow)) is not None and match[1] == "ns":
        return _from_nanos(value, adjusted=match[2] is not None, declared=declared, zone=zone)
    kind = read_type(arrow)
    assert kind is not None, f"{arrow} was to be refused before"
    return exactly(value, kind, declared, zone)


def _micros(nanos: Column) -> Column:
    """Rounded down. In decimals: a division of integers is one of doubles, which lose the last digits."""
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


def _from_nanos(value: Column, *, adjusted: bool, declared: str, zone: str) -> Column:
    if adjusted:
        converted = exactly(F.timestamp_micros(_micros(value)), TimestampType(), declared, zone)
    else:
        converted = exactly(after_epoch(_micros(value)), TimestampNTZType(), declared, zone)
    return F.when(_whole_micros(value), converted)
