"""Which column type holds every value of another.

Here: Iceberg's promotions, and the lake's name of an Arrow type. Pure.
"""

import re

_DECIMAL = re.compile(r"decimal\((\d+), (\d+)\)")
_PROMOTIONS = {("int", "long"), ("float", "double")}
_ARROW = {
    "bool": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "uint8": "int",
    "uint16": "int",
    "uint32": "long",
    "uint64": "decimal(20, 0)",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "string_view": "string",
    "extension<arrow.json>": "json",
    "extension<arrow.uuid>": "uuid",
    "int96": "timestamptz",
    "binary": "binary",
    "binary_view": "binary",
    "large_binary": "binary",
    "date32[day]": "date",
    "time32[s]": "time",
    "time32[ms]": "time",
    "time64[us]": "time",
    "time64[ns]": "time",
}


_READ_AS = {
    "boolean": ("int", "long", "string"),
    "int": ("boolean",),
    "long": ("boolean",),
    "timestamp": ("timestamptz", "date"),
    "timestamptz": ("timestamp", "date"),
    "json": ("string",),
    "uuid": ("string", "binary"),
}
"""By a type, further types of files whose values it may hold: a source has 0 and 1 for false and true, and writers mark
times as UTC or not."""


def widens(old: str, new: str) -> bool:
    """Whether Iceberg can promote a column from the type `old` to `new` without losing a value."""
    if (old, new) in _PROMOTIONS:
        return True
    before, after = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    return (
        before is not None and after is not None and before[2] == after[2] and int(after[1]) > int(before[1])
    )


def holds(wide: str, narrow: str) -> bool:
    """Whether every value of `narrow` is exactly a value of `wide`."""
    if wide == narrow or widens(narrow, wide):
        return True
    digits = {"int": 10, "long": 19}.get(narrow)
    if (of := _DECIMAL.fullmatch(narrow)) is not None:
        digits, scale = int(of[1]) - int(of[2]), int(of[2])
    elif digits is not None:
        scale = 0
    else:
        return (wide, narrow) in {("double", "int")}
    into = _DECIMAL.fullmatch(wide)
    return into is not None and int(into[2]) >= scale and int(into[1]) - int(into[2]) >= digits


def is_read_as(declared: str, kind: str) -> bool:
    """Whether a column of the type `declared` goes on with files that have it as `kind`. A value that does not fit
    makes a bad row. Any value has a text."""
    return holds(declared, kind) or declared == "string" or kind in _READ_AS.get(declared, ())


def lake_type(arrow: str) -> str | None:
    """The column type that holds an Arrow type (by its name) exactly; None for nested and other types."""
    if (dictionary := re.fullmatch(r"dictionary<values=([^<>]+), .*>", arrow)) is not None:
        return lake_type(dictionary[1])
    if arrow in _ARROW:
        return _ARROW[arrow]
    if (decimal := re.fullmatch(r"decimal(?:32|64|128|256)\((\d+), (\d+)\)", arrow)) is not None:
        return f"decimal({decimal[1]}, {decimal[2]})" if int(decimal[1]) <= 38 else None
    if (stamp := re.fullmatch(r"timestamp\[(?:s|ms|us|ns)(, tz=.*)?\]", arrow)) is not None:
        return "timestamptz" if stamp[1] else "timestamp"
    return None
