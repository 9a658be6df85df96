"""The files on which published jobs go wrong, and silver of them. Not here: tests (`test_published_mistakes.py`)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from lake_assets.silver.batch.result import TableResult
from lake_assets_tests.helpers.files.dms_files import (
    NOON,
    Clock,
    DmsFile,
    cdc_file,
    csv_bytes,
    load_file,
    put,
)
from lake_assets_tests.helpers.lakes import published_jobs as jobs
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.oracles import oracle

ITEMS, AUDIT, LINES, BARE, STOPS = (
    "public.items",
    "audit.items",
    "Sales.OrderLines",
    "public.bare",
    "public.stops",
)
NAMES = {ITEMS: "items", AUDIT: "audit_items", LINES: "orderlines", BARE: "bare"}
BEYOND_DOUBLES = 2**53 + 1
NOTE = 'she said "hi", then\nleft'
OLD = {"id": "long not null", "v": "string"}
NEW = {**OLD, "extra": "string"}
LINE_KEY = ("order_id", "line")
Rows = list[tuple[str | None, ...]]


class Source:
    """Five tables, their files, and silver made from them."""

    def __init__(self, folder: Path) -> None:
        self._clock = Clock()
        self.before_ddl, self.after_ddl = self._bare_changes()
        self.bench = Bench(folder, self._tables(), {"include_op_for_full_load": False})
        self.items_loads = [
            load_file(ITEMS, [self._item(n, zip=f"0502{n}", note=NOTE, big=None) for n in (1, 2, 3)], part=1),
            load_file(
                ITEMS,
                [self._item(n, zip=f"0502{n}", big=BEYOND_DOUBLES if n == 4 else None) for n in (4, 5, 6)],
                part=2,
            ),
        ]
        self.items_changes = self._items_changes()
        self.lines_load = load_file(LINES, [self._line(1, n, "loaded") for n in (1, 2, 3)])
        c = self._clock.change
        lines = [
            c("U", self._line(1, 1, "updated")),
            c("D", self._line(1, 2, None)),
            c("I", self._line(2, 1, "new")),
        ]
        self.lines_change = cdc_file(LINES, self._flushed(), lines)
        self.bare_load = load_file(BARE, [{"id": 1, "v": "01"}, {"id": 2, "v": "02"}])
        self.ddl_file = cdc_file(BARE, self._flushed(), [*self.before_ddl, *self.after_ddl])
        self.stop = cdc_file(STOPS, self._flushed(), [c("I", {"id": "many", "v": "bad"})])
        self.bench.put(*self.items_loads, *self.items_changes, self.lines_load, self.lines_change, self.stop)
        self.bench.put(load_file(AUDIT, [{"id": n, "v": "audit"} for n in (1, 7)]))
        self._put_bare()
        self.results: dict[str, TableResult] = self.bench.turn()

    def _tables(self) -> dict[str, Any]:
        first_wide: str = self.after_ddl[0]["change_seq"]
        items = {
            **OLD,
            "zip": "string",
            "note": "string",
            "big": "long",
            "updated_at": "timestamptz",
        }
        lines = {"order_id": "long not null", "line": "long not null", "v": "string"}
        return {
            ITEMS: {"columns": items, "primary_key": ["id"]},
            AUDIT: {"columns": OLD, "primary_key": ["id"], "name": NAMES[AUDIT]},
            LINES: {"columns": lines, "primary_key": list(LINE_KEY)},
            BARE: {
                "columns": NEW,
                "primary_key": ["id"],
                "dms": {"add_column_name": False},
                "earlier": [{"until_sequence": first_wide, "columns": OLD}],
            },
            STOPS: {"columns": OLD, "primary_key": ["id"], "quarantine": {"max_rows": 0}},
        }

    def _item(self, key: int, v: str = "loaded", **more: Any) -> dict[str, Any]:
        return {"id": key, "v": v, "updated_at": NOON, **more}

    def _line(self, order: int, line: int, v: str | None) -> dict[str, Any]:
        return {"order_id": order, "line": line, "v": v}

    def _flushed(self) -> datetime:
        self._clock.now += timedelta(minutes=1)
        return self._clock.now

    def _bare_changes(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """A column is added to the source between two of these."""
        c = self._clock.change
        before = [c("U", {"id": 1, "v": "one"})]
        return before, [c("I", {"id": 3, "v": "three", "extra": "wide"}), c("D", {"id": 2})]

    def _items_changes(self) -> tuple[DmsFile, DmsFile]:
        """Two files of one transaction, and of some before it: I..D of 10, two updates of 1, an insert of 11 with its
        update, two updates of 5 by machines whose clocks differ. Of the transaction, each file has the first change of
        one row and the last one of the other."""
        c = self._clock.change
        together: dict[str, Any] = {"same_transaction": True}
        some = [
            c("I", self._item(10, "short-lived")),
            c("D", self._item(10)),
            c("U", self._item(1, "first", note=NOTE)),
            c("U", self._item(1, "last", note=NOTE)),
            c("I", self._item(11, "first")),
            c("U", self._item(11, "last")),
            c("U", self._item(5, "first") | {"updated_at": NOON + timedelta(hours=2)}),
            c("U", self._item(5, "last") | {"updated_at": NOON + timedelta(hours=1)}),
        ]
        three, four = c("U", self._item(3, "first")), c("U", self._item(4, "first"), **together)
        three_last = c("U", self._item(3, "last"), **together)
        four_last = c("U", self._item(4, "last", big=BEYOND_DOUBLES), **together)
        one = cdc_file(ITEMS, self._flushed(), [*some, four, three_last])
        return one, cdc_file(ITEMS, self._flushed(), [three, four_last])

    def _put_bare(self) -> None:
        """Files without a header are as wide as the table was at the time, row for row."""
        bench, dms = self.bench, {**self.bench.dms, "add_column_name": False}
        assert bench.location is not None
        for file, narrow, wide in (
            (self.bare_load, self.bare_load.rows, ()),
            (self.ddl_file, self.before_ddl, self.after_ddl),
        ):
            content = csv_bytes(replace(file, rows=tuple(narrow)), list(OLD), ["id"], dms)
            content += csv_bytes(replace(file, rows=tuple(wide)), list(NEW), ["id"], dms)
            put(bench.location, file.key, content)
            bench.bucket[file.key] = file

    def another_change(self) -> None:
        """One more file, of the other schema's table."""
        change = self._clock.change("U", {"id": 1, "v": f"audit at {self._clock.now}"})
        self.bench.put(cdc_file(AUDIT, self._flushed(), [change]))

    def path(self, file: DmsFile) -> Path:
        assert self.bench.location is not None
        return self.bench.location / file.key

    @property
    def spark(self) -> SparkSession:
        return self.bench.lake.runtime.sessions.root()

    def read(self, *files: DmsFile) -> DataFrame:
        return jobs.read(self.spark, *(self.path(file) for file in files))

    def copy(self, *files: DmsFile, columns: Sequence[str]) -> str:
        """A table of these columns with the rows of the full load, for a job to change; its name in Spark."""
        name = self.new_name()
        self.read(*files).select(*columns).writeTo(name).using("iceberg").create()
        return name

    def new_name(self) -> str:
        return f"{self.bench.lake.config.catalog.name}.silver_shop.naive_{uuid4().hex[:8]}"

    def truth(self, table: str, *columns: str, files: Sequence[DmsFile] | None = None) -> Rows:
        """What the oracle says of some files, by default all."""
        key = self.bench.key(table)
        rows = oracle.current(self.bench.files(table) if files is None else files, columns, key)
        return sorted((tuple(_text(row[name]) for name in columns) for row in rows), key=repr)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def rows(frame: DataFrame, *columns: str) -> Rows:
    """A job's rows as texts."""
    return sorted((tuple(_text(v) for v in row) for row in frame.select(*columns).collect()), key=repr)
