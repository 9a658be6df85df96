"""How the source database stores a value: SQLite has no decimal, date, timestamp or boolean type.

Here: the conversions between a Python value and SQLite's. Not here: the value in a DMS file.

Decimals, dates and timestamps are text: `12.30`, `2026-03-01`, `2026-03-01 08:15:00.000000` (always UTC, always
microseconds, so text order is time order). Booleans are 0 and 1.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from lake_assets.demo.source.bike_schema import SourceTable

Stored = int | float | str | None
"""What SQLite returns for a column of the demo's tables."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def timestamp_text(value: datetime) -> str:
    """`yyyy-MM-dd HH:mm:ss.SSSSSS` in UTC."""
    return value.astimezone(UTC).isoformat(" ", "microseconds")[:26]


def from_microseconds(value: int) -> datetime:
    """Microseconds since 1970 as a UTC timestamp."""
    return EPOCH + timedelta(microseconds=value)


def to_microseconds(value: datetime) -> int:
    """A timestamp with a zone as whole microseconds since 1970 (integer arithmetic: a float would lose some)."""
    return (value - EPOCH) // timedelta(microseconds=1)


def _decimal_text(value: Decimal) -> str:
    return format(value, "f")


def _parse_timestamp(text: str) -> datetime:
    return datetime.fromisoformat(text + "+00:00")


_ENCODERS: dict[str, Callable[[Any], Stored]] = {
    "timestamptz": timestamp_text,
    "date": date.isoformat,
    "boolean": int,
}

_DECODERS: dict[str, Callable[[Any], Any]] = {
    "timestamptz": _parse_timestamp,
    "date": date.fromisoformat,
    "boolean": bool,
}


def encoder(type_name: str) -> Callable[[Any], Stored] | None:
    """The function from a Python value to the stored value of a column type; None if they are the same. The caller
    handles NULL."""
    if type_name.startswith("decimal("):
        return _decimal_text
    return _ENCODERS.get(type_name)


def decoder(type_name: str) -> Callable[[Any], Any] | None:
    """The function from a stored value to the Python value (timestamps in UTC) of a column type; None if they are the
    same."""
    if type_name.startswith("decimal("):
        return Decimal
    return _DECODERS.get(type_name)


class RowCodec:
    """Encodes and decodes whole rows of one table."""

    def __init__(self, table: SourceTable) -> None:
        self._names = table.column_names
        self._encoders = [encoder(column.type) for column in table.columns]
        self._decoders = [decoder(column.type) for column in table.columns]

    def encode(self, row: dict[str, Any]) -> tuple[Stored, ...]:
        """A row with its columns in source order, as SQLite stores it."""
        return tuple(
            value if encode is None or value is None else encode(value)
            for value, encode in zip(row.values(), self._encoders, strict=True)
        )

    def decode(self, stored: Sequence[Stored]) -> dict[str, Any]:
        """The inverse of `encode`."""
        return {
            name: value if decode is None or value is None else decode(value)
            for name, value, decode in zip(self._names, stored, self._decoders, strict=True)
        }
