"""Parquet columns: their types in the file log, and the Spark type to read each with.

The log stores a footer's types by Arrow's names. Where Spark reads a file, it is given these types and infers none: for
a single column of TIME (milliseconds) or of a timestamp in nanoseconds, Spark refuses the whole file. Here:
that mapping, by name. Pure. Not here: what the values mean (`bronze/reader/parquet_types.py`), footers (`inspect.py`).

Arrow's names state the physical unit (observed: a column of seconds is written, and named, in milliseconds); only the
old INT96 timestamps of Spark and Hive are named by their physical type.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

INT96 = "int96"
"""The file log's name of the type of an INT96 timestamp column."""

_TYPES: dict[str, str] = {
    "bool": "boolean",
    "int8": "byte",
    "int16": "short",
    "int32": "integer",
    "int64": "long",
    "uint8": "short",
    "uint16": "integer",
    "uint32": "long",
    "uint64": "decimal(20,0)",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "string_view": "string",
    "extension<arrow.json>": "string",
    "binary": "binary",
    "large_binary": "binary",
    "binary_view": "binary",
    "extension<arrow.uuid>": "binary",
    "date32[day]": "date",
    "time32[ms]": "integer",
    "time64[us]": "long",
    "time64[ns]": "long",
    INT96: "timestamp",
    "null": "integer",
}
_DECIMAL = re.compile(r"decimal\d+\((\d+), (\d+)\)")
TIMESTAMP = re.compile(r"timestamp\[(ms|us|ns)(, tz=[^\]]+)?\]")
DICTIONARY = re.compile(r"dictionary<values=([^<>]+), indices=\w+, ordered=\d>")


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
        if spark_name(entry[colon + 1 :]) is not None:
            return ParquetColumn(entry[:colon], entry[colon + 1 :])
    name, _, arrow = entry.partition(":")
    return ParquetColumn(name, arrow)


def spark_name(arrow: str) -> str | None:
    """The Spark type with which a column of this Arrow type is read, as a schema's JSON names it. None for a type that
    no column of lake.yaml can have."""
    if (match := DICTIONARY.fullmatch(arrow)) is not None:
        return spark_name(match[1])
    if (match := _DECIMAL.fullmatch(arrow)) is not None:
        return f"decimal({match[1]},{match[2]})" if int(match[1]) <= 38 else None
    if (match := TIMESTAMP.fullmatch(arrow)) is not None:
        if match[1] == "ns":
            return "long"
        return "timestamp_ntz" if match[2] is None else "timestamp"
    if arrow.startswith("fixed_size_binary["):
        return "binary"
    return _TYPES.get(arrow)
