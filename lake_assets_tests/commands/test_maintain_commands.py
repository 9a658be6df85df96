"""What `sync` and `maintain --dry-run` do about maintenance that is due, on the command line."""

from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from unittest.mock import patch

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.commands.run import maintain_cli
from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.iceberg.upkeep import table_health
from lake_assets.orchestration import sync
from lake_assets.orchestration.instance import dagster_instance
from lake_assets.rounds import superseded_files
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake, rows_of, write_items
from lake_assets_tests.helpers.lakes.small_lakes import ITEMS_HEADER, sequence, write_file

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("keep_little")]
SALES = dg.AssetKey(["silver", "shop", "items"])


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = command_lake(tmp_path, maintenance={"keep_snapshots": "0s"})
    write_items(found)
    assert call(found, "sync") == 0
    monkeypatch.setattr(table_health, "SNAPSHOTS", 1)
    return found


def snapshots(folder: Path) -> int:
    catalog = open_catalog(load_lake(folder / "lake.yaml").catalog)
    return len(catalog.load_table("silver_shop.items").snapshots())


def change(folder: Path, number: int) -> None:
    row = f"U,2026-03-01 12:{number:02d}:00.000000,2,again,2.00,2026-03-01 11:00:00.000000,{sequence(10 + number)},"
    write_file(folder, f"public/items/20260301-13{number:02d}00000.csv", [ITEMS_HEADER, row])


def test_sync_maintains_what_it_has_changed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshots(folder)
    assert call(folder, "sync") == 0
    assert snapshots(folder) == before, "it has changed nothing"
    capsys.readouterr()
    assert call(folder, "maintain", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "1 snapshot that nothing needs" in shown
    assert "1 table is due" in shown
    change(folder, 1)
    assert call(folder, "sync") == 0
    assert snapshots(folder) == 1
    with dagster_instance(folder) as instance:
        (record,) = instance.fetch_observations(SALES, limit=10).records
    assert record.asset_observation is not None
    assert record.asset_observation.metadata["snapshots_after"].value == 1
    capsys.readouterr()
    assert call(folder, "maintain", "--dry-run", "--table", "public.items") == 0
    assert "0 tables are due" in capsys.readouterr().out


def test_sync_leaves_what_would_take_long(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "MOST_MAINTAINED", -1)
    before = snapshots(folder)
    change(folder, 1)
    assert call(folder, "sync") == 0
    assert snapshots(folder) > before
    assert "silver_shop.items has 2 snapshots that nothing needs: run `lake-assets maintain`." in (
        capsys.readouterr().err
    )


def test_superseded_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--dry-run` names them, and why others stay; `maintain` deletes them."""
    lake = folder / "lake.yaml"
    lake.write_text(
        lake.read_text().replace("keep_snapshots: 0s", "keep_snapshots: 0s\n  keep_superseded_files: 1d")
    )
    change(folder, 1)
    change(folder, 2)
    assert call(folder, "sync") == 0
    load = [ITEMS_HEADER, "I,2026-03-09 00:00:00.000000,1,again,1.50,2026-03-01 10:00:00.000000,,"]
    write_file(folder, "public/items/LOAD00000001.csv", load)
    row = f"U,2026-03-09 12:00:00.000000,1,again,2.00,2026-03-01 11:00:00.000000,{sequence(90)},"
    write_file(folder, "public/items/20260309-120100000.csv", [ITEMS_HEADER, row])
    assert call(folder, "sync") == 0
    capsys.readouterr()
    assert call(folder, "maintain", "--dry-run") == 0
    assert "files of public.items from before its newest full load stay: " in (
        shown := words(capsys.readouterr().out)
    )
    assert "superseded file" not in shown
    assert call(folder, "maintain") == 0
    config = load_lake(lake)
    with patch.object(superseded_files, "datetime", Later), patch.object(maintain_cli, "datetime", Later):
        capsys.readouterr()
        assert call(folder, "maintain", "--dry-run") == 0
        shown = words(capsys.readouterr().out)
        for number in (1, 2):
            assert f"public/items/20260301-13{number:02d}00000.csv" in shown
        assert "2026-03-09 00:00:00 UTC" in shown
        assert "2 superseded files are to be deleted" in shown
        assert call(folder, "maintain") == 0
        assert "2 → 0" in words(capsys.readouterr().out)
    names = {path.name for path in (folder / "bronze/public/items").iterdir()}
    assert {name for name in names if name.startswith("2026")} == {
        "20260301-120100000.csv",
        "20260309-120100000.csv",
    }
    assert [row["name"] for row in rows_of(config, "silver_shop.items")] == ["again"]


class Later:
    """A clock that is two days ahead."""

    @staticmethod
    def now(zone: tzinfo) -> datetime:
        return datetime.now(zone) + timedelta(days=2)


def words(shown: str) -> str:
    """An output without its line breaks."""
    return " ".join(shown.split())
