"""A mart that reads a history follows the removal of its old versions (`keep_history`).

Here: a mart by day through `sync`, after a maintenance. Not here: which versions go
(`silver/test_trimmed_histories.py`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from unittest.mock import Mock, patch

import dagster as dg
import pytest
import yaml
from pyspark.sql import SparkSession

from lake_assets.config.config_file import load_lake
from lake_assets.lake import Lake
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets.orchestration.sync import sync
from lake_assets.rounds.due_maintenance import due_upkeep
from lake_assets_tests.helpers.lakes.guide_project import rows, write_lake
from lake_assets_tests.helpers.lakes.small_lakes import write_file

pytestmark = [pytest.mark.spark, pytest.mark.slow]
VERSIONS = """/*
description: The versions of trips by the day on which they began.
follow:
  silver_bikes.trips_history: {day: _valid_from}
columns: {day: date not null, versions: long}
*/
SELECT to_date(_valid_from) AS day, count(*) AS versions FROM silver_bikes.trips_history
WHERE _valid_from >= :start AND _valid_from < :end GROUP BY to_date(_valid_from)
"""
HEADER = "Op,commit_ts,id,bike_id,started_at"


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    write_lake(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "versions_daily.sql").write_text(VERSIONS)
    config = yaml.safe_load((tmp_path / "lake.yaml").read_text()) | {
        "gold": {"marts": ["versions_daily.sql"]}
    }
    config["sources"]["bikes"]["tables"]["public.trips"] |= {"also": ["history"], "keep_history": "30d"}
    (tmp_path / "lake.yaml").write_text(yaml.safe_dump(config))
    for name, at, bike in (
        ("20260303-120000000", "2026-03-03 12:00:00", 8),
        ("20260305-120000000", "2026-03-05 12:00:00", 9),
    ):
        change = f"U,{at},1,{bike},2026-03-01 08:10:00"
        write_file(tmp_path, f"public/trips/{name}.csv", [HEADER, change])
    return open_lake(load_lake(tmp_path / "lake.yaml"))


@contextmanager
def maintained_at(now: datetime) -> Iterator[None]:
    clock = Mock(now=lambda zone: now, fromisoformat=datetime.fromisoformat)
    with (
        patch("lake_assets.rounds.maintenance.datetime", clock),
        patch("lake_assets.rounds.due_maintenance.datetime", clock),
    ):
        yield


def test_a_mart_by_day_follows(lake: Lake) -> None:
    """The version that ended on 3 March goes 30 days later, and the next `sync` computes its day again."""
    third, fifth = date(2026, 3, 3), date(2026, 3, 5)
    instance = dg.DagsterInstance.ephemeral()
    with maintained_at(datetime(2026, 3, 10, tzinfo=UTC)):
        assert sync(lake, instance).marts
    days = rows("gold.versions_daily")
    with maintained_at(datetime(2026, 4, 4, 6, tzinfo=UTC)):
        (due,) = due_upkeep(lake)
        assert (due.table, due.run().rows_removed) == ("silver_bikes.trips_history", 1)
        assert sync(lake, instance).marts
        assert not sync(lake, instance).marts
    assert days == [{"day": third, "versions": 4}, {"day": fifth, "versions": 1}]
    assert rows("gold.versions_daily") == [{"day": third, "versions": 3}, {"day": fifth, "versions": 1}]
