"""What the marts compute, against rows written by hand and against plain Python (`mart_oracle.py`).

Here: every edge of a definition, over DataFrames. Not here: silver tables, days, storage (`test_incremental.py`).
"""

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.demo import marts
from lake_assets.demo.compare import source_rows
from lake_assets.demo.marts.racks_empty_now import MART as RACKS_EMPTY_NOW
from lake_assets.demo.marts.racks_to_refill import MART as RACKS_TO_REFILL
from lake_assets.demo.marts.station_daily import MART as STATION_DAILY
from lake_assets.demo.marts.station_hourly import MART as STATION_HOURLY
from lake_assets.demo.marts.trip_revenue_daily import MART as TRIP_REVENUE_DAILY
from lake_assets.demo.replay import read_files
from lake_assets.demo.source.bike_schema import TABLES
from lake_assets.gold.registry import load_mart
from lake_assets_tests.helpers.lakes.mart_frames import Row, compute, in_order
from lake_assets_tests.helpers.lakes.small_lakes import small_lake
from lake_assets_tests.helpers.oracles import mart_oracle as oracle
from lake_assets_tests.helpers.oracles.demo_history import END, make_history

MEMBER_ACTIVITY = load_mart(str(Path(marts.__file__).with_name("member_activity_weekly.sql")))
BIKE_UTILISATION = load_mart(str(Path(marts.__file__).with_name("bike_utilisation.sql")))
LIMIT = timedelta(minutes=30)
CLOSE = 0.7
FIRST, LAST = date(2024, 3, 1), date(2024, 3, 5)
NOW = datetime(2024, 3, 5, 18, tzinfo=UTC)


def at(day: int, clock: str = "00:00") -> datetime:
    return datetime.fromisoformat(f"2024-03-{day:02d}T{clock}+00:00")


def load(day: int, clock: str, bikes: int) -> Row:
    """A full-load row of station_status; its station is filled in by the case."""
    return {"_op": "I", "_commit_ts": at(day, clock), "_sequence": "", "bikes_available": bikes}


_numbers = count()


def change(day: int, clock: str, bikes: int | None, op: str = "U") -> Row:
    moment = at(day, clock)
    digits = f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 10_000:02d}{next(_numbers):019d}"
    return {"_op": op, "_commit_ts": moment, "_sequence": digits, "bikes_available": bikes}


BEGAN = load(1, "00:00:10", 5)

# The rows of one station, and by day of March: minutes empty, longest spell, breaches. Other days have zeros.
SPELLS: dict[str, tuple[list[Row], dict[int, tuple[float, float, int]]]] = {
    "never empty": ([BEGAN, change(2, "10:00", 1)], {}),
    "over midnight, within the limit": (
        [BEGAN, change(1, "23:50", 0), change(2, "00:05", 1)],
        {1: (10, 10, 0), 2: (5, 5, 0)},
    ),
    "over midnight, and the limit passes after it": (
        [BEGAN, change(1, "23:45", 0), change(2, "00:30", 1)],
        {1: (15, 15, 0), 2: (30, 30, 1)},
    ),
    "over midnight, and the limit passed before it": (
        [BEGAN, change(1, "23:00", 0), change(2, "01:00", 1)],
        {1: (60, 60, 1), 2: (60, 60, 0)},
    ),
    "the limit passes at midnight, when it is refilled": (
        [BEGAN, change(2, "23:30", 0), change(3, "00:00", 4)],
        {2: (30, 30, 0), 3: (0, 0, 1)},
    ),
    "over whole days": (
        [BEGAN, change(1, "12:00", 0), change(4, "06:00", 3)],
        {1: (720, 720, 1), 2: (1440, 1440, 0), 3: (1440, 1440, 0), 4: (360, 360, 0)},
    ),
    "open at the end": ([BEGAN, change(4, "23:40", 0)], {4: (20, 20, 0), 5: (1080, 1080, 1)}),
    "open at the end and close to the limit": ([BEGAN, change(5, "17:36", 0)], {5: (24, 24, 0)}),
    "open at the end and within the limit": ([BEGAN, change(5, "17:50", 0)], {5: (10, 10, 0)}),
    "the limit passes at the very end": ([BEGAN, change(5, "17:30", 0)], {5: (30, 30, 1)}),
    "starts in the full load": ([load(1, "00:00:10", 0), change(1, "01:00:10", 2)], {1: (60, 60, 1)}),
    "a full-load row that is older than its time": (
        [change(1, "00:00:05", 2), load(1, "00:00:20", 0), change(1, "08:00", 1)],
        {},
    ),
    "an empty full-load row between changes": (
        # Committed first: empty for ten seconds, and full again when the row, read before that, is transferred.
        [change(1, "00:00:05", 0), change(1, "00:00:15", 3), load(1, "00:00:20", 0)],
        {1: (0.167, 0.167, 0)},
    ),
    "a deleted station is not empty": (
        [BEGAN, change(2, "10:00", 0), change(2, "10:40", None, "D")],
        {2: (40, 40, 1)},
    ),
    "deleted while it had bikes, and founded again without": (
        [BEGAN, change(2, "10:00", None, "D"), change(2, "11:00", 0, "I"), change(2, "11:20", 1)],
        {2: (20, 20, 0)},
    ),
    "refilled at the very instant the limit passes": (
        [BEGAN, change(2, "10:00", 0), change(2, "10:30", 1)],
        {2: (30, 30, 1)},
    ),
    "refilled a microsecond before it": (
        [BEGAN, change(2, "10:00:00.000001", 0), change(2, "10:30", 1)],
        {2: (30, 30, 0)},
    ),
    "emptied and refilled in one transaction": ([BEGAN, change(2, "10:00", 0), change(2, "10:00", 1)], {}),
    "refilled and emptied in one transaction": (
        [BEGAN, change(2, "10:00", 0), change(2, "10:20", 1), change(2, "10:20", 0), change(2, "10:40", 1)],
        {2: (40, 40, 1)},
    ),
    "still empty after a change of something else": (
        [BEGAN, change(2, "10:00", 0), change(2, "10:20", 0), change(2, "10:40", 1)],
        {2: (40, 40, 1)},
    ),
    "several spells": (
        [
            BEGAN,
            *(change(2, "10:00", 0), change(2, "10:45", 1)),
            *(change(2, "12:00", 0), change(2, "12:10", 2)),
            *(change(2, "13:00", 0), change(2, "13:31:30", 1)),
        ],
        {2: (86.5, 45, 2)},
    ),
    "a reload tells that it was refilled while nothing replicated": (
        [BEGAN, change(2, "10:00", 0), load(3, "09:00:00", 3)],
        {2: (840, 840, 1), 3: (540, 540, 0)},
    ),
    "a reload tells nothing new": (
        [BEGAN, change(2, "10:00", 0), load(3, "09:00:01", 0), change(3, "10:00", 2)],
        {2: (840, 840, 1), 3: (600, 600, 0)},
    ),
    "a change follows the reload's beginning": (
        [BEGAN, change(3, "09:00:02", 2), load(3, "09:00:05", 0), change(3, "12:00", 1)],
        {},
    ),
    "a reload does not reach back before its time": (
        # Empty from the first load to the change of the 2nd; the reload's row does not cut that spell in two.
        [load(1, "00:00:10", 0), change(1, "01:00:10", 0), change(2, "00:00", 4), load(3, "09:00:04", 4)],
        {1: (1439.833, 1439.833, 1)},
    ),
    "founded after the first full load": (
        [change(2, "08:00", 0, "I"), change(2, "09:00", 2), load(3, "09:00:03", 2)],
        {2: (60, 60, 1)},
    ),
}
STATION_NUMBER = {name: number for number, name in enumerate(SPELLS, start=1)}
NORTH, SOUTH, GONE = 101, 102, 999


def trip(start: tuple[int, str], end: tuple[int, str] | None, **values: Any) -> Row:
    """From NORTH to SOUTH unless the values say otherwise."""
    ended = None if end is None else {"end_station_id": SOUTH, "ended_at": at(*end), "fare": Decimal("2.50")}
    given = {
        "trip_id": next(_numbers),
        "bike_id": 1,
        "member_id": 1,
        "start_station_id": NORTH,
        "started_at": at(*start),
        "distance_km": None if end is None else 0.1,
        "fare": None,
        "end_station_id": None,
        "ended_at": None,
    }
    return given | (ended or {}) | values


TRIPS = [
    trip((1, "23:50"), (2, "00:10")),  # ends another day than it starts
    trip((2, "08:00"), None),  # under way
    trip((2, "08:00"), (2, "09:00"), fare=None, distance_km=None),
    trip((2, "08:00"), (2, "09:00"), end_station_id=None, distance_km=0.2),  # left in the street
    trip((2, "10:00"), (2, "11:00"), distance_km=0.7, fare=Decimal("0.05")),
    trip((3, "00:00"), (3, "23:59:59.999999"), start_station_id=SOUTH, end_station_id=NORTH),
    trip((3, "10:00"), (3, "11:00"), start_station_id=GONE),
    trip((3, "10:00"), (3, "11:00"), end_station_id=GONE, fare=Decimal("99999.99")),
    trip((5, "10:00"), (6, "11:00")),  # ends after the last day that is asked for
]
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


def station(number: int, district: str) -> Row:
    return {"station_id": number, "name": f"Rack {number}", "district": district, "capacity": 9}


def current_status(changes: list[Row]) -> list[Row]:
    """What station_status holds after the changes: the first full load, then what is newer by time."""
    last: dict[int, Row] = {}
    first_load = {id(row) for row in changes if row["_sequence"] == "" and row["_commit_ts"] < at(2)}
    for row in sorted(
        changes, key=lambda row: (id(row) not in first_load, row["_commit_ts"], row["_sequence"])
    ):
        last[row["station_id"]] = row
    return [row | {"docks_available": 7} for row in last.values() if row["_op"] != "D"]


@pytest.fixture(scope="module")
def written_by_hand() -> dict[str, list[Row]]:
    changes = [
        row | {"station_id": STATION_NUMBER[name]} for name, (rows, _) in SPELLS.items() for row in rows
    ]
    # A rack that is empty, although no station of that number is known.
    changes += [row | {"station_id": GONE} for row in (BEGAN, change(5, "17:00", 0))]
    stations = [station(number, "middle") for number in STATION_NUMBER.values()]
    status = current_status(changes)
    # The log may be a commit behind the current table, or ahead of it.
    status += [{"station_id": NORTH, "bikes_available": 0, "docks_available": 3}]
    return {
        "stations": [*stations, station(NORTH, "north"), station(SOUTH, "south")],
        "trips": TRIPS,
        "station_status": status,
        "station_status_changes": changes,
    }


@pytest.fixture(scope="module")
def session(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """A session with a lake's settings."""
    return small_lake(tmp_path_factory.mktemp("marts")).runtime.sessions.root()


@pytest.fixture(scope="module")
def daily(session: SparkSession, written_by_hand: dict[str, list[Row]]) -> list[Row]:
    rows = compute(session, STATION_DAILY, written_by_hand, NOW, (FIRST, LAST), empty_rack_limit_minutes=30)
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
    daily: list[Row], written_by_hand: dict[str, list[Row]]
) -> None:
    expected = oracle.station_daily(
        written_by_hand["stations"],
        TRIPS,
        written_by_hand["station_status_changes"],
        now=NOW,
        days=oracle.days_from(FIRST, LAST),
        limit=LIMIT,
    )
    assert daily == in_order(expected, "day", "station_id")


def test_days_asked_for_one_by_one_are_the_same(
    session: SparkSession, daily: list[Row], written_by_hand: dict[str, list[Row]]
) -> None:
    """A day does not depend on which others are computed with it."""
    day = date(2024, 3, 3)
    found = compute(session, STATION_DAILY, written_by_hand, NOW, (day, day))
    assert in_order(found, "station_id") == [row for row in daily if row["day"] == day]


def test_revenue_counts_on_the_day_the_trip_ended(
    session: SparkSession, written_by_hand: dict[str, list[Row]]
) -> None:
    found = in_order(
        compute(session, TRIP_REVENUE_DAILY, written_by_hand, NOW, (FIRST, LAST)), "day", "district"
    )
    by_key = {(r["day"].day, r["district"]): (r["trips"], r["revenue"], r["distance_km"]) for r in found}
    assert by_key == REVENUE
    expected = oracle.trip_revenue_daily(
        written_by_hand["stations"], TRIPS, days=oracle.days_from(FIRST, LAST)
    )
    assert found == in_order(expected, "day", "district")


def test_racks_that_are_empty_now(session: SparkSession, written_by_hand: dict[str, list[Row]]) -> None:
    found = in_order(
        compute(session, RACKS_EMPTY_NOW, written_by_hand, NOW, empty_rack_limit_minutes=30), "station_id"
    )
    names = {number: name for name, number in STATION_NUMBER.items()}
    assert {
        names.get(row["station_id"], str(row["station_id"])): (row["minutes_empty"], row["state"])
        for row in found
    } == {
        "open at the end": (1100.0, "breach"),
        "open at the end and close to the limit": (24.0, "close"),
        "open at the end and within the limit": (10.0, "within limit"),
        "the limit passes at the very end": (30.0, "breach"),
        str(NORTH): (None, "within limit"),
        str(GONE): (60.0, "breach"),
    }
    expected = oracle.racks_empty_now(
        written_by_hand["stations"],
        written_by_hand["station_status"],
        written_by_hand["station_status_changes"],
        now=NOW,
        limit=LIMIT,
        close=CLOSE,
    )
    assert found == in_order(expected, "station_id")


@pytest.mark.parametrize(
    ("within", "expected"),
    [
        (15, ["open at the end and close to the limit"]),
        (20, ["open at the end and close to the limit", "open at the end and within the limit"]),
    ],
)
def test_racks_whose_limit_passes_soon(
    session: SparkSession, written_by_hand: dict[str, list[Row]], within: int, expected: list[str]
) -> None:
    """The rack whose limit passes now is in breach already."""
    found = compute(session, RACKS_TO_REFILL, written_by_hand, NOW, refill_within_minutes=within)
    names = {number: name for name, number in STATION_NUMBER.items()}
    assert sorted(names[row["station_id"]] for row in found) == expected
    tables = [written_by_hand[name] for name in ("stations", "station_status", "station_status_changes")]
    rows = oracle.racks_to_refill(*tables, now=NOW, limit=LIMIT, within=timedelta(minutes=within))
    assert in_order(found, "station_id") == in_order(rows, "station_id")


def test_a_bike_is_due_by_the_kilometres_since_its_maintenance(session: SparkSession) -> None:
    def bike(number: int) -> Row:
        return {"bike_id": number, "model": "city", "status": "available"}

    def ticket(number: int, closed: tuple[int, str] | None) -> Row:
        return {"bike_id": number, "ticket_no": next(_numbers), "closed_at": closed and at(*closed)}

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
