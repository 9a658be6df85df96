"""Engines that read a table of silver, after changes that mark rows as deleted: docs/readers.md has the outcome.

LAKE_GOLDEN=1 writes it there. Not here: engines that are services, and those that take a download of their own.
"""

import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyspark.sql import SparkSession

from lake_assets.iceberg.table_io import current_snapshot, summary
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.processes.child import ROOT

pytestmark = pytest.mark.spark
PAGE = ROOT / "docs/readers.md"
MEASURED = re.compile(r"(?<=<!-- measured -->\n).*?(?=<!-- end -->)", re.DOTALL)
ITEMS = {"columns": {"id": "long not null", "name": "string"}, "primary_key": ["id"]}
ROWS, CHANGES = 2_000, 40
"""Rows of the load, and of each batch after it."""
Reader = Callable[[Table, int | None], pa.Table]
"""Reads a table, at a snapshot or as it is."""


def by_pyiceberg(table: Table, snapshot: int | None) -> pa.Table:
    return table.scan(snapshot_id=snapshot).to_arrow()


def by_duckdb(table: Table, snapshot: int | None) -> pa.Table:
    connection = table.scan(snapshot_id=snapshot).to_duckdb("items")
    return connection.sql("FROM items").to_arrow_table()


def by_polars(kind: Any) -> Reader:
    def read(table: Table, snapshot: int | None) -> pa.Table:
        frame = pl.scan_iceberg(table, snapshot_id=snapshot, reader_override=kind)
        return frame.collect().to_arrow()

    return read


READERS: Mapping[str, Reader] = {
    "PyIceberg": by_pyiceberg,
    "Polars, its own reader": by_polars("native"),
    "Polars, through PyIceberg": by_polars("pyiceberg"),
    "DuckDB, through PyIceberg (`to_duckdb`)": by_duckdb,
}


def changed(folder: Path, version: int) -> tuple[Bench, int]:
    """A table with marked rows in many files, and the id of a snapshot in between."""
    table = ITEMS | {"format_version": version}
    bench = Bench(folder, {"public.items": table}, sections={"automation": {"rewrite_below_mb": 0}})
    clock = Clock()
    bench.put(load_file("public.items", [{"id": key, "name": "a"} for key in range(ROWS)]))
    bench.apply()
    between = 0
    for batch in range(6):
        clock.now += timedelta(minutes=1)
        keys = range(batch, ROWS, ROWS // CHANGES)
        rows = [
            clock.change("D" if key % 3 == 0 else "U", {"id": key, "name": f"b{batch}"}, {"id": key})
            for key in keys
        ]
        rows.append(clock.change("I", {"id": ROWS + batch, "name": "new"}))
        bench.put(cdc_file("public.items", clock.now, rows))
        bench.apply()
        if batch == 2:
            between = bench.table().metadata.current_snapshot_id or 0
    return bench, between


def outcome(read: Reader, table: Table, snapshot: int | None, expected: list[dict[str, Any]]) -> str:
    try:
        found = read(table, snapshot).select(["id", "name"]).sort_by("id").to_pylist()
    except Exception as error:  # noqa: BLE001  (whatever an engine raises is its outcome)
        return f"refuses ({type(error).__name__})"
    return "equal" if found == expected else "**wrong rows**"


def test_the_page_says_what_each_engine_reads(spark: SparkSession, tmp_path: Path) -> None:
    found: dict[str, list[str]] = {name: [] for name in READERS}
    for version in (2, 3):
        bench, between = changed(tmp_path / str(version), version)
        session, name = (
            bench.lake.runtime.sessions.root(),
            f"{bench.lake.config.catalog.name}.silver_shop.items",
        )
        now = session.table(name)
        then = session.read.option("versionAsOf", between).table(name)
        table = bench.table()
        assert table.format_version == version
        assert int(summary(current_snapshot(table))["total-position-deletes"]) > 100
        for snapshot, rows in ((None, now), (between, then)):
            expected = [row.asDict() for row in rows.select("id", "name").orderBy("id").collect()]
            for engine, read in READERS.items():
                found[engine].append(outcome(read, table, snapshot, expected))
        assert [row["id"] for row in now.collect()]
    lines = [
        "| engine | version 2 | version 2, a former snapshot | version 3 | version 3, a former snapshot |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join([engine, *outcomes])} |" for engine, outcomes in found.items()),
    ]
    text = "".join(f"{line}\n" for line in lines)
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("LAKE_GOLDEN"):
        PAGE.write_text(MEASURED.sub(lambda _: text, page), encoding="utf-8")
        page = PAGE.read_text(encoding="utf-8")
    measured = MEASURED.search(page)
    assert measured is not None
    assert measured[0] == text
