"""`lake-assets maintain`: the upkeep of silver, marts and the platform's own tables.

Here: which tables, and what of each must survive. Not here: the upkeep itself (`iceberg/maintenance.py`,
`iceberg/ops_upkeep.py`), printing (`maintain_cli.py`).
"""

import logging
import time
from collections.abc import Callable, Iterator

from pyiceberg.table import Table

from lake_assets.bronze import file_log, file_log_upkeep
from lake_assets.build import Lake
from lake_assets.gold.consumption import PREFIX, read_consumption
from lake_assets.gold.look import snapshot_of_rows
from lake_assets.gold.mart import Mart
from lake_assets.iceberg.maintenance import TableUpkeep, Upkeep
from lake_assets.iceberg.ops_table import NAMESPACE
from lake_assets.iceberg.ops_upkeep import tend_small_table
from lake_assets.iceberg.restamp import Bears
from lake_assets.iceberg.tables import load_table, summary
from lake_assets.silver.position import LOG_OFFSET, TOUCHED_DAYS
from lake_assets.silver.targets import Target

# The days that a batch touched, repeated over rows that somebody else has changed since, would say that no other day
# is concerned.
SILVER = Bears(LOG_OFFSET, below_changes=True, not_repeated=(TOUCHED_DAYS,))
# A mart whose rows somebody else has changed is computed anew; repeating what it had consumed would hide that.
MART = Bears(PREFIX, below_changes=False)
OPS: dict[str, Callable[[Table], None]] = {
    file_log.TABLE: file_log_upkeep.tend,
    f"{NAMESPACE}.quarantine": tend_small_table,
    f"{NAMESPACE}.contracts": tend_small_table,
}

logger = logging.getLogger(__name__)


def maintain(lake: Lake, source: str | None = None, table: str | None = None) -> Iterator[Upkeep]:
    """Tends one table after the other and yields what was done; a failure is in the result, the others go on.

    With a source or a table (`schema.table`), its silver tables only; without, also the marts and `lake_ops`.
    """
    chosen = [t for t in lake.targets if source in (None, t.source) and table in (None, t.table)]
    for target in chosen:
        yield maintain_silver(lake, target)
    if source is None and table is None:
        for mart in lake.marts:
            yield maintain_mart(lake, mart)
        for identifier, tend in OPS.items():
            yield _maintain_ops(lake, identifier, tend)


def maintain_silver(lake: Lake, target: Target) -> Upkeep:
    """The upkeep of one silver table."""
    return _maintain(lake, target.identifier, SILVER, lambda: consumed_snapshots(lake, target.identifier))


def maintain_mart(lake: Lake, mart: Mart) -> Upkeep:
    """The upkeep of one mart."""
    return _maintain(lake, mart.identifier, MART)


def consumed_snapshots(lake: Lake, identifier: str) -> list[int]:
    """The snapshots of a silver table that the marts which read it have come to."""
    found = []
    for mart in lake.marts:
        newest = snapshot_of_rows(load_table(lake.runtime.catalog, mart.identifier))
        if (consumed := read_consumption(summary(newest)).snapshots.get(identifier)) is not None:
            found.append(consumed)
    return found


def _maintain(lake: Lake, identifier: str, bears: Bears, consumed: Callable[[], list[int]] = list) -> Upkeep:
    with lake.runtime.sessions.isolated() as spark:
        settings = lake.config.maintenance
        return TableUpkeep(spark, lake.runtime.catalog, identifier, bears, settings, consumed).run()


def _maintain_ops(lake: Lake, identifier: str, tend: Callable[[Table], None]) -> Upkeep:
    start = time.perf_counter()
    done = Upkeep(identifier)
    try:
        table = load_table(lake.runtime.catalog, identifier)
        if table is not None and table.current_snapshot() is not None:
            done.files_before, done.snapshots_before = _counts(table)
            tend(table)
            done.files_after, done.snapshots_after = _counts(table.refresh())
            done.files_rewritten = max(0, done.files_before - done.files_after)
    except Exception as error:  # one table's failure must not stop the others
        logger.debug("%s could not be tended", identifier, exc_info=True)
        done.error = error
    done.seconds = round(time.perf_counter() - start, 3)
    return done


def _counts(table: Table) -> tuple[int, int]:
    return len(list(table.scan().plan_files())), len(table.metadata.snapshots)
