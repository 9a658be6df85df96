"""The marts by day, of stations and of revenue: every edge of a definition, over rows written by hand.

Each is compared with plain Python (`mart_oracle.py`), too. Not here: silver tables, days, storage
(`test_incremental.py`).
"""

from datetime import date
from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from lake_assets.demo.marts.station_daily import MART as STATION_DAILY
from lake_assets.demo.marts.trip_revenue_daily import MART as TRIP_REVENUE_DAILY
from lake_assets_tests.helpers.marts.bike_rows import NORTH, SOUTH, TRIPS
from lake_assets_tests.helpers.marts.mart_frames import Row, compute, in_order
from lake_assets_tests.helpers.marts.rack_spells import FIRST, LAST, LIMIT, NOW, SPELLS, STATION_NUMBER
from lake_assets_tests.helpers.oracles import mart_oracle as oracle

COUNTS = {  # by station and day of March: trips out and in
    NORTH: {1: (1, 0), 2: (4, 0), 3: (1, 1), 5: (1, 0)},
    SOUTH: {2: (0, 3), 3: (1, 1)},
}
REVENUE = {  # by day of March and district: trips, revenue, kilometres
    (2, "north"): (4, Decimal("5.05"), 1.0),
    (3, "south"): (1, Decimal("2.50"), 0.1),
    (3, "unknown"): (1, Decimal("2.50"), 0.1),
    (3, "north"): (1, Decimal("99999.99"), 0.1),
}


@pytest.fixture(scope="module")
def daily(session: SparkSession, by_hand: dict[str, list[Row]]) -> list[Row]:
    rows = compute(session, STATION_DAILY, by_hand, NOW, (FIRST, LAST), empty_rack_limit_minutes=30)
    return in_order(rows, "day", "station_id")


@pytest.mark.parametrize("name", SPELLS)
def test_minutes_without_a_bike(daily: list[Row], name: str) -> None:
    found = {
        row["day"].day: (row["minutes_empty"], row["longest_empty_minutes"], row["empty_limit_breaches"])
        for row in daily
        if row["station_id"] == STATION_NUMBER[name]
    }
    expected = dict.fromkeys(range(1, 6), (0.0, 0.0, 0)) | SPELLS[name][1]
    assert found == expected


def test_trips_count_on_the_days_they_started_and_ended(daily: list[Row]) -> None:
    for number, expected in COUNTS.items():
        found = {r["day"].day: (r["trips_out"], r["trips_in"]) for r in daily if r["station_id"] == number}
        assert found == dict.fromkeys(range(1, 6), (0, 0)) | expected


def test_a_station_that_is_gone_has_no_row(daily: list[Row]) -> None:
    assert {row["station_id"] for row in daily} == {*STATION_NUMBER.values(), NORTH, SOUTH}


def test_station_daily_is_what_plain_python_makes_of_the_rows(
    daily: list[Row], by_hand: dict[str, list[Row]]
) -> None:
    expected = oracle.station_daily(
        by_hand["stations"],
        TRIPS,
        by_hand["station_status_changes"],
        now=NOW,
        days=oracle.days_from(FIRST, LAST),
        limit=LIMIT,
    )
    assert daily == in_order(expected, "day", "station_id")


def test_days_asked_for_one_by_one_are_the_same(
    session: SparkSession, daily: list[Row], by_hand: dict[str, list[Row]]
) -> None:
    """A day does not depend on which others are computed with it."""
    day = date(2024, 3, 3)
    found = compute(session, STATION_DAILY, by_hand, NOW, (day, day))
    assert in_order(found, "station_id") == [row for row in daily if row["day"] == day]


def test_revenue_counts_on_the_day_the_trip_ended(
    session: SparkSession, by_hand: dict[str, list[Row]]
) -> None:
    found = in_order(compute(session, TRIP_REVENUE_DAILY, by_hand, NOW, (FIRST, LAST)), "day", "district")
    by_key = {(r["day"].day, r["district"]): (r["trips"], r["revenue"], r["distance_km"]) for r in found}
    assert by_key == REVENUE
    expected = oracle.trip_revenue_daily(by_hand["stations"], TRIPS, days=oracle.days_from(FIRST, LAST))
    assert found == in_order(expected, "day", "district")
