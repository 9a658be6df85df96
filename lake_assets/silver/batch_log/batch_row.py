"""A row of the batch log, made from the batch's commit.

Here: the columns, and reading the rows of the commits that a silver table still has. Not here: the log itself
(`batches_table.py`), the figures of a batch that is being applied (`silver/batch/result.py`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from lake_assets.iceberg.table_io import RESTAMP_OF, committed_at, live_rows, summary
from lake_assets.iceberg.upkeep.retention import snapshots_by_id
from lake_assets.silver.table.batch_latency import FIRST_COMMIT, FIRST_FILE, Passage
from lake_assets.silver.table.position import BATCH, EPOCH, LOG_OFFSET, MAX_COMMIT_TS

WRITE, PUBLISH = "write", "publish"
"""The stages that end with the commit and after it: no summary of the commit can have them."""


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A published batch of a silver table. Times are UTC."""

    table: str
    """The silver table's identifier."""
    table_uuid: str
    snapshot_id: int
    """The snapshot of its commit, which with `table_uuid` identifies the batch."""
    committed_at: datetime
    published_at: datetime | None
    """When its rows became readable; None if the table's metadata no longer says so."""
    kind: str
    strategy: str
    reason: str
    files: int
    bytes: int
    rows_read: int
    rows_inserted: int
    rows_updated: int
    rows_deleted: int
    rows_quarantined: int
    unmatched: int
    rows_behind_cut: int
    rows: int
    """Live rows of the table after the batch."""
    position: int
    epoch: int
    newest_commit: datetime | None
    """The newest source commit that the table had after the batch."""
    first_file_at: datetime | None
    first_commit_at: datetime | None
    lag_seconds: float | None
    """From `newest_commit` to when the rows became readable."""
    latency_seconds: float | None
    """From `first_file_at` to when the rows became readable."""
    seconds: float
    """From its beginning to its publish; of a commit that does not record its beginning, its stages to the commit."""
    run_id: str
    batch_id: str | None = None
    """The id that its log lines have; None for a batch of an earlier release."""
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds by stage."""
    number: int = 0
    """Its place in the log, from 1 on; 0 if it is not in the log yet."""

    @property
    def key(self) -> tuple[str, int]:
        """What identifies the batch."""
        return self.table_uuid, self.snapshot_id

    @property
    def shown_at(self) -> datetime:
        """When its rows became readable, as far as that is known."""
        return self.published_at or self.committed_at

    @property
    def passage(self) -> Passage | None:
        """The latency of its changes; None without CDC files."""
        if self.first_file_at is None:
            return None
        return Passage(self.first_file_at, self.shown_at, self.first_commit_at)

    def shown(self) -> dict[str, Any]:
        """The row as plain JSON; times as ISO 8601."""
        values = {name: getattr(self, name) for name in COLUMNS}
        return {
            name: value.isoformat(timespec="milliseconds") if isinstance(value, datetime) else value
            for name, value in values.items()
        }

    def stored(self) -> dict[str, Any]:
        """The row by the log's columns."""
        values = {name: getattr(self, name) for name in COLUMNS}
        return values | {"stages": json.dumps(dict(self.stages))}


COLUMNS = tuple(column.name for column in fields(BatchRow))


def from_stored(values: Sequence[Any]) -> BatchRow:
    """The row of the values of COLUMNS, in their order."""
    return BatchRow(
        *(
            json.loads(value) if name == "stages" else value
            for name, value in zip(COLUMNS, values, strict=True)
        )
    )


def committed_batches(table: Table) -> list[BatchRow]:
    """The published batches of which the table still has the commit, the oldest first: also those before a rollback of
    main, and none of attempts that lost."""
    found = list(_published(table))
    repeated = {
        summary(snapshot)[RESTAMP_OF]: snapshot
        for snapshot in found
        if summary(snapshot).get(RESTAMP_OF) == str(snapshot.parent_snapshot_id)
    }
    moved_at: dict[int, int] = {}
    for entry in table.metadata.snapshot_log:
        moved_at.setdefault(entry.snapshot_id, entry.timestamp_ms)
    rows = []
    for snapshot in found:
        given = summary(snapshot)
        if f"{BATCH}kind" not in given or RESTAMP_OF in given:
            continue
        # Published with the commit: it has the figures that were known only after the rows were written.
        again = repeated.get(str(snapshot.snapshot_id))
        if again is not None:
            given |= {name: value for name, value in summary(again).items() if name.startswith(BATCH)}
        heads = [snapshot.snapshot_id, *([again.snapshot_id] if again is not None else [])]
        moved = min((moved_at[head] for head in heads if head in moved_at), default=None)
        published = None if moved is None else datetime.fromtimestamp(moved / 1000, UTC)
        rows.append(_row(table, snapshot, given, published))
    return sorted(rows, key=lambda row: row.committed_at)


def _published(table: Table) -> Iterator[Snapshot]:
    """The snapshots that main has, or had before it was rolled back."""
    known, seen = snapshots_by_id(table), set[int]()
    heads = [
        table.metadata.current_snapshot_id,
        *(entry.snapshot_id for entry in table.metadata.snapshot_log),
    ]
    for head in heads:
        snapshot = known.get(head) if head is not None else None
        while snapshot is not None and snapshot.snapshot_id not in seen:
            seen.add(snapshot.snapshot_id)
            yield snapshot
            parent = snapshot.parent_snapshot_id
            snapshot = known.get(parent) if parent is not None else None


def _row(table: Table, snapshot: Snapshot, given: Mapping[str, str], published: datetime | None) -> BatchRow:
    def number(name: str) -> int:
        return int(given.get(f"{BATCH}{name}", "0"))

    committed = committed_at(snapshot)
    shown = published or committed
    newest, landed = _time(given, MAX_COMMIT_TS), _time(given, FIRST_FILE)
    seconds, stages = _seconds(given, committed, published)
    return BatchRow(
        table=".".join(table.name()),
        table_uuid=str(table.metadata.table_uuid),
        snapshot_id=snapshot.snapshot_id,
        committed_at=committed,
        published_at=published,
        kind=given[f"{BATCH}kind"],
        strategy=given.get(f"{BATCH}strategy", ""),
        reason=given.get(f"{BATCH}reason", ""),
        files=number("files"),
        bytes=number("bytes"),
        rows_read=number("rows-read"),
        rows_inserted=number("rows-inserted"),
        rows_updated=number("rows-updated"),
        rows_deleted=number("rows-deleted"),
        rows_quarantined=number("rows-quarantined"),
        unmatched=number("unmatched"),
        rows_behind_cut=number("rows-behind-cut"),
        rows=live_rows(given),
        position=int(given[LOG_OFFSET]),
        epoch=int(given[EPOCH]),
        newest_commit=newest,
        first_file_at=landed,
        first_commit_at=_time(given, FIRST_COMMIT),
        lag_seconds=_between(newest, shown),
        latency_seconds=_between(landed, shown),
        seconds=seconds,
        run_id=given.get(f"{BATCH}run-id", ""),
        batch_id=given.get(f"{BATCH}id"),
        stages=stages,
    )


def _seconds(
    given: Mapping[str, str], committed: datetime, published: datetime | None
) -> tuple[float, dict[str, float]]:
    """The seconds of a batch, whole and by stage. The commit has those of the stages before it."""
    stages: dict[str, float] = json.loads(given.get(f"{BATCH}stages", "{}"))
    whole = float(given.get(f"{BATCH}seconds", "0"))
    began = _time(given, f"{BATCH}began-at")
    if began is None:
        return whole, stages
    last = [(WRITE, (committed - began).total_seconds() - sum(stages.values()))]
    if published is not None:
        last.append((PUBLISH, (published - committed).total_seconds()))
    for name, seconds in last:
        # The clocks of two machines may differ.
        stages[name] = round(stages.get(name, 0.0) + max(0.0, seconds), 3)
    return round(max(0.0, ((published or committed) - began) / timedelta(seconds=1)), 3), stages


def _time(given: Mapping[str, str], name: str) -> datetime | None:
    text = given.get(name)
    return None if not text else datetime.fromisoformat(text).astimezone(UTC)


def _between(start: datetime | None, end: datetime) -> float | None:
    return None if start is None else round((end - start).total_seconds(), 3)
