"""Findings of a table's newest turn, or of a source's newest scan, that no other table of the lake records: the
Iceberg table `lake_ops.findings`.

Here: the newest finding of each kind and subject. Not here: what is found (`silver/apply/failures.py`,
`bronze/scan/strays.py`). If the table is dropped, the next turn and the next scan record their findings again.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog

from lake_assets.iceberg.ops_table import OpsTable, Row, ops_schema

NAME = "findings"
_SCHEMA = ops_schema(
    kind="string not null",
    subject="string not null",
    said="string not null",
    at="timestamptz not null",
    number="long not null",
)


@dataclass(frozen=True, slots=True)
class Finding:
    """The newest finding of its kind and subject."""

    content: Mapping[str, Any]
    """Plain JSON; empty once the finding is resolved."""
    at: datetime
    """Since when the content holds, UTC."""
    number: int = 0


_Known = Mapping[tuple[str, str], Finding]


class Findings:
    """The findings of one catalog. Threads and processes may share it."""

    def __init__(self, catalog: Catalog) -> None:
        self._table = OpsTable(catalog, NAME, _SCHEMA, _known)

    def of(self, kind: str) -> dict[str, Finding]:
        """The unresolved findings of the kind, by subject."""
        known = self._table.parsed()
        return {
            subject: finding for (its, subject), finding in known.items() if its == kind and finding.content
        }

    def forget(self, subject: str) -> None:
        """Removes what is found of the subject. Raises as `OpsTable.forget`."""
        self._table.forget("subject", subject)

    def note(self, kind: str, subject: str, content: Mapping[str, Any]) -> None:
        """Records the content if it differs from the newest one; empty content resolves the finding. Raises as
        `OpsTable.append`."""
        now = datetime.now(UTC)

        def new(known: _Known) -> Sequence[Row]:
            before = known.get((kind, subject))
            if dict(before.content if before else {}) == dict(content):
                return []
            number = max((finding.number for finding in known.values()), default=0) + 1
            return [
                {"kind": kind, "subject": subject, "said": json.dumps(content), "at": now, "number": number}
            ]

        self._table.append(new)


def newest(rows: pa.Table) -> pa.Table:
    """The rows of the table without those that a newer one of the same kind and subject has replaced."""
    rows = rows.sort_by("number")
    subjects = zip(rows["kind"].to_pylist(), rows["subject"].to_pylist(), strict=True)
    return rows.take(list({subject: place for place, subject in enumerate(subjects)}.values()))


def _known(rows: Sequence[Row]) -> _Known:
    return {
        (row["kind"], row["subject"]): Finding(
            json.loads(row["said"]), row["at"].astimezone(UTC), int(row["number"])
        )
        for row in sorted(rows, key=lambda row: int(row["number"]))
    }
