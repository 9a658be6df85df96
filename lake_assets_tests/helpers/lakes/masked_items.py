"""A table with masked columns, and its rows as the source has them.

Here: the table, and a lake in which its masks change. Not here: what silver has instead (`helpers/oracles/masks.py`).
"""

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from lake_assets.silver.apply.rebuild import Rebuilt, rebuild
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.oracles.masks import MASKING

TABLE = "public.items"
COLUMNS = {
    "id": "string not null",
    "email": "string not null",
    "name": "string",
    "born": "date",
    "a.b`c": "string",
    "v": "string",
}
MASK = {"id": "hash", "email": "hash", "name": "redact", "born": None, "a.b`c": "hash"}
KEYED: dict[str, Any] = {"columns": COLUMNS, "primary_key": ["id"], "mask": MASK}
Change = dict[str, Any]


def row(key: str, v: str | None = None, **values: Any) -> Change:
    plain = {
        "email": f"{key}@example.org",
        "name": f"Name of {key}",
        "born": date(2000, 1, 2),
        "a.b`c": f"odd {key}",
    }
    return {"id": key, **plain, "v": v, **values}


class Masked:
    """A table with its change log, under masks that change."""

    def __init__(self, folder: Path, mask: Mapping[str, str | None]) -> None:
        self.bench = Bench(folder, self.tables(mask), {}, MASKING)
        self.clock = Clock()
        self.bench.put(load_file(TABLE, [row("one"), row("two")]))
        self.first = self.change("U", row("two", "changed"))
        self.bench.apply()

    def tables(self, mask: Mapping[str, str | None], **more: Any) -> dict[str, Any]:
        return {TABLE: KEYED | {"also": ["change_log"], "mask": dict(mask)} | more}

    def edit(self, mask: Mapping[str, str | None], **more: Any) -> None:
        self.bench.edit(self.tables(mask, **more))

    def change(self, op: str, image: Change) -> str:
        """A file with this change; its key."""
        change = self.clock.change(op, image)
        file = cdc_file(TABLE, self.clock.now + timedelta(seconds=1), [change])
        self.bench.put(file)
        return file.key

    def stopped(self, *said: str) -> None:
        """Both tables stop, and a turn changes neither."""
        before = {name: self.bench.table(name).current_snapshot() for name in ("items", "items_changes")}
        for result in self.bench.turn().values():
            for sentence in (*said, "Run `lake-assets rebuild public.items`"):
                assert sentence in str(result.error)
        assert {name: self.bench.table(name).current_snapshot() for name in before} == before

    def rebuilt(self) -> list[Rebuilt]:
        runtime = self.bench.lake.runtime
        return [rebuild(runtime, target) for target in self.bench.lake.targets]
