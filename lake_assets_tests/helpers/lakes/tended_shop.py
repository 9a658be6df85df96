"""A shop whose tables are maintained between the batches.

Here: the tables, `maintain` on them, and what every test of it looks at. Not here: the cases (`test_maintenance.py`,
`test_races.py`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyiceberg.table.snapshots import Snapshot

from lake_assets.commands.run.maintain import maintain
from lake_assets.iceberg.table_io import RESTAMP_OF, summary
from lake_assets.iceberg.table_maintenance import Upkeep
from lake_assets.silver.table.position import LOG_OFFSET
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.silver.apply.test_exactly_once import KEYED, Shop

KEEP_NOTHING: dict[str, Any] = {"keep_snapshots": "0s", "keep_for_marts": "0s", "min_small_files": 2}
"""Expires all that the position does not need."""


class TendedShop(Shop):
    def stamps(self, target: Target) -> list[str]:
        """Without re-stamps, which repeat an offset by design."""
        found = []
        for snapshot in self.chain(target.name):
            properties = summary(snapshot)
            if LOG_OFFSET in properties and RESTAMP_OF not in properties:
                found.append(properties[LOG_OFFSET])
        return found

    def chain(self, name: str = "items") -> list[Snapshot]:
        """Main's snapshots as far as they are there, the oldest first."""
        table = self.bench.table(name)
        found, snapshot = [], table.current_snapshot()
        while snapshot is not None:
            found.append(snapshot)
            parent = snapshot.parent_snapshot_id
            snapshot = table.snapshot_by_id(parent) if parent is not None else None
        return found[::-1]

    def maintain(self) -> dict[str, Upkeep]:
        """Maintenance in which nothing may fail, by table."""
        done = {upkeep.table: upkeep for upkeep in maintain(self.bench.lake)}
        for upkeep in done.values():
            if upkeep.error is not None:
                raise upkeep.error
        return done


def tended_shop(
    folder: Path, maintenance: Mapping[str, Any] | None = None, **tables: Mapping[str, Any]
) -> TendedShop:
    """A loaded shop; `items` unless other tables are given, by their names without the schema."""
    named = {f"public.{name}": dict(table) for name, table in (tables or {"items": KEYED}).items()}
    # A table that is rewritten has no small files.
    sections = {"maintenance": maintenance or KEEP_NOTHING, "automation": {"rewrite_below_mb": 0}}
    shop = TendedShop(Bench(folder, named, sections=sections))
    shop.load()
    shop.bench.apply()
    return shop
