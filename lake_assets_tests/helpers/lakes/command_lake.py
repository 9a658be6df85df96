"""A lake in a folder as a user has it, and the command line on it, in this process."""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets import cli
from lake_assets.config import LakeConfig
from lake_assets.iceberg.catalog import open_catalog
from lake_assets_tests.helpers.lakes.small_lakes import (
    DMS,
    ITEMS,
    ITEMS_HEADER,
    SPARK,
    UNSYNCED,
    sequence,
    write_file,
)
from lake_assets_tests.helpers.processes.child import ROOT


def command_lake(
    folder: Path, tables: Sequence[str] = ("public.items", "public.others"), **sections: Any
) -> Path:
    """The folder with dagster.yaml and a lake.yaml for these tables, all like ITEMS; `sections` are added to it."""
    source = {"location": "bronze", "dms": DMS, "tables": dict.fromkeys(tables, ITEMS)}
    config = {
        "catalog": {"uri": "catalog.db", "warehouse": "warehouse", **UNSYNCED},
        "sources": {"shop": source},
        "gold": {"start_date": "2026-03-01"},
        "spark": SPARK,
        **sections,
    }
    (folder / "lake.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    shutil.copy(ROOT / "dagster.yaml", folder)
    (folder / "bronze").mkdir()
    return folder


def call(folder: Path, *arguments: str, config: str = "lake.yaml") -> int:
    """Runs the command line in this process; its exit code."""
    before = sys.argv
    sys.argv = ["lake-assets", "--config", str(folder / config), *arguments]
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.argv = before
    return 0


def call_init(folder: Path, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Runs `lake-assets init` in this process, in the folder; its exit code."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["lake-assets", "init", *arguments])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


def write_items(folder: Path, table: str = "items") -> None:
    """A full load of two rows, and a change of one of them."""
    rows = [f"I,2026-03-01 00:00:00.000000,{n},name {n},1.50,2026-03-01 10:00:00.000000,," for n in (1, 2)]
    write_file(folder, f"public/{table}/LOAD00000001.csv", [ITEMS_HEADER, *rows])
    write_file(
        folder,
        f"public/{table}/20260301-120100000.csv",
        [
            ITEMS_HEADER,
            f"U,2026-03-01 12:00:00.000000,2,changed,2.00,2026-03-01 11:00:00.000000,{sequence(1)},",
        ],
    )


def snapshots(config: LakeConfig, *identifiers: str) -> list[int | None]:
    """The tables' current snapshots."""
    catalog = open_catalog(config.catalog)
    found = [catalog.load_table(name).current_snapshot() for name in identifiers]
    return [snapshot.snapshot_id if snapshot else None for snapshot in found]


def rows_of(config: LakeConfig, identifier: str) -> list[dict[str, Any]]:
    """The table's rows, through PyIceberg."""
    rows: list[dict[str, Any]] = (
        open_catalog(config.catalog).load_table(identifier).scan().to_arrow().to_pylist()
    )
    return rows
