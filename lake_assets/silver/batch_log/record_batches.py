"""Recording batches in the batch log, and reading a table's batches.

It is level-triggered: the batches of the commits that the tables still have are compared with the log, so a kill loses
nothing, and batches do not wait for it. Here: recording, and the one way to read all batches of a time. Not here: the
log (`batches_table.py`), when it is done (`outputs/batch_log_output.py`, `rounds/maintenance.py`).
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from lake_assets.silver.batch_log.batch_row import BatchRow, committed_batches
from lake_assets.silver.batch_log.batches_table import BatchLog

RECENT = timedelta(days=1)
"""How far figures of a table's batches look back unless the user says otherwise."""


def record_batches(log: BatchLog, tables: Iterable[Table]) -> list[BatchRow]:
    """Records the batches of these silver tables that the log lacks, in one commit, and returns them. Raises as
    `BatchLog.add`."""
    return log.add([row for table in tables for row in committed_batches(table)])


def batches_since(
    catalog: Catalog, tables: Mapping[str, Table | None], since: datetime
) -> dict[str, list[BatchRow]]:
    """By silver table, its batches that were committed at that time (UTC) or later, the oldest first: those of the log,
    and those that are not recorded yet. `tables`: by identifier, as loaded; None for one that does not exist."""
    found = {row.key: row for row in BatchLog(catalog).since(since, tables.keys())}
    for table in tables.values():
        for row in committed_batches(table) if table is not None else ():
            if row.committed_at >= since:
                found.setdefault(row.key, row)
    by_table: dict[str, list[BatchRow]] = {name: [] for name in tables}
    for row in sorted(found.values(), key=lambda row: row.committed_at):
        if row.table in by_table:
            by_table[row.table].append(row)
    return by_table


def recently() -> datetime:
    """RECENT ago, UTC."""
    return datetime.now(UTC) - RECENT
