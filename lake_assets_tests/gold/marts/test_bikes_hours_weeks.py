"""The marts of bikes, of a station's hours and of members' weeks: rows written by hand, and plain Python."""

from datetime import date, timedelta
from itertools import count

from pyspark.sql import SparkSession

from lake_assets.demo.marts.station_hourly import MART as STATION_HOURLY
from lake_assets.gold.registry import load_mart
from lake_assets_tests.helpers.marts.bike_rows import at, change, load, trip
from lake_assets_tests.helpers.marts.mart_frames import Row, compute, in_order
from lake_assets_tests.helpers.marts.rack_spells import NOW
from lake_assets_tests.helpers.oracles import mart_oracle as oracle

MEMBER_ACTIVITY = load_mart("lake_assets.demo.marts.member_activity_weekly")
BIKE_UTILISATION = load_mart("lake_assets.demo.marts.bike_utilisation")


def test_a_bike_is_due_by_the_kilometres_since_its_maintenance(session: SparkSession) -> None:
    ticket_numbers = count(1)

    def bike(number: int) -> Row:
        return {"bike_id": number, "model": "city", "status": "available"}

    def ticket(number: int, closed: tuple[int, str] | None) -> Row:
        return {"bike_id": number, "ticket_no": next(ticket_numbers), "closed_at": closed and at(*closed)}

    def ride(number: int, end: tuple[int, str] | None, distance: float | None) -> Row:
        return trip((1, "08:00"), end, bike_id=number, distance_km=distance)

    rows = {
        "bikes": [bike(number) for number in (1, 2, 3, 4)],
        "trips": [
            *(ride(1, (2, "09:00"), 6.0), ride(1, (3, "09:00"), 10.0), ride(1, (3, "10:00"), None)),
            *(ride(2, (2, "09:00"), 9.999999), ride(2, None, 50.0)),
            *(ride(3, (2, "09:00"), 6.0), ride(3, (4, "09:00"), 4.0)),
            ride(9, (2, "09:00"), 50.0),
        ],
        "maintenance_tickets": [
            *(ticket(1, (2, "09:00")), ticket(1, (1, "07:00")), ticket(1, None)),
            ticket(3, None),
        ],
    }
    found = in_order(compute(session, BIKE_UTILISATION, rows, NOW, maintenance_every_km=10), "bike_id")
    shown = [(row["trips"], row["km_since_maintenance"], row["maintenance_due"]) for row in found]
    assert shown == [(3, 10.0, True), (1, 9.999999, False), (2, 10.0, True), (0, 0.0, False)]
    assert found == oracle.bike_utilisation(*rows.values(), every_km=10)


def test_an_hour_of_a_station(session: SparkSession) -> None:
    """Partial hours, a deleted station, an hour that is not over; hours asked for one by one are the same."""

    def state(changed: Row, station: int, docks: int) -> Row:
        return changed | {"station_id": station, "docks_available": docks}

    changes = [
        *(state(load(1, "10:15", 4), 1, 0), state(change(1, "10:45", 0), 1, 4)),
        state(change(1, "12:30", 2), 1, 2),
        *(state(load(1, "10:15", 1), 2, 1), state(change(1, "11:00", None, "D"), 2, 0)),
    ]
    rows, now = {"station_status_changes": changes}, at(1, "13:20")
    hours = [at(1, f"{hour:02d}:00") for hour in range(9, 15)]
    found = in_order(
        compute(session, STATION_HOURLY, rows, now, hours=(hours[0], hours[-1])), "hour", "station_id"
    )
    names = ("minutes_known", "minutes_with_bikes", "minutes_with_docks", "mean_bikes")
    assert {(row["hour"].hour, row["station_id"]): tuple(row[name] for name in names) for row in found} == {
        (10, 1): (45.0, 30.0, 15.0, 2.667),
        (10, 2): (45.0, 45.0, 45.0, 1.0),
        (11, 1): (60.0, 0.0, 60.0, 0.0),
        (12, 1): (60.0, 30.0, 60.0, 1.0),
        (13, 1): (20.0, 20.0, 20.0, 2.0),
    }
    assert found == in_order(oracle.station_hourly(changes, now=now, hours=hours), "hour", "station_id")
    for hour in hours[1:5]:
        alone = compute(session, STATION_HOURLY, rows, now, hours=(hour, hour))
        assert in_order(alone, "station_id") == [row for row in found if row["hour"] == hour]


def test_a_week_of_members_has_no_small_groups(session: SparkSession) -> None:
    """Six days before a Monday, a deleted member, and a plan that one member has."""

    def ride(number: int, member: int, start: tuple[int, str], minutes: int | None) -> Row:
        begun = at(*start)
        return trip(
            start, None, trip_id=number, member_id=member, distance_km=None if minutes is None else 1.5
        ) | {"ended_at": None if minutes is None else begun + timedelta(minutes=minutes)}

    rows = {
        "trips": [
            *(ride(1, 1, (3, "23:59"), 30), ride(2, 2, (4, "00:00"), 30), ride(3, 2, (5, "10:00"), None)),
            *(ride(4, 1, (5, "12:00"), 60), ride(5, 3, (5, "12:00"), 60), ride(6, 9, (5, "12:00"), 60)),
        ],
        "members": [
            {
                "member_id": number,
                "plan": "day" if number == 3 else "year",
                "email": "e",
                "full_name": "n",
                "joined_at": at(1),
            }
            for number in (1, 2, 3)
        ],
    }
    weeks = (date(2024, 2, 26), date(2024, 3, 10))
    found = compute(session, MEMBER_ACTIVITY, rows, NOW, weeks, least_members=2)
    assert found == [
        {
            "week": date(2024, 3, 4),
            "plan": "year",
            "members": 2,
            "trips": 2,
            "hours_ridden": 1.5,
            "distance_km": 3.0,
        }
    ]
    assert {column.name for column in MEMBER_ACTIVITY.columns}.isdisjoint(
        {"member_id", "email", "full_name", "phone", "birth_date", "note"}
    )
