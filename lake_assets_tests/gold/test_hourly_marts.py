"""A mart by hour through real runs of Dagster, over the night in which the clocks of Europe change.

Here: the keys of its partitions, and which hours a late change recomputes. Not here: what an hour's rows are
(`marts/`), random histories (`test_random_marts.py`).
"""

import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets.demo.marts.station_hourly import MART
from lake_assets.gold.periods.grain import Grain, between
from lake_assets.gold.table_snapshots import periods_held
from lake_assets_tests.helpers.lakes.bike_lake import BikeLake, at, status
from lake_assets_tests.helpers.marts.mart_frames import in_order
from lake_assets_tests.helpers.oracles import mart_oracle as oracle

pytestmark = pytest.mark.spark


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The zone of this process; Spark's session stays in UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


def hours(bikes: BikeLake) -> list[tuple[str, str]]:
    """The ranges of partition keys that are requested."""
    return [
        (run.tags["dagster/asset_partition_range_start"], run.tags["dagster/asset_partition_range_end"])
        for run in bikes.work().runs
    ]


def compute(bikes: BikeLake) -> None:
    """Runs what is requested, and compares the mart with plain Python."""
    for run in bikes.work().runs:
        assert bikes.run(run).success
    assert hours(bikes) == []
    changes = bikes.silver("station_status_changes")
    every = between(Grain.HOUR, at(30, "22:00"), MART.partitions.of(bikes.clock))
    expected = oracle.station_hourly(changes, now=bikes.clock, hours=[*map(as_time, every)])
    assert in_order(bikes.rows("gold.station_hourly"), "hour", "station_id") == in_order(
        expected, "hour", "station_id"
    )


def as_time(hour: Any) -> datetime:
    assert isinstance(hour, datetime)
    return hour


def files(bikes: BikeLake) -> dict[datetime, set[str]]:
    """The mart's data files by hour."""
    found: dict[datetime, set[str]] = defaultdict(set)
    for task in bikes.lake.runtime.catalog.load_table("gold.station_hourly").scan().plan_files():
        hour = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=task.file.partition[0])
        found[hour].add(task.file.file_path)
    return found


def materialized(bikes: BikeLake) -> set[str | None]:
    found = bikes.instance.fetch_materializations(dg.AssetKey(["gold", "station_hourly"]), limit=1000).records
    return {record.partition_key for record in found}


def test_hours_over_a_change_of_clocks(spark: SparkSession, tmp_path: Path, in_berlin: None) -> None:
    bikes = BikeLake(tmp_path)
    bikes.restart([MART])
    bikes.load("station_status", at(30, "22:10"), [status(n, 3, at(30, "22:10")) for n in (1, 2)])
    bikes.clock = at(31, "03:20")
    for clock, station, number in (("00:30", 1, 0), ("01:30", 2, 0), ("02:30", 1, 4), ("03:20", 2, 1)):
        bikes.change(at(31, clock), ("station_status", "U", status(station, number, at(31, clock))))
    assert bikes.apply("station_status", "station_status_changes").success
    assert hours(bikes) == [("2024-03-30-22:00", "2024-03-31-03:00")]
    compute(bikes)
    keys = {f"2024-03-31-{hour:02d}:00" for hour in range(4)}
    assert materialized(bikes) == {"2024-03-30-22:00", "2024-03-30-23:00", *keys}

    before = files(bikes)
    bikes.change(at(31, "01:10"), ("station_status", "U", status(1, 2, at(31, "01:10"))))
    assert bikes.apply("station_status", "station_status_changes").success
    assert hours(bikes) == [("2024-03-31-01:00", "2024-03-31-03:00")], (
        "its hour, and those in which its state lasts"
    )
    compute(bikes)
    after = files(bikes)
    assert {hour for hour in after if after[hour] != before.get(hour)} == {
        at(31, f"0{n}:00") for n in (1, 2, 3)
    }
    assert after.keys() == before.keys()

    bikes.clock = at(31, "05:05")
    bikes.change(bikes.clock, ("station_status", "U", status(2, 0, bikes.clock)))
    assert bikes.apply("station_status", "station_status_changes").success
    assert hours(bikes) == [("2024-03-31-03:00", "2024-03-31-05:00")], "from the hour that was not over"
    compute(bikes)
    table = bikes.lake.runtime.catalog.load_table("gold.station_hourly")
    assert periods_held(table, "hour", Grain.HOUR) == set(files(bikes))
    bikes.instance.dispose()
