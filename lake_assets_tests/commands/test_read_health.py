"""What a full scan of a table costs, where the lake shows it: the check, `status`, the board, `maintain --dry-run`.

Here: tables of PyIceberg, without Spark. Not here: the figures and limits (`iceberg/test_table_health.py`), the check
before and after a maintenance (`orchestration/runs/test_maintenance_job.py`).
"""

import json
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pytest

from lake_assets.checks.data_check import Outcome
from lake_assets.checks.lake_checks import READ_HEALTH
from lake_assets.commands.board.board import content
from lake_assets.commands.show.status import slow_lines, status
from lake_assets.config import Mode
from lake_assets.gold.write.own_tables import ASSET, OwnTable, own_tables
from lake_assets.iceberg.catalog import ensure_namespace
from lake_assets.iceberg.upkeep import table_health
from lake_assets.lake import Lake
from lake_assets.silver.table.position import Position
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS, small_lake
from lake_assets_tests.helpers.orchestration.dagster_shop import TOTAL

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setattr(table_health, "SMALL_FILES", 3)
    tables = {"public.sales": {**ITEMS, "also": ["history"]}}
    return small_lake(tmp_path, tables, [TOTAL])


def written(lake: Lake, identifier: str, files: int, own_asset: str | None = None) -> None:
    """Commits of batches, each with a file."""
    ensure_namespace(lake.runtime.catalog, identifier.partition(".")[0])
    properties = {ASSET: own_asset} if own_asset is not None else {}
    table = lake.runtime.catalog.create_table_if_not_exists(identifier, ROWS.schema, properties=properties)
    for _ in range(files):
        table.append(ROWS, snapshot_properties=Position(log_offset=1).properties())


def outcomes(lake: Lake) -> dict[str, Outcome]:
    found = [check for check in lake.checks if check.name == READ_HEALTH]
    assert all(check.warns and check.needs_rows for check in found)
    return {check.asset_key[-1]: check.evaluate(lake.runtime) for check in found}


def test_each_table_has_the_check(lake: Lake) -> None:
    """Also those of further shapes, which have files of their own."""
    assert {target.mode for target in lake.targets} == {Mode.CURRENT, Mode.HISTORY}
    assert outcomes(lake) == dict.fromkeys(
        ("sales", "sales_history", TOTAL.name), Outcome(True, "The table does not exist yet.")
    )


def test_a_table_whose_maintenance_has_not_kept_up(lake: Lake) -> None:
    for name in ("silver_shop.sales", "silver_shop.sales_history", TOTAL.identifier):
        written(lake, name, 5)
    assert all(found.passed for found in outcomes(lake).values()), "twice the limit is six"
    assert slow_lines(lake, status(lake)) == []
    for name in ("silver_shop.sales", TOTAL.identifier):
        written(lake, name, 1)
    found = outcomes(lake)
    assert {name: each.passed for name, each in found.items()} == {
        "sales": False,
        "sales_history": True,
        TOTAL.name: False,
    }
    scans = (
        "A full scan opens 6 data files, 6 of them small, and takes about "
        f"{found['sales'].figures['scan_ratio']:.1f} times as long as that of a fresh copy."
    )
    assert found["sales"].state == f"It has 6 small files. {scans}"
    assert found["sales"].figures["next_step"] == "lake-assets maintain --table silver_shop.sales"
    assert found[TOTAL.name].figures["next_step"] == "lake-assets maintain", "--table takes tables of silver"
    assert (found["sales"].figures["data_files"], found["sales"].figures["small_files"]) == (6, 6)
    lines = status(lake)
    assert slow_lines(lake, lines) == [
        f"{name} has 6 small files. {scans} Run `lake-assets maintain`."
        for name in ("silver_shop.sales", TOTAL.identifier)
    ]
    shown = {line.table: json.loads(json.dumps(asdict(line)))["full_scan"] for line in lines}
    assert shown["silver_shop.sales"] == {
        name: found["sales"].figures[name] for name in shown["silver_shop.sales"]
    }
    assert shown["silver_shop.sales_history"] == {}, "it is stopped: PyIceberg's table has no history's shape"
    board = content(lake)
    assert board.count(f"<small>6 small files. {scans}</small>") == 2, "of a silver table and of a mart"
    assert "cannot be read" not in board


def test_a_table_whose_files_cannot_be_looked_at_hides_no_other(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("silver_shop.sales", TOTAL.identifier):
        written(lake, name, 6)
        table = lake.runtime.catalog.load_table(name)
        head = table.current_snapshot()
        assert head is not None
        for manifest in head.manifests(table.io):
            Path(manifest.manifest_path.removeprefix("file:")).unlink()
    lines = status(lake)
    assert {line.table: line.full_scan for line in lines}["silver_shop.sales"] == {}
    assert slow_lines(lake, lines) == []
    for name in ("silver_shop.sales", TOTAL.identifier):
        assert f"{name}: its files could not be looked at" in caplog.text


def test_own_assets_tables_and_those_of_others(lake: Lake) -> None:
    """lake.yaml names neither; the first have their asset's key."""
    assert own_tables(lake.runtime.catalog, lake.tables) == []
    for name, key in (("gold.own", "gold/own"), ("teams.own", "ops/teams/own"), ("teams.else", None)):
        written(lake, name, 6, key)
    written(lake, TOTAL.identifier, 1, "gold/of_a_mart")
    assert own_tables(lake.runtime.catalog, lake.tables) == [
        OwnTable("gold.own", ("gold", "own")),
        OwnTable("teams.own", ("ops", "teams", "own")),
    ]
    found = [line.partition(" has ")[0] for line in slow_lines(lake, status(lake))]
    assert found == ["gold.own", "teams.own"]
