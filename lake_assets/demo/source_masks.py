"""The source's rows as a lake with masks should have them.

Here: masking in plain Python, by the definition of HMAC-SHA256. It uses no code of the lake: see `compare.py`.
"""

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lake_assets.demo.source.bike_schema import SourceTable

Values = tuple[Any, ...]


@dataclass(frozen=True)
class SourceMasks:
    """The masks of the source's tables."""

    by_table: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By table and column: hash, redact or null."""
    salt: str = field(default="", repr=False)

    def applied(self, table: SourceTable, rows: Iterable[Values]) -> list[Values]:
        """The rows with masked values; each is in the order of the table's columns."""
        masks = self.by_table.get(table.name, {})
        if not masks:
            return list(rows)
        kinds = [masks.get(column) for column in table.column_names]
        return [
            tuple(self._value(value, kind) for value, kind in zip(row, kinds, strict=True)) for row in rows
        ]

    def _value(self, value: Any, kind: str | None) -> Any:
        if value is None or kind is None:
            return value
        if kind == "hash":
            return hmac.new(self.salt.encode(), str(value).encode(), "sha256").hexdigest()
        return "***" if kind == "redact" else None


NO_MASKS = SourceMasks()
