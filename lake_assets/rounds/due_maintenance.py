"""Which tables of a lake are due for maintenance, by their own metadata: no schedule, and nothing to remember.

Here: the tables, and the work of each. Not here: when a table is due (`iceberg/upkeep/table_health.py`), and who does
it: the sensor's run (`orchestration/runs/maintenance_job.py`), `sync`, `lake-assets maintain`. The continuous run has
a schedule of its own (`maintenance.py`).
"""

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from lake_assets.iceberg.table_io import load_table
from lake_assets.iceberg.upkeep.restamp import StampRule
from lake_assets.iceberg.upkeep.table_health import Health, health
from lake_assets.iceberg.upkeep.table_maintenance import Maintained, Part
from lake_assets.lake import Lake
from lake_assets.rounds.maintenance import MART, consumed_snapshots, maintain_mart, maintain_silver
from lake_assets.silver.table.position import SILVER

LOADING_THREADS = 8


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """A table of the lake: its health, and its maintenance."""

    table: str
    asset_key: tuple[str, ...]
    health: Health
    maintain: Callable[[Collection[Part]], Maintained]

    @property
    def reason(self) -> str:
        """Why its maintenance is due; empty if it is not."""
        return ", ".join(self.health.due.values())

    def run(self) -> Maintained:
        """Runs the parts that are due."""
        return self.maintain(tuple(self.health.due))


def due_upkeep(lake: Lake, leave: Collection[str] = ()) -> list[TableUpkeep]:
    """The tables of silver and gold that are due, the cheapest first. `leave`: tables that others maintain."""
    found = [each for each in upkeep(lake, leave) if each.reason]
    return sorted(found, key=lambda each: each.health.rewritten_bytes)


def upkeep(lake: Lake, leave: Collection[str] = ()) -> Iterator[TableUpkeep]:
    """All tables of silver and gold that exist, but for those to `leave`."""
    runtime, marts = lake.runtime, lake.marts
    works: list[tuple[str, tuple[str, ...], StampRule, Callable[..., Maintained]]] = [
        *(
            (t.identifier, tuple(t.asset_key), SILVER, partial(_silver, lake, t.identifier))
            for t in lake.targets
        ),
        *((m.identifier, tuple(m.asset_key), MART, partial(_mart, lake, m.identifier)) for m in marts),
    ]
    chosen = [work for work in works if work[0] not in leave]

    def looked_at(
        work: tuple[str, tuple[str, ...], StampRule, Callable[..., Maintained]],
    ) -> list[TableUpkeep]:
        identifier, key, stamps, maintain = work
        table = load_table(runtime.catalog, identifier)
        if table is None:
            return []
        consumed = consumed_snapshots(runtime, marts, identifier)
        found = health(table, runtime.lake.maintenance, datetime.now(UTC), stamps, consumed)
        return [TableUpkeep(identifier, key, found, maintain)]

    # As for the states of tables: a file on this machine answers faster than threads are switched.
    threads = 1 if runtime.lake.catalog.type == "sqlite" else LOADING_THREADS
    with ThreadPoolExecutor(threads, thread_name_prefix="health") as pool:
        for found in pool.map(looked_at, chosen):
            yield from found


def _silver(lake: Lake, identifier: str, parts: Collection[Part]) -> Maintained:
    (target,) = (target for target in lake.targets if target.identifier == identifier)
    return maintain_silver(lake.runtime, lake.marts, target, parts=parts)


def _mart(lake: Lake, identifier: str, parts: Collection[Part]) -> Maintained:
    (mart,) = (mart for mart in lake.marts if mart.identifier == identifier)
    return maintain_mart(lake.runtime, mart, parts=parts)
