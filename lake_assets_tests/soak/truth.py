"""The expected rows of silver, given the objects in the bucket.

Here: the source's rows as of the last change that the bucket has without a gap; the rows of a log. Not here: reading
silver (`run.py`). Shares no code with the package.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lake_assets_tests.soak.source import COLUMNS
from lake_assets_tests.soak.writer import Object, Written

Rows = list[dict[str, Any]]


@dataclass
class Bucket:
    """The objects that have arrived."""

    written: Written
    objects: dict[str, Object] = field(default_factory=dict)

    def put(self, found: Object) -> None:
        self.objects[found.key] = found

    @property
    def load(self) -> int | None:
        """The newest full load with a part in the bucket."""
        return max((o.load for o in self.objects.values() if o.load is not None), default=None)

    @property
    def whole(self) -> bool:
        """Whether all its parts have arrived."""
        if self.load is None:
            return not self.written.loads
        return all(self.objects.get(part.key) is part for part in self.written.loads[self.load].parts)

    @property
    def changes(self) -> list[Object]:
        """Files that the newest full load does not supersede."""
        began = self.written.loads[self.load].began if self.load is not None else None
        files = (o for o in self.objects.values() if o.load is None)
        return [file for file in files if began is None or file.written >= began]


def current(bucket: Bucket) -> Rows | None:
    """The rows of a table with a key; None if they are ambiguous."""
    written = bucket.written
    if not bucket.whole:
        return None
    start = written.cut(bucket.load)
    covered = {number for file in bucket.changes for number in file.numbers}
    reached = start + len(covered)
    read = written.loads[bucket.load].read if bucket.load is not None else 0
    if covered == set(range(start, reached)) and reached >= read:
        return written.source.states[reached]
    # Files are missing, or the full load has read rows as changes left them that are not there yet: a row that came and
    # went within one transaction may be any of several.
    return None


def loaded(bucket: Bucket) -> list[Mapping[str, Any]]:
    """The rows of those parts of the newest full load that have arrived."""
    return [
        row
        for found in bucket.objects.values()
        if found.load is not None and found.load == bucket.load
        for row in found.file.rows
    ]


def append_log(bucket: Bucket) -> Rows | None:
    """Every row that was loaded or inserted."""
    if not bucket.whole:
        return None
    rows = [{name: row[name] for name in COLUMNS} for row in loaded(bucket)]
    changes = bucket.written.source.changes
    numbers = {number for file in bucket.changes for number in file.numbers}
    return rows + [{name: changes[number].image[name] for name in COLUMNS} for number in sorted(numbers)]


def change_log(bucket: Bucket) -> Rows:
    """Every change in any file in the bucket; and the rows of the full load if there is only one."""
    changes = bucket.written.source.changes
    sequenced = {n: file.sequenced for file in bucket.objects.values() for n in file.numbers}
    rows = [
        {
            "_op": changes[number].op,
            "_commit_ts": changes[number].commit_ts,
            "_sequence": changes[number].sequence if own else _made_up(changes[number].commit_ts),
            **changes[number].image,
        }
        for number, own in sorted(sequenced.items())
    ]
    if len(bucket.written.loads) < 2:
        rows += [
            {"_op": "I", "_commit_ts": row["commit_ts"], "_sequence": ""} | {n: row[n] for n in COLUMNS}
            for row in loaded(bucket)
        ]
    return rows


def _made_up(commit_ts: datetime) -> str:
    """DMS's form, for a change without a sequence."""
    return f"{commit_ts:%Y%m%d%H%M%S%f}"[:16] + "0" * 19


def canonical(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows as sorted texts that are equal only for equal values."""
    return sorted(repr({name: _plain(row[name]) for name in sorted(row)}) for row in rows)


def _plain(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


def digest(rows: Sequence[str]) -> str:
    """Of the whole table."""
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()
