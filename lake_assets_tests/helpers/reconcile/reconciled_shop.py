"""A shop with full loads and changes of two tables, all applied, for comparisons with its files.

Here: the lake, and comparisons of all its keys. Not here: changing it from outside (`outside_writer.py`).
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from lake_assets.silver.reconcile.compare_slices import Compared, begun_cycle, compare
from lake_assets.silver.reconcile.cycle import Cycle
from lake_assets.silver.table.targets import Target
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench, OnBench

ITEMS, PAIRS = "public.items", "public.pairs"
COLUMNS = {
    "id": "long not null",
    "v": "string",
    "price": "decimal(10, 2)",
    "at": "timestamptz",
    "r": "double",
}
TABLES: dict[str, dict[str, Any]] = {
    ITEMS: {"columns": COLUMNS, "primary_key": ["id"]},
    PAIRS: {
        "columns": {"name": "string not null", "n": "int not null", "v": "string"},
        "primary_key": ["name", "n"],
    },
}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROWS = 60


class ReconciledShop(OnBench):
    """A lake whose tables have a load and changes: updates, deletes, key moves, one onto another's key."""

    def __init__(self, folder: Path) -> None:
        self.bench, self.clock = Bench(folder, TABLES), Clock()
        rows = [
            {"id": n, "v": f"v{n}", "price": Decimal(f"{n}.50"), "at": NOON, "r": 0.5}
            for n in range(1, ROWS + 1)
        ]
        pairs = [{"name": f"p{n % 7}", "n": n, "v": "x"} for n in range(ROWS)]
        self.bench.put(load_file(ITEMS, rows), load_file(PAIRS, pairs))
        self.change("U", {"id": 5, "v": "five", "price": None, "at": NOON, "r": None})
        self.change("D", {"id": 6})
        self.change("U", {"id": 500, "v": "moved"}, {"id": 7})
        change = self.clock.change
        # Keys that lose a row in the transaction in which they get one.
        self.put(
            change("U", {"id": 220, "v": "was 20"}, {"id": 20}),
            change("U", {"id": 20, "v": "was 21"}, {"id": 21}, same_transaction=True),
            change("I", {"id": 300, "v": "for a moment"}, same_transaction=True),
            change("D", {"id": 300}, same_transaction=True),
        )
        self.bench.apply()

    def change(self, op: str, row: dict[str, Any], before: dict[str, Any] | None = None) -> None:
        self.put(self.clock.change(op, row, before))

    def put(self, *changes: Any) -> None:
        self.clock.now += timedelta(minutes=1)
        self.bench.put(cdc_file(ITEMS, self.clock.now, list(changes)))

    def target(self, name: str = "items") -> Target:
        return next(target for target in self.bench.lake.targets if target.name == name)

    def cycle(self, slices: int, name: str = "items") -> Cycle:
        return begun_cycle(self.bench.lake.runtime, self.target(name), slices, None, NOON)

    def compared(self, slices: int, name: str = "items") -> Compared:
        """All slices of the table at once."""
        cycle = self.cycle(slices, name)
        return compare(self.bench.lake.runtime, self.target(name), cycle, range(slices))


def lines(found: Compared) -> list[str]:
    """What is shown of the differences."""
    return sorted(line for texts in found.examples.values() for line in texts)
