"""All marts of the demonstration over a history of its simulator, against plain Python (`mart_oracle.py`)."""

import struct
from datetime import date, datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from lake_assets.demo.compare import source_rows
from lake_assets.demo.marts.racks_empty_now import MART as RACKS_EMPTY_NOW
from lake_assets.demo.marts.racks_to_refill import MART as RACKS_TO_REFILL
from lake_assets.demo.marts.station_daily import MART as STATION_DAILY
from lake_assets.demo.marts.station_hourly import MART as STATION_HOURLY
from lake_assets.demo.marts.trip_revenue_daily import MART as TRIP_REVENUE_DAILY
from lake_assets.demo.replay import read_files
from lake_assets.demo.source.bike_schema import TABLES
from lake_assets.gold.registry import load_mart
from lake_assets_tests.helpers.marts.mart_frames import Row, compute, in_order
from lake_assets_tests.helpers.marts.rack_spells import (
    CLOSE,
    LIMIT,
)
from lake_assets_tests.helpers.oracles import mart_oracle as oracle
from lake_assets_tests.helpers.oracles.demo_history import END, make_history

MEMBER_ACTIVITY = load_mart("lake_assets.demo.marts.member_activity_weekly")
BIKE_UTILISATION = load_mart("lake_assets.demo.marts.bike_utilisation")


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    """The source's rows at the end of a small history, and every change of station_status."""
    history = make_history(tmp_path_factory.mktemp("simulated"), changes=2_500, bikes=40)
    truth = source_rows(history.database)
    tables = {
        name: [
            {
                # The comparison of whole tables has doubles as their bytes.
                column.name: struct.unpack(">d", value)[0] if isinstance(value, bytes) else value
                for column, value in zip(TABLES[name].columns, values, strict=True)
            }
            for values in truth[name]
        ]
        for name in ("stations", "trips", "station_status", "bikes", "maintenance_tickets", "members")
    }
    loaded, changes = read_files(history.folder, "station_status", history.settings)
    tables["station_status_changes"] = [
        row.values
        | {
            "_op": row.op,
            "_commit_ts": datetime.fromisoformat(f"{row.committed_at}+00:00"),
            "_sequence": row.sequence or "",
        }
        for row in (*loaded, *changes)
    ]
    return tables


def test_a_simulated_history(session: SparkSession, simulated: dict[str, list[Row]]) -> None:
    stations, trips, status, bikes, tickets, members, changes = simulated.values()
    now = max(row["_commit_ts"] for row in changes)
    days = oracle.days_from(END.date() - timedelta(days=3), END.date())
    window = (days[0], days[-1])
    assert sum(map(len, oracle.station_spells(changes).values())) > 30, "racks did run empty"

    found = compute(session, STATION_DAILY, simulated, now, window)
    expected = oracle.station_daily(stations, trips, changes, now=now, days=days, limit=LIMIT)
    assert in_order(found, "day", "station_id") == in_order(expected, "day", "station_id")
    assert sum(row["empty_limit_breaches"] for row in found) > 5

    found = compute(session, TRIP_REVENUE_DAILY, simulated, now, window)
    expected = oracle.trip_revenue_daily(stations, trips, days=days)
    assert in_order(found, "day", "district") == in_order(expected, "day", "district")

    found = compute(session, RACKS_EMPTY_NOW, simulated, now)
    expected = oracle.racks_empty_now(stations, status, changes, now=now, limit=LIMIT, close=CLOSE)
    assert in_order(found, "station_id") == in_order(expected, "station_id")

    found = compute(session, RACKS_TO_REFILL, simulated, now, refill_within_minutes=30)
    soon = oracle.racks_to_refill(stations, status, changes, now=now, limit=LIMIT, within=LIMIT)
    assert in_order(found, "station_id") == in_order(soon, "station_id")
    assert 0 < len(found) < len(expected)

    found = compute(session, BIKE_UTILISATION, simulated, now, maintenance_every_km=20)
    expected = oracle.bike_utilisation(bikes, trips, tickets, every_km=20)
    assert in_order(found, "bike_id") == in_order(expected, "bike_id")
    assert {row["maintenance_due"] for row in found} == {True, False}
    assert any(row["maintained_at"] for row in found)

    hours = [oracle.midnight(days[0]) + timedelta(hours=n) for n in range(24 * len(days))]
    found = compute(session, STATION_HOURLY, simulated, now, hours=(hours[0], hours[-1]))
    expected = oracle.station_hourly(changes, now=now, hours=hours)
    assert in_order(found, "hour", "station_id") == in_order(expected, "hour", "station_id")
    assert any(0 < row["minutes_with_bikes"] < row["minutes_known"] for row in found)

    weeks = [date(2026, 2, 23), date(2026, 3, 2)]
    found = compute(session, MEMBER_ACTIVITY, simulated, now, (weeks[0], END.date()), least_members=20)
    expected = oracle.member_activity_weekly(trips, members, weeks=weeks, least=20)
    assert in_order(found, "week", "plan") == in_order(expected, "week", "plan")
    every = oracle.member_activity_weekly(trips, members, weeks=weeks, least=1)
    assert 0 < len(found) < len(every), "small groups are left out"
