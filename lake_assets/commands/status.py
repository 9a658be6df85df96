"""`lake-assets status`: per silver table, how far it is and what it is waiting for.

Here: the figures. Not here: printing them.
"""

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from lake_assets.automation.tending import SILVER
from lake_assets.bronze.vanished import before, still_vanished
from lake_assets.commands.latency import Spread
from lake_assets.commands.look import why_waiting
from lake_assets.iceberg.restamp import applied_at, bearer
from lake_assets.iceberg.tables import load_table, summary
from lake_assets.lake import Lake
from lake_assets.silver.latency import passages
from lake_assets.silver.pending import TableState, table_states
from lake_assets.silver.plan import Batch, Waiting
from lake_assets.silver.position import BATCH


@dataclass(frozen=True, slots=True)
class TableStatus:
    """One silver table."""

    table: str
    state: str
    """`up to date`, `pending`, `waiting` or `stopped` (see `reason`), or `no files`."""
    rows: int
    position: int
    pending_files: int
    quarantined: int
    """Rows and whole files that are set aside."""
    lag_seconds: float | None
    """Now minus the newest applied source commit."""
    latency: Spread | None
    """Seconds from a file to its rows, over the commits that the table still has."""
    last_batch: dict[str, str] | None
    """Kind, strategy, files, bytes and rows of the newest batch."""
    last_applied: str | None
    """When it was published, ISO 8601 UTC."""
    reason: str | None
    consistent_cut: str | None = None
    """The table shows the transactions up to this commit time, ISO 8601 UTC; None: all that its files have."""
    rows_waiting_for_cut: int = 0
    vanished: str | None = None
    """Since when, ISO 8601 UTC, none of its files is in the bucket any more."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def status(lake: Lake) -> list[TableStatus]:
    """Every silver table, from the lake's tables alone: no Spark, no Dagster. Does not list the bucket."""
    now = datetime.now(UTC)
    held = Counter(row.silver_table for row in lake.runtime.quarantine.open())
    return [
        _table_status(lake, state, held[state.target.identifier], now)
        for state in table_states(lake.runtime, lake.targets, now)
    ]


def _table_status(lake: Lake, state: TableState, quarantined: int, now: datetime) -> TableStatus:
    table = load_table(lake.runtime.catalog, state.target.identifier)
    # Commits of maintenance above it say nothing of a batch.
    snapshot = bearer(table, SILVER) if table is not None else None
    batch = {k.removeprefix(BATCH): v for k, v in summary(snapshot).items() if k.startswith(BATCH)}
    newest = state.position.max_commit_ts
    applied = applied_at(snapshot) if snapshot is not None else None
    mark = still_vanished(state.logged)
    return TableStatus(
        table=state.target.identifier,
        state=_state(state),
        rows=state.position.rows,
        position=state.position.log_offset,
        pending_files=len(state.pending),
        quarantined=quarantined,
        lag_seconds=round((now - newest).total_seconds(), 1) if newest is not None else None,
        latency=Spread.of(way.from_file for way in passages(table).values()),
        last_batch=batch or None,
        last_applied=applied.isoformat(timespec="seconds") if applied is not None else None,
        reason=_reason(lake, state),
        consistent_cut=state.position.cut.isoformat() if state.position.cut is not None else None,
        rows_waiting_for_cut=state.position.waiting,
        vanished=mark.last_modified.isoformat(timespec="seconds") if mark is not None else None,
    )


def _reason(lake: Lake, state: TableState) -> str | None:
    if state.error is not None:
        return str(state.error)
    if isinstance(state.next_batch, Batch) and state.next_batch.stop is not None:
        return f"{state.next_batch.stop.reason} {state.next_batch.stop.next_step}"
    mark = still_vanished(state.logged)
    if mark is not None and not isinstance(state.next_batch, Waiting):
        return f"{before(mark, state.logged)}; on_vanished is {state.target.config.on_vanished}"
    return why_waiting(lake, state)


def _state(state: TableState) -> str:
    if state.error is not None:
        return "stopped"
    if not state.logged:
        return "no files"
    if isinstance(state.next_batch, Waiting):
        return "waiting"
    if isinstance(state.next_batch, Batch):
        return "pending" if state.next_batch.stop is None else "stopped"
    return "up to date"
