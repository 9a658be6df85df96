"""Maintenance of the lake's own tables in `lake_ops`, with PyIceberg and without a JVM.

Here: the tables, and when they are due. Not here: the steps (`iceberg/upkeep/ops_maintenance.py`,
`bronze/log/file_log_maintenance.py`).
"""

import logging
from collections.abc import Callable
from functools import partial

from pyiceberg.table import Table

from lake_assets.alarms import alarm_log
from lake_assets.bronze.log import file_log, file_log_maintenance
from lake_assets.bronze.quarantine import quarantine_log
from lake_assets.errors import LakeError
from lake_assets.iceberg import erasure_log, findings
from lake_assets.iceberg.lake_format import refuse_newer
from lake_assets.iceberg.ops_table import NAMESPACE
from lake_assets.iceberg.table_io import current_snapshot, load_table, summary
from lake_assets.iceberg.upkeep.ops_maintenance import MAX_SMALL_FILES, maintain_small_table
from lake_assets.iceberg.upkeep.table_maintenance import Maintained, timed
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.batch_log import batches_table

logger = logging.getLogger(__name__)

OPS: dict[str, Callable[[Table], None]] = {
    file_log.TABLE: file_log_maintenance.maintain_file_log,
    batches_table.TABLE: batches_table.maintain_batch_log,
    f"{NAMESPACE}.quarantine": partial(maintain_small_table, needed=quarantine_log.newest_states),
    f"{NAMESPACE}.contracts": maintain_small_table,
    f"{NAMESPACE}.{findings.NAME}": partial(maintain_small_table, needed=findings.newest),
    f"{NAMESPACE}.{alarm_log.NAME}": maintain_small_table,
    f"{NAMESPACE}.{erasure_log.NAME}": maintain_small_table,
}

LOGS = {file_log.TABLE, batches_table.TABLE}
"""Tables that each append keeps small."""


def due_ops(runtime: LakeRuntime) -> list[str]:
    """The tables with many snapshots or files, but for LOGS, and for tables that cannot be read."""
    found = []
    for identifier in OPS.keys() - LOGS:
        try:
            table = _loaded(runtime, identifier)
        except LakeError as error:
            logger.warning("%s is left out of maintenance: %s", identifier, error)
            continue
        files = int(summary(current_snapshot(table)).get("total-data-files", "0"))
        if table is not None and (file_log_maintenance.needs_maintenance(table) or files > MAX_SMALL_FILES):
            found.append(identifier)
    return sorted(found)


def maintain_ops(runtime: LakeRuntime, identifier: str) -> Maintained:
    """Maintains one of OPS. Never raises: see the `error` of the result."""

    def maintain(done: Maintained) -> None:
        table = _loaded(runtime, identifier)
        if table is not None and table.current_snapshot() is not None:
            done.files_before, done.snapshots_before = _counts(table)
            OPS[identifier](table)
            done.files_after, done.snapshots_after = _counts(table.refresh())
            done.files_rewritten = max(0, done.files_before - done.files_after)

    return timed(identifier, maintain)


def _loaded(runtime: LakeRuntime, identifier: str) -> Table | None:
    table = load_table(runtime.catalog, identifier)
    refuse_newer(identifier, table.properties if table is not None else {})
    return table


def _counts(table: Table) -> tuple[int, int]:
    return len(list(table.scan().plan_files())), len(table.metadata.snapshots)
