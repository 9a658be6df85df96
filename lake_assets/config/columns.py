"""A column of a table's contract, the masks of silver's columns, and the partition transforms of a column.

Here: their declarations in lake.yaml. Not here: the table (`tables.py`), the Spark type (`spark/types.py`), masking a
value (`silver/changes/in_silver.py`).
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SecretStr, WithJsonSchema, field_validator, model_validator

from lake_assets.config.base import UNDECIDED, Mistake, Model, did_you_mean

_TYPE = re.compile(
    r"^(boolean|int|long|float|double|date|time|timestamp|timestamptz|string|binary|uuid|json"
    r"|decimal\(\s*(?P<precision>\d+)\s*,\s*(?P<scale>\d+)\s*\))$"
)
_PARTITION = re.compile(
    r"(?P<time>day|month|year|hour)\((?P<of>\w+)\)|(?P<counted>bucket|truncate)\([1-9]\d*,\s*(?P<by>\w+)\)|(?P<same>\w+)"
)
_TIMESTAMPS = ("timestamp", "timestamptz")
_DATES = (*_TIMESTAMPS, "date")
_TRUNCATED = ("int", "long", "decimal", "string", "binary", "uuid", "json", "time")
# No double: Spark sorts 0.0 and -0.0 as equal, and Iceberg takes them as two partitions and refuses to go back to one.
_PARTITIONED = {
    "hour": _TIMESTAMPS,
    "day": _DATES,
    "month": _DATES,
    "year": _DATES,
    "truncate": _TRUNCATED,
    "bucket": (*_TRUNCATED, *_DATES),
    "identity": (*_TRUNCATED, *_DATES, "boolean"),
}
"""The types of columns that each partition transform takes."""


class Column(Model):
    """One source column: its Iceberg type name and whether the source declares it NOT NULL."""

    name: str = Field(min_length=1)
    type: str
    required: bool = False

    @model_validator(mode="before")
    @classmethod
    def _declared(cls, value: Any) -> Any:
        return parse_column(*value).model_dump() if isinstance(value, tuple) else value


def parse_column(name: str, declaration: Any) -> Column:
    """`"decimal(10, 2) not null"` as a Column. Raises ValueError for a type that silver does not have."""
    text = re.sub(r"\s+", " ", str(declaration).strip().lower())
    required = text.endswith(" not null")
    type_name = text.removesuffix(" not null").strip()
    if type_name == UNDECIDED:
        raise ValueError("is undecided: declare its type")
    match = _TYPE.match(type_name)
    if match is None:
        raise ValueError(
            f"{declaration!r} is not a type; use boolean, int, long, float, double, decimal(p, s), "
            "date, time, timestamp, timestamptz, string, binary, uuid or json, optionally followed by 'not null'"
        )
    if match["precision"] is not None:
        precision, scale = int(match["precision"]), int(match["scale"])
        if not 1 <= precision <= 38 or scale > precision:
            raise ValueError(f"{declaration!r} needs 1 to 38 digits and no more decimals than digits")
        type_name = f"decimal({precision}, {scale})"
    return Column(name=name, type=type_name, required=required)


class Mask(StrEnum):
    """What silver has instead of a column's values. NULL stays NULL."""

    HASH = "hash"
    """HMAC-SHA256 of the text with the salt, as 64 hexadecimal digits: equal values have equal hashes."""
    REDACT = "redact"
    """The text `***`."""
    NULL = "null"


REDACTED = "***"

SHORTEST_SALT = 16


class MaskingConfig(Model):
    salt: SecretStr | None = None
    """The key of all hashes, such as `${LAKE_MASK_SALT}`. Whoever has it can find the value of a hash by trying."""

    @field_validator("salt")
    @classmethod
    def _long_enough(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and len(value.get_secret_value()) < SHORTEST_SALT:
            raise ValueError(f"is shorter than {SHORTEST_SALT} characters, which can be found by trying")
        return value


def _null_by_name(value: Any) -> Any:
    """The mask `null` is None in the parsed YAML."""
    if not isinstance(value, dict):
        return value
    return {name: Mask.NULL if mask is None else mask for name, mask in value.items()}


Masks = Annotated[
    dict[str, Mask],
    BeforeValidator(_null_by_name),
    WithJsonSchema(
        {"type": "object", "additionalProperties": {"enum": [*(mask.value for mask in Mask), None]}}
    ),
]
"""By column, its mask."""


def mask_mistakes(
    masks: Mapping[str, Mask],
    columns: Sequence[Column],
    matched: Collection[str],
    defaults: Collection[str],
) -> Iterator[Mistake]:
    """The mistakes in a table's masks. `matched`: the columns by which a change finds its row."""
    known = {column.name: column for column in columns}
    for name, mask in masks.items():
        if (column := known.get(name)) is None:
            yield (name,), f"is not a column{did_you_mean(name, known)}"
            continue
        if name in matched and mask is not Mask.HASH:
            yield (
                (name,),
                f"is {mask}, and changes find their rows by this column: only hash keeps its values apart",
            )
        elif mask is Mask.NULL and column.required:
            yield (name,), "is null, and the column is NOT NULL: remove `not null`, or use redact or hash"
        elif mask is not Mask.NULL and column.type != "string":
            yield (
                (name,),
                f"is {mask}, which gives a text, and the column is of type {column.type}: declare it as string, "
                "whatever its type in the source",
            )
        if name in defaults:
            yield (
                (name,),
                "is masked, and defaults has a value for it, which would not be: remove one of them",
            )


def _by_name(value: Any) -> Any:
    if value == UNDECIDED:
        raise ValueError(
            "is undecided: an endpoint does not describe columns and types; write them by hand, or have "
            "`lake-assets init --from-database` read them from the source"
        )
    return tuple(value.items()) if isinstance(value, dict) else value


Columns = Annotated[
    tuple[Column, ...],
    Field(min_length=1),
    BeforeValidator(_by_name),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1}),
]
"""The columns of a file or a table, in the source's order; in lake.yaml `name: declaration`."""


FROM_DATABASE = "from_database"
"""What lake.yaml says instead of a table's columns if the source database has them."""


def _by_name_or_open(value: Any) -> Any:
    if value == FROM_DATABASE:
        return ()
    if isinstance(value, str) and value != UNDECIDED:
        raise ValueError(f"must be the columns by name, or {FROM_DATABASE}")
    if value == {}:
        raise ValueError(f"names no column: declare them, or write {FROM_DATABASE}")
    return _by_name(value)


TableColumns = Annotated[
    tuple[Column, ...],
    BeforeValidator(_by_name_or_open),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": FROM_DATABASE},
                {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
            ]
        }
    ),
]
"""The columns of a table; none if they are those of the source database, until it has been read."""


def partition_mistake(entry: str, types: dict[str, str]) -> str | None:
    """The mistake in an entry of partition_by, by the Iceberg spec's table of transforms and source types."""
    if (match := _PARTITION.fullmatch(entry)) is None:
        cut = "; quote one with a comma" if entry.count("(") != entry.count(")") else ""
        return f"{entry!r} is not a partition transform such as day(started_at) or bucket(16, id){cut}"
    column = match["of"] or match["by"] or match["same"]
    if column not in types:
        return f"{entry} names {column}, which columns does not have{did_you_mean(column, types)}"
    allowed = _PARTITIONED[match["time"] or match["counted"] or "identity"]
    if types[column].partition("(")[0] not in allowed:
        return (
            f"{entry} needs a column of type {' or '.join(allowed)}, and {column} is of type {types[column]}"
        )
    return None
