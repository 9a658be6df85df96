"""The types of lake.yaml as Arrow types with the same values."""

import re

import pyarrow as pa

from lake_assets.spark.types import STORED_AS_TEXT, stored_type

_TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
_OTHERS = {
    "int": ("int8", "int16", "uint8", "uint16"),
    "long": ("int8", "int16", "int32", "uint8", "uint16", "uint32"),
    "decimal(20, 0)": ("uint64",),
    # DMS marks every Parquet timestamp as UTC, whatever the source's column is.
    "timestamp": ("timestamp[ms]", "timestamp[ms, tz=UTC]", "timestamp[us, tz=UTC]"),
    "timestamptz": ("timestamp[ms, tz=UTC]",),
}
"""By a type of lake.yaml, further Arrow types whose values it holds as they are."""


def image_type(declared: str) -> pa.DataType:
    """The Arrow type of a declared type's values in silver."""
    if declared.startswith("decimal"):
        precision, scale = map(int, re.findall(r"\d+", declared))
        return pa.decimal128(precision, scale)
    return _TYPES[stored_type(declared)]


def has_same_values(arrow: str | None, declared: str) -> bool:
    """Whether a Parquet column of this Arrow type has values of the declared type, which a cast leaves as they are."""
    is_text = declared in STORED_AS_TEXT
    return not is_text and (arrow == str(image_type(declared)) or arrow in _OTHERS.get(declared, ()))
