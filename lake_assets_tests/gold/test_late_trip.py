"""A file that arrives 40 days late changes one partition of each daily mart, in the lake and in Dagster.

Not here: other changes and the days that they touch (`test_incremental.py`).
"""

from collections import Counter
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.lakes.bike_lake import (
    DAILY,
    MARTS,
    REVENUE,
    BikeLake,
    at,
    days,
    station,
    status,
    trip,
)

pytestmark = pytest.mark.spark

LATE = 5


@pytest.mark.long  # in every run: `test_incremental.py`, `orchestration/sensors/test_mart_sensor.py`
def test_a_trip_that_is_40_days_late_changes_one_partition(spark: SparkSession, tmp_path: Path) -> None:
    bikes = BikeLake(tmp_path, marts=MARTS[:2])
    bikes.load("stations", at(1), [station(1, "north"), station(2, "south")])
    bikes.load("station_status", at(1), [status(1, 5, at(1))])
    bikes.load("trips", at(1), [trip(n, at(n, "08:00"), at(n, "08:30")) for n in (1, LATE, LATE + 1)])
    bikes.clock = at(LATE) + timedelta(days=40)
    bikes.change(bikes.clock, ("trips", "I", trip(7, bikes.clock, bikes.clock + timedelta(hours=1))))
    assert bikes.apply().success
    bikes.compute()
    files = {mart: bikes.files(mart) for mart in (DAILY, REVENUE)}
    told = {mart: materialized(bikes, mart) for mart in files}

    bikes.change(at(LATE), ("trips", "I", trip(8, at(LATE, "09:00"), at(LATE, "09:30"))))
    assert bikes.apply("trips").success
    assert bikes.compute() == {DAILY: days(LATE), REVENUE: days(LATE)}
    bikes.check()
    for mart, before in files.items():
        after = bikes.files(mart)
        assert {day for day in after if after[day] != before.get(day)} == days(LATE)
        assert after.keys() == before.keys()
        assert materialized(bikes, mart) - told[mart] == Counter({f"2024-03-{LATE:02d}": 1})
    bikes.instance.dispose()


def materialized(bikes: BikeLake, mart: str) -> Counter[str | None]:
    """How often Dagster has recorded each partition."""
    found = bikes.instance.fetch_materializations(dg.AssetKey(["gold", mart]), limit=1000).records
    return Counter(record.partition_key for record in found)
