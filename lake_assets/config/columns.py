"""A column of a table's contract.

Here: its declaration in lake.yaml. Not here: the table (`tables.py`), or the Spark type (`spark/types.py`).
"""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from lake_assets.config.base import UNDECIDED, Model

_TYPE = re.compile(
    r"^(boolean|int|long|float|double|date|time|timestamp|timestamptz|string|binary|uuid|json"
    r"|decimal\(\s*(?P<precision>\d+)\s*,\s*(?P<scale>\d+)\s*\))$"
)


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
