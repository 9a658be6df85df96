"""What the newest turn of a table, or the newest look at a source, has met that no other table of the lake shows: the
Iceberg table `lake_ops.findings`.

Here: the newest finding of each kind and subject. Not here: what is found (`silver/apply/failures.py`,
`bronze/scan/strays.py`). A lake whose findings were dropped shows them again with the next turn and look.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from lake_assets.iceberg.ops_table import OpsTable, Row

NAME = "findings"
_SCHEMA = Schema(
    NestedField(1, "kind", StringType(), required=True),
    NestedField(2, "subject", StringType(), required=True),
    NestedField(3, "said", StringType(), required=True),
    NestedField(4, "at", TimestamptzType(), required=True),
    NestedField(5, "number", LongType(), required=True),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """The newest of its kind and subject."""

    said: Mapping[str, Any]
    """Plain JSON; empty once there is nothing to say any more."""
    at: datetime
    """Since when it says so, UTC."""
    number: int = 0


_Known = Mapping[tuple[str, str], Finding]


class Findings:
    """Of one catalog. May be shared between threads and processes."""

    def __init__(self, catalog: Catalog) -> None:
        self._table = OpsTable(catalog, NAME, _SCHEMA, _known)

    def of(self, kind: str) -> dict[str, Finding]:
        """What there is to say now, by subject."""
        known = self._table.parsed()
        return {subject: finding for (its, subject), finding in known.items() if its == kind and finding.said}

    def note(self, kind: str, subject: str, said: Mapping[str, Any]) -> None:
        """Records what is to be said from now on, if it is another than before; nothing takes the former back. Raises
        as `OpsTable.append`."""
        now = datetime.now(UTC)

        def new(known: _Known) -> Sequence[Row]:
            before = known.get((kind, subject))
            if dict(before.said if before else {}) == dict(said):
                return []
            number = max((finding.number for finding in known.values()), default=0) + 1
            return [{"kind": kind, "subject": subject, "said": json.dumps(said), "at": now, "number": number}]

        self._table.append(new)


def _known(rows: Sequence[Row]) -> _Known:
    return {
        (row["kind"], row["subject"]): Finding(
            json.loads(row["said"]), row["at"].astimezone(UTC), int(row["number"])
        )
        for row in sorted(rows, key=lambda row: int(row["number"]))
    }
