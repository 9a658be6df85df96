"""The file log in memory, as of one snapshot, and its update to the table's newest one.

Here: reading records and caching them. Not here: writing them (`file_log.py`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from pyiceberg.expressions import BooleanExpression
from pyiceberg.table import Table

from lake_assets.bronze.log.known import Known
from lake_assets.bronze.log.log_record import LoggedFile, Owner, above, from_arrow, of_nobody
from lake_assets.iceberg.file_io.table_rows import rows

_offset = attrgetter("offset")
FIRST_OFFSET = "lake.first-offset"
"""Table property of a log that was rebuilt: its first offset."""


def scan(
    table: Table, owner: Owner = of_nobody, wanted: BooleanExpression | None = None
) -> Iterator[LoggedFile]:
    """All records, or those that match, by offset. Raises FileNotFoundError if maintenance deleted a file meanwhile."""
    found = rows(table.scan()) if wanted is None else table.scan(row_filter=wanted).to_arrow()
    return from_arrow(found, owner)


@dataclass(frozen=True, slots=True)
class LogReading:
    """One source's part of the log at one moment, which a scan reads before it lists: later records may be newer than
    the listing."""

    head: int
    """The highest offset."""
    newest: Mapping[str, LoggedFile]
    """By key, the last record of each file."""
    shares: Mapping[str, Mapping[str, LoggedFile]]
    """By place of a transaction file and by stream, the records of the file's newest version."""
    vanished: Mapping[tuple[str, str], int]
    """By stream, the offset of the newest record of vanished files: all files before it are gone."""
    added: Sequence[LoggedFile]
    """The records above the offset that the caller had read up to, as tables see them."""


class LogView:
    """The records of the log in memory, as of one snapshot."""

    def __init__(self, table: Table | None = None, owner: Owner = of_nobody) -> None:
        self._owner = owner
        self._table_uuid = table.metadata.table_uuid if table is not None else None
        self._before = int(table.properties.get(FIRST_OFFSET, "1")) - 1 if table is not None else 0
        self._snapshot_id: int | None = None
        self._records: list[LoggedFile] = []
        self._known: dict[str, Known] = {}
        self.is_loaded = False

    @property
    def head(self) -> int:
        return self._records[-1].offset if self._records else self._before

    def known(self, source: str) -> Known:
        return self._known.get(source) or Known()

    def of(self, source: str) -> Iterator[LoggedFile]:
        """The records of a source, by offset."""
        return (record for record in self._records if record.source == source)

    def between(self, after: int, upto: int | None) -> list[LoggedFile]:
        end = len(self._records) if upto is None else bisect_right(self._records, upto, key=_offset)
        return self._records[bisect_right(self._records, after, key=_offset) : end]

    def holds(self, record: LoggedFile) -> bool:
        return record in self._records[bisect_left(self._records, record.offset, key=_offset) :][:1]

    def appended(self, records: Sequence[LoggedFile], table: Table) -> None:
        """Adds the records that this process has just committed, without reading them again."""
        snapshot = table.current_snapshot()
        self._extend(records)
        if snapshot and snapshot.parent_snapshot_id == self._snapshot_id:
            self._snapshot_id = snapshot.snapshot_id

    def _extend(self, records: Sequence[LoggedFile]) -> None:
        for record in records:
            self._known.setdefault(record.source, Known()).add(record)
        self._records.extend(records)

    def brought_up_to(self, table: Table) -> "LogView":
        """This view with the records added since, or a new view if the table was replaced or rolled back."""
        snapshot = table.current_snapshot()
        view = self if table.metadata.table_uuid == self._table_uuid else LogView(table, self._owner)
        if snapshot is None or snapshot.snapshot_id == view._snapshot_id:
            view = view if snapshot else LogView(table, self._owner)
            view.is_loaded = True
            return view
        # The newest known record is read again: it differs if the log was rolled back, however many records were
        # appended since.
        newest = view._records[-1:]
        read = list(scan(table, self._owner, above(view.head - 1) if newest else None))
        added = read[len(newest) :]
        total = snapshot.summary and snapshot.summary["total-records"]
        if newest and (read[:1] != newest or total != str(len(view._records) + len(added))):
            return LogView(table, self._owner).brought_up_to(table)
        view._extend(added)
        view._snapshot_id, view.is_loaded = snapshot.snapshot_id, True
        return view
