"""A table some of whose rows cannot be used.

Here: the table and its rows. Not here: the quarantine (`test_quarantine.py`), its commands
(`test_quarantine_commands.py`).
"""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench, OnBench

TABLE = "public.items"
ONE, LONG = Decimal("1.0"), Decimal("123.4")
WIDE = {"id": "long not null", "v": "string", "n": "decimal(4, 1)"}
TIGHT = WIDE | {"n": "decimal(3, 1)"}


def config(columns: dict[str, str] = TIGHT, **more: Any) -> dict[str, Any]:
    """The table with these columns; `more` are further settings of it."""
    return {TABLE: {"columns": columns, "primary_key": ["id"], "also": ["change_log"], **more}}


class NarrowShop(OnBench):
    """A table with a change log, whose column n is declared too narrow for 123.4."""

    def __init__(self, folder: Path, sections: Mapping[str, Any] | None = None, **more: Any) -> None:
        self.bench = Bench(folder, config(**more), sections=sections or {})
        self.clock = Clock()
        self.bench.put(load_file(TABLE, [{"id": n, "v": "loaded", "n": ONE} for n in range(1, 6)]))
        self.bench.apply()

    def put(self, *changes: dict[str, Any]) -> str:
        """A file of these changes lands; its key."""
        self.clock.now += timedelta(minutes=1)
        file = cdc_file(TABLE, self.clock.now, changes)
        self.bench.put(file)
        return file.key

    def change(self, op: str, key: int, v: str, n: Decimal = ONE) -> dict[str, Any]:
        """A change of a row."""
        return self.clock.change(op, {"id": key, "v": v, "n": n})

    @property
    def runtime(self) -> Any:
        return self.bench.lake.runtime

    def held(self, name: str = "items") -> list[Any]:
        """The open quarantined rows of a silver table."""
        return self.runtime.quarantine.open(f"silver_shop.{name}")

    def values(self) -> dict[int, str]:
        """The column v by id."""
        return self.bench.stored_by_id("v")

    def check_current(self) -> None:
        """The current table is what the oracle says."""
        assert self.bench.rows() == self.bench.truth()

    def check(self) -> None:
        """Empties the quarantine."""
        assert self.bench.rows() == self.bench.truth()
        assert self.bench.rows("items_changes") == self.bench.truth(shape="change_log")
