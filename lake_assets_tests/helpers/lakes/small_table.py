"""A table that is small enough to be rewritten whole."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from lake_assets.silver.batch.result import BatchResult
from lake_assets.silver.table.targets import Tracked
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench, OnBench

NAME = "public.items"
ITEMS: dict[str, Any] = {
    "columns": {"id": "long not null", "v": "string", "at": "timestamptz"},
    "primary_key": ["id"],
}
NEVER = {"automation": {"rewrite_below_mb": 0}}
"""Sections of a lake that rewrites none."""


class SmallTable(OnBench):
    """A table with one file of changes for each batch."""

    def __init__(self, folder: Path, table: dict[str, Any] | None = None, **sections: Any) -> None:
        self.bench = Bench(folder, {NAME: table or ITEMS}, sections=sections)
        self.bench.tracked["items"] = Tracked(days=("at",))
        self.clock = Clock()

    def load(self, *ids: int) -> None:
        """A full load of these rows, applied."""
        self.bench.put(load_file(NAME, [self.row(number, "old") for number in ids]))
        self.bench.apply()

    def row(self, number: int, value: str) -> dict[str, Any]:
        return {"id": number, "v": value, "at": self.clock.now}

    def apply(self, *changes: tuple[str, int]) -> BatchResult:
        """The changes, (operation, id), in one file and one batch."""
        self.clock.now += timedelta(days=1)
        rows = [self.clock.change(op, self.row(number, "new")) for op, number in changes]
        self.bench.put(cdc_file(NAME, self.clock.now, rows))
        (batch,) = self.bench.apply()["items"]
        assert self.bench.rows() == self.bench.truth()
        return batch
