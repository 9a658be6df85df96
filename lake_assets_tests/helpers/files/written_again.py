"""A lake with a table of every shape, whose files are written again as other bytes, under other names.

Here: the tables, files of the same changes for each of them, other bytes for the same rows. Not here: what becomes of
the tables (`silver/write/test_written_again.py`, `test_names_and_bytes.py`).
"""

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any, Literal

from lake_assets.bronze.quarantine.quarantine_log import Quarantined
from lake_assets.silver.batch.result import TableResult
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench

ITEMS, SOFT, EVENTS, BARE = "public.items", "public.soft", "public.events", "public.bare"
COLUMNS = {"id": "long not null", "v": "string"}
TABLES: dict[str, dict[str, Any]] = {
    ITEMS: {"columns": COLUMNS, "primary_key": ["id"], "also": ["change_log", "history"]},
    SOFT: {"columns": COLUMNS, "primary_key": ["id"], "mode": "soft_delete"},
    EVENTS: {"columns": COLUMNS, "mode": "append_log"},
    BARE: {"columns": COLUMNS, "mode": "full_row"},
}
SILVER = ("items", "items_changes", "items_history", "soft", "events", "bare")
BY_ROWS = ("items_changes", "items_history", "events")
"""Those that say what each row of a file was."""


@dataclass
class Lake:
    """The tables, of which each file is written for all."""

    folder: Path
    tables: dict[str, dict[str, Any]] = field(default_factory=lambda: TABLES)
    dms: dict[str, Any] = field(default_factory=dict)
    given: Bench | None = None
    """The lake, where there is one already."""

    def __post_init__(self) -> None:
        self.bench = self.given or Bench(self.folder, self.tables, self.dms)
        self.clock = Clock()

    def load(self, at: datetime = NOON) -> None:
        rows = [{"id": number, "v": "loaded"} for number in range(1, 7)]
        self.bench.put(*(load_file(table, rows, at=at) for table in self.tables))

    def changes(self, *changes: tuple[str, int, str], minutes: int = 1) -> dict[str, DmsFile]:
        """Inserts only, where a table takes no others."""
        rows: dict[str, list[dict[str, Any]]] = {table: [] for table in self.tables}
        for op, key, value in changes:
            row = self.clock.change(op, {"id": key, "v": value})
            for table, own in rows.items():
                if table == EVENTS:
                    own.append({**row, "Op": "I"})
                elif table == BARE and op == "U":
                    own.append({**row, "BI_id": key, "BI_v": "loaded"})
                else:
                    own.append(row)
        self.clock.now += timedelta(minutes=minutes)
        files = {table: cdc_file(table, self.clock.now, own) for table, own in rows.items()}
        self.bench.put(*files.values())
        return files

    def path(self, key: str) -> Path:
        assert self.bench.location is not None
        return self.bench.location / key

    def encode(self, *files: DmsFile) -> None:
        """The same rows as other bytes."""
        for file in files:
            rows = list(csv.reader(StringIO(self.path(file.key).read_text())))
            text = StringIO()
            csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
            self.path(file.key).write_text(text.getvalue())

    def spell(self, path: Path, to: Path, random: Random, *, reorder: bool) -> None:
        """Writes the rows of an object into another, in other bytes: more or fewer quotes, compressed or not, and, with
        `reorder`, in another order."""
        packed = path.read_bytes()
        content = gzip.decompress(packed) if path.name.endswith(".gz") else packed
        header, *rows = csv.reader(StringIO(content.decode()))
        if reorder:
            random.shuffle(rows)
        text = StringIO()
        quoting: Literal[0, 1] = csv.QUOTE_ALL if random.random() < 0.5 else csv.QUOTE_MINIMAL
        csv.writer(text, quoting=quoting, lineterminator="\n").writerows([header, *rows])
        level = random.choice([1, 6, 9])
        spelt = text.getvalue().encode()
        to.write_bytes(gzip.compress(spelt, level) if to.name.endswith(".gz") else spelt)

    def objects(self) -> dict[str, list[Path]]:
        """By folder and name without extension, the objects in the bucket."""
        assert self.bench.location is not None
        found: dict[str, list[Path]] = {}
        for path in sorted(p for p in self.bench.location.rglob("*.csv*") if not p.name.startswith(".")):
            found.setdefault(str(path.relative_to(self.bench.location)).partition(".")[0], []).append(path)
        return found

    def there_and_back(self, random: Random, turn: Callable[[], object]) -> None:
        """Every `….csv` becomes `….csv.gz`, and then `….csv` with other bytes; a turn after each."""
        for path, *_ in self.objects().values():
            self.spell(path, path.with_name(f"{path.name}.gz"), random, reorder=False)
            path.unlink()
        turn()
        ordered = bool(self.bench.dms["change_sequence_column"])
        for place, (packed, *_) in self.objects().items():
            to = packed.with_name(packed.name.removesuffix(".gz"))
            self.spell(packed, to, random, reorder=ordered or "LOAD" in place)
            packed.unlink()
        turn()

    def expire_loads(self) -> None:
        for table in self.tables:
            self.path(f"{table.replace('.', '/')}/LOAD00000001.csv").unlink()

    def rows(self) -> dict[str, list[str]]:
        return {name: self.bench.rows(name) for name in self.names}

    @property
    def names(self) -> list[str]:
        return [target.name for target in self.bench.lake.targets]

    def turn(self) -> dict[str, TableResult]:
        results = self.bench.turn()
        assert {name: str(result.error) for name, result in results.items() if result.error} == {}
        return results

    def held(self, name: str) -> list[Quarantined]:
        held: list[Quarantined] = self.bench.lake.runtime.quarantine.open(f"silver_shop.{name}")
        return held

    def target(self, name: str) -> Any:
        return next(target for target in self.bench.lake.targets if target.name == name)
