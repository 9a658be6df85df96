"""Shared by the tests of bronze: catalogs in a temporary folder, log entries.

Not here: DMS files with real content (`lake_assets_tests/helpers/files/dms_files.py`).
"""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import NewFile

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def open_catalog(tmp_path: Path) -> Callable[[], Catalog]:
    """Opens the same embedded catalog again and again, each time as another process would."""
    uri, warehouse = f"sqlite:///{tmp_path}/catalog.db?timeout=30", f"file://{tmp_path}/warehouse"

    def open_again() -> Catalog:
        return SqlCatalog("lake", uri=uri, warehouse=warehouse)

    open_again()  # creating SQLite's tables is the one thing that two cannot do at once
    return open_again


@pytest.fixture
def load() -> Callable[..., NewFile]:
    """A full-load file without a timestamp column, `load(1, "v1")`, modified `minutes` after noon."""

    def build(
        number: int, version: str = "v1", *, minutes: int = 0, table: str = "trips", **changes: Any
    ) -> NewFile:
        values: dict[str, Any] = {
            "schema": "public",
            "table": table,
            "key": f"public/{table}/LOAD{number:08X}.csv",
            "version": version,
            "kind": FileKind.LOAD,
            "format": "csv",
            "compression": "none",
            "size": 100,
            "last_modified": NOON + timedelta(minutes=minutes),
            "flush_time": None,
            "capture_date": date(2024, 5, 1),
            "rows": 10,
            "columns": ("Op", "trip_id"),
            "first_commit_ts": None,
        }
        return NewFile(**values | changes)

    return build


@pytest.fixture
def cdc(load: Callable[..., NewFile]) -> Callable[..., NewFile]:
    """A CDC file flushed `second` seconds after noon."""

    def build(second: int, version: str = "v1", *, table: str = "trips", **changes: Any) -> NewFile:
        flushed = NOON + timedelta(seconds=second)
        key = f"public/{table}/{flushed:%Y%m%d-%H%M%S}000.csv"
        values = {"table": table, "key": key, "kind": FileKind.CDC, "flush_time": flushed}
        return load(0, version, **values | {"first_commit_ts": NOON} | changes)

    return build
