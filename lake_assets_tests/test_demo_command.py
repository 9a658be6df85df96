"""`lake-assets demo run`, small: the same path as the README's command, and whether its verdict can be trusted."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets.config.config_file import load_lake
from lake_assets.iceberg.catalog import open_catalog
from lake_assets.spark.session import SparkSessions
from lake_assets_tests.helpers.lakes.command_lake import call
from lake_assets_tests.helpers.processes.child import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MARTS = (
    "station_daily",
    "trip_revenue_daily",
    "racks_empty_now",
    "racks_to_refill",
    "station_hourly",
    "member_activity_weekly",
    "bike_utilisation",
)
TABLES = ("stations", "bikes", "members", "trips", "station_status", "maintenance_tickets", "app_events")


@pytest.mark.long
def test_the_demonstration_proves_itself_and_notices_a_wrong_row(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKE_HOME", str(tmp_path / "lake"))
    for name in ("lake.yaml", "dagster.yaml"):
        shutil.copy(ROOT / name, tmp_path)
    arguments = ("demo", "run", "--changes", "3000", "--days", "2")
    assert call(tmp_path, *arguments) == 0
    printed = capsys.readouterr().out
    assert printed.count(" yes ") == len(TABLES)
    assert "8 tables and 7 marts in" in printed
    assert all(mart in printed for mart in MARTS[:3])
    catalog = open_catalog(load_lake(tmp_path / "lake.yaml").catalog)
    names = [f"silver_bikeshare.{name}" for name in (*TABLES, "station_status_changes")] + [
        f"gold.{m}" for m in MARTS
    ]
    before = {name: catalog.load_table(name).current_snapshot() for name in [*names, "lake_ops.bronze_files"]}
    assert all(snapshot is not None for snapshot in before.values())

    assert call(tmp_path, *arguments) == 0
    again = capsys.readouterr().out
    assert "Nothing was pending; nothing was committed." in again
    assert again.count(" yes ") == len(TABLES)
    assert {name: catalog.load_table(name).current_snapshot() for name in before} == before

    tamper = "INSERT INTO lake.silver_bikeshare.stations SELECT * FROM lake.silver_bikeshare.stations LIMIT 1"
    SparkSessions(load_lake(tmp_path / "lake.yaml")).root().sql(tamper)
    assert call(tmp_path, *arguments) == 1
    assert "NO: 0 missing, 1 unexpected" in capsys.readouterr().out
