"""Maintenance is no change to a mart: nothing is requested, nothing that it has yet to consume is lost.

Here: `maintain` between batches and mart runs. Not here: Iceberg's procedures one by one (`test_incremental.py`).
"""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from lake_assets.commands.run.maintain import maintain
from lake_assets.config import MaintenanceConfig
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.iceberg.upkeep import retention, table_maintenance
from lake_assets.iceberg.upkeep.restamp import repeated, stamped_snapshot
from lake_assets.silver.table.position import SILVER, Position
from lake_assets_tests.helpers.lakes.bike_lake import (
    DAILY,
    REVENUE,
    BikeLake,
    at,
    days,
    station,
    status,
    trip,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TODAY = 4
TRIPS = "silver_bikeshare.trips"


@pytest.fixture(autouse=True)
def few_files_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_maintenance, "MIN_SMALL_FILES", 2)


def keep_nothing(bikes: BikeLake) -> None:
    """lake.yaml is edited."""
    found = MaintenanceConfig(keep_snapshots=timedelta(0))
    bikes._config = bikes._config.model_copy(update={"maintenance": found})
    bikes.restart()


def maintained(bikes: BikeLake) -> dict[str, Any]:
    done = {one.table: one for one in maintain(bikes.lake)}
    assert [one.error for one in done.values()] == [None] * len(done)
    return done


def fare(bikes: BikeLake, number: int, amount: str) -> None:
    bikes.change(bikes.clock, ("trips", "U", {"trip_id": number, "fare": amount}))
    bikes.apply("trips")


@pytest.mark.long
def test_maintained_marts(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Silver and marts rewritten, re-stamped and expired, before and after the marts have consumed a batch."""
    bikes = BikeLake(tmp_path)
    bikes.load("stations", at(1, "00:00"), [station(1, "north"), station(2, "south")])
    bikes.load("station_status", at(1, "00:00:01"), [status(number, 5, at(1)) for number in (1, 2)])
    bikes.load(
        "trips", at(1, "00:00:02"), [trip(n, at(n, "08:00"), at(n, "08:30")) for n in range(1, TODAY + 1)]
    )
    bikes.clock = at(TODAY)
    fare(bikes, TODAY, "3.00")
    assert bikes.apply().success
    keep_nothing(bikes)
    bikes.compute()
    assert bikes.requested() == {}
    fare(bikes, 2, "4.00")
    bikes.compute()

    done = maintained(bikes)
    assert done[TRIPS].restamped
    assert done["gold.trip_revenue_daily"].restamped
    assert bikes.requested() == {}, "everything was consumed"

    # A batch that no mart has consumed: what is needed of silver's snapshots stays, and no day more is requested.
    fare(bikes, 3, "5.00")
    expected = {DAILY: days(3), REVENUE: days(3)}
    assert bikes.requested() == expected
    assert maintained(bikes)[TRIPS].restamped
    assert maintained(bikes)[TRIPS].files_rewritten == 0
    assert bikes.requested() == expected
    bikes.compute()
    bikes.check()
    maintained(bikes)
    assert bikes.requested() == {}

    # Too far behind: all days.
    fare(bikes, 1, "6.00")
    monkeypatch.setattr(retention, "KEPT_FOR_MARTS", timedelta(0))
    maintained(bikes)
    every = days(*range(1, TODAY + 1))
    requested = bikes.compute()
    assert (requested[DAILY], requested[REVENUE]) == (every, every)
    bikes.check()
    assert bikes.requested() == {}


@pytest.mark.long
def test_rows_of_a_mart_changed_by_hand(spark: SparkSession, tmp_path: Path) -> None:
    """The mart is to be computed anew; a re-stamp of what it had consumed before would hide that."""
    bikes = BikeLake(tmp_path)
    bikes.load("stations", at(1, "00:00"), [station(1, "north"), station(2, "south")])
    bikes.load("station_status", at(1, "00:00:01"), [status(number, 5, at(1)) for number in (1, 2)])
    bikes.load("trips", at(1, "00:00:02"), [trip(1, at(1, "08:00"), at(1, "08:30"))])
    bikes.clock = at(1)
    fare(bikes, 1, "3.00")
    assert bikes.apply().success
    keep_nothing(bikes)
    bikes.compute()
    name = bikes.lake.config.catalog.name
    bikes.lake.runtime.sessions.root().sql(f"DELETE FROM {name}.gold.trip_revenue_daily WHERE trips > 0")
    assert REVENUE in bikes.requested()
    assert not maintained(bikes)["gold.trip_revenue_daily"].restamped
    assert REVENUE in bikes.requested()
    bikes.compute()
    bikes.check()


def test_the_present_is_not_the_time_of_a_re_stamp(tmp_path: Path) -> None:
    """Where files have no commit times, the present is when silver changed last; another one makes marts stale."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("silver_shop")
    rows = pa.table({"id": pa.array([1], pa.int64())})
    table = catalog.create_table("silver_shop.items", rows.schema)
    table.append(rows, snapshot_properties=Position(log_offset=1).properties())
    present = LoadedTables(catalog).source_now(["shop"])
    for _ in range(2):
        time.sleep(0.01)
        stamped = stamped_snapshot(table, SILVER)
        assert stamped is not None
        table.append(rows.slice(0, 0), snapshot_properties=repeated(stamped, SILVER))
        assert LoadedTables(catalog).source_now(["shop"]) == present
    time.sleep(0.01)
    table.append(rows, snapshot_properties=Position(log_offset=2).properties())
    assert LoadedTables(catalog).source_now(["shop"]) > present
