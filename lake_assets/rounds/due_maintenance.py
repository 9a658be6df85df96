"""Which tables of a lake are due for maintenance, by their own metadata: no schedule, and nothing to remember.

Here: the tables, and the work of each. Not here: when a table is due (`iceberg/upkeep/table_health.py`), and who does
it: the sensor's run (`orchestration/runs/maintenance_job.py`), `sync`, `lake-assets maintain`. The continuous run has
a schedule of its own (`maintenance.py`), which begins again with each run: so its tables are due at twice the limits.
"""

import logging
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from lake_assets.gold.mart import Mart
from lake_assets.gold.write.own_tables import OwnTable, own_tables
from lake_assets.iceberg.catalog import loading_threads
from lake_assets.iceberg.table_io import load_table
from lake_assets.iceberg.upkeep.orphan_files import OrphanFile, orphan_files
from lake_assets.iceberg.upkeep.parts_and_limits import Part
from lake_assets.iceberg.upkeep.table_health import BEHIND, Health, health
from lake_assets.iceberg.upkeep.table_maintenance import Maintained
from lake_assets.lake import Lake
from lake_assets.rounds.maintenance import MART, consumed_snapshots, maintain_mart, maintain_silver
from lake_assets.silver.apply.trim_history import is_trim_due
from lake_assets.silver.table.guard import refuse_unfit
from lake_assets.silver.table.position import SILVER
from lake_assets.silver.table.targets import Target

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """A table of the lake: its health, and its maintenance."""

    table: str
    asset_key: tuple[str, ...]
    health: Health
    maintain: Callable[..., Maintained]
    """Takes the `parts` to run."""
    orphans: Callable[[], list[OrphanFile]]
    """Searches for the files that maintenance would remove as orphans; raises LakeError if that is not certain."""
    times: int = 1
    """See `Health.due`."""

    @property
    def reason(self) -> str:
        """Why its maintenance is due; empty if it is not."""
        return ", ".join(self.health.due(self.times).values())

    @property
    def rewritten_bytes(self) -> int:
        """Bytes of the data files that `run` rewrites; 0 if it only expires snapshots."""
        return self.health.rewritten_bytes if Part.FILES in self.health.due(self.times) else 0

    def run(self) -> Maintained:
        """Runs the parts that are due."""
        return self.maintain(parts=tuple(self.health.due(self.times)))


def due_upkeep(
    lake: Lake, among: Collection[str] | None = None, shared: Collection[str] = ()
) -> list[TableUpkeep]:
    """The tables of silver, marts and own assets that are due, the cheapest first. `among`: only these; `shared`: those
    that a continuous run maintains, too."""
    found = [each for each in upkeep(lake, among, shared) if each.reason]
    return sorted(found, key=lambda each: each.rewritten_bytes)


def upkeep(
    lake: Lake, among: Collection[str] | None = None, shared: Collection[str] = ()
) -> Iterator[TableUpkeep]:
    """All tables of silver, marts and own assets that exist, or those `among` silver and marts, but for silver tables
    that are stopped, and tables that cannot be read: a turn reports these."""
    every: list[Target | Mart | OwnTable] = [*lake.targets, *lake.marts]
    if among is None:
        every += own_tables(lake.runtime.catalog, lake.tables)
    chosen = [each for each in every if among is None or each.identifier in among]

    def looked_at(one: Target | Mart | OwnTable) -> TableUpkeep | None:
        try:
            return _looked_at(lake, one, BEHIND if one.identifier in shared else 1)
        except Exception as error:  # noqa: BLE001  (one table must not keep the others from their maintenance)
            logger.warning("%s is left out of maintenance: %s", one.identifier, error)
            return None

    with ThreadPoolExecutor(loading_threads(lake.config.catalog), thread_name_prefix="health") as pool:
        yield from filter(None, pool.map(looked_at, chosen))


def _looked_at(lake: Lake, one: Target | Mart | OwnTable, times: int) -> TableUpkeep | None:
    runtime, table = lake.runtime, load_table(lake.runtime.catalog, one.identifier)
    if table is None:
        return None
    settings, now = lake.config.maintenance, datetime.now(UTC)
    age = settings.remove_orphan_files_after
    orphans = partial(orphan_files, table, age, now) if age is not None else list
    if not isinstance(one, Target):
        of_mart = health(table, settings, now, MART)
        maintain = partial(maintain_mart, runtime, one)
        return TableUpkeep(one.identifier, tuple(one.asset_key), of_mart, maintain, orphans, times)
    refuse_unfit(one, table)
    consumed = consumed_snapshots(runtime, lake.marts, one.identifier)
    of_silver = health(table, settings, now, SILVER, consumed, one.partition_by)
    of_silver = replace(
        of_silver, history_due=not of_silver.is_broken and is_trim_due(one, table, now, times)
    )
    maintain = partial(maintain_silver, runtime, lake.marts, one)
    return TableUpkeep(one.identifier, tuple(one.asset_key), of_silver, maintain, orphans, times)
