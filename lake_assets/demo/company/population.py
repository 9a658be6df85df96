"""The company on the day before the history starts: the rows of the full load.

Here: drawing stations, bikes, members and past trips, events and tickets. Not here: anything that is committed as a
change (`city.py`).
"""

import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

from lake_assets.demo.company import vocabulary
from lake_assets.demo.source.source_database import Row, SourceDatabase

FIRST_BIKE_ID = 5_000_000_001
FIRST_MEMBER_ID = 100_000_000_001
FIRST_TRIP_ID = 7_000_000_000_001
"""The first id has more than 32 bits, to detect a reader that narrows a long."""

_CITY_CENTRE = (48.2082, 16.3738)
_PAST = timedelta(days=14)
_LONG_AGO = timedelta(days=900)


def cents(amount: int) -> Decimal:
    """A number of cents (or hundredths of a percent) with its two decimals."""
    return Decimal(amount).scaleb(-2)


def ride_km(start: Row, end: Row, rng: Random) -> float:
    """Street distance between two stations in km; a round trip is a few km, too."""
    east = (end["longitude"] - start["longitude"]) * 111.32 * math.cos(math.radians(start["latitude"]))
    north = (end["latitude"] - start["latitude"]) * 110.57
    return (math.hypot(east, north) or rng.uniform(1, 6)) * rng.uniform(1.15, 1.6)


def ride_time(distance_km: float, rng: Random) -> timedelta:
    """Duration of a ride, to the microsecond; occasionally a rider forgets to lock the bike for half a day."""
    minutes = distance_km / rng.uniform(10, 18) * 60 + rng.uniform(1, 6)
    if rng.random() < 0.004:
        minutes += rng.uniform(300, 900)
    return timedelta(microseconds=int(minutes * 60e6))


def fare(taken: timedelta, plan: str | None) -> Decimal | None:
    """Price of a ride; staff rides have none."""
    if plan == "staff":
        return None
    minutes = math.ceil(taken.total_seconds() / 60)
    return cents(max(0, minutes - 30) * 12) if plan in ("annual", "student") else cents(100 + minutes * 15)


def new_bike(rng: Random, bike_id: int, bought_on: datetime) -> Row:
    """A bike that is ready to ride."""
    model, electric = rng.choice(tuple(vocabulary.MODELS.items()))
    return {
        "bike_id": bike_id,
        "model": model,
        "is_electric": electric,
        "battery_percent": cents(rng.randrange(2_000, 10_001)) if electric else None,
        "bought_on": bought_on.date(),
        "status": "available",
    }


def new_member(rng: Random, member_id: int, joined_at: datetime) -> Row:
    """A member with drawn personal data; phone, birth date and note may be NULL."""
    born = (
        None if rng.random() < 0.2 else (joined_at - timedelta(days=rng.randrange(16 * 365, 80 * 365))).date()
    )
    return {
        "member_id": member_id,
        "email": f"rider{member_id % 10**7}@example.org",
        "full_name": vocabulary.full_name(rng),
        "phone": vocabulary.phone(rng),
        "birth_date": born,
        "plan": rng.choice(vocabulary.PLANS),
        "note": vocabulary.note(rng),
        "joined_at": joined_at,
    }


def _before(rng: Random, start: datetime, span: timedelta) -> datetime:
    return start - timedelta(microseconds=rng.randrange(1, span // timedelta(microseconds=1)))


def _stations(rng: Random, count: int) -> list[Row]:
    districts = tuple(vocabulary.DISTRICTS)
    rows = []
    for number in range(1, count + 1):
        angle = 2 * math.pi * (number % len(districts)) / len(districts)
        rows.append(
            {
                "station_id": number,
                "name": vocabulary.station_name(rng, number),
                "district": districts[number % len(districts)],
                "capacity": rng.randrange(14, 27),
                "latitude": _CITY_CENTRE[0] + 0.02 * math.sin(angle) + rng.gauss(0, 0.008),
                "longitude": _CITY_CENTRE[1] + 0.03 * math.cos(angle) + rng.gauss(0, 0.01),
                "opened_on": datetime(2015 + number % 9, 1 + number % 12, 1 + number % 28, tzinfo=UTC).date(),
                "is_active": True,
            }
        )
    return rows


def _past_trip(
    rng: Random, trip_id: int, stations: list[Row], bikes: list[Row], members: list[Row], to: datetime
) -> Row:
    start, end = rng.choice(stations), rng.choice(stations)
    distance = ride_km(start, end, rng)
    taken = ride_time(distance, rng)
    started_at = _before(rng, to - taken, _PAST)
    rider = rng.choice(members)
    return {
        "trip_id": trip_id,
        "bike_id": rng.choice(bikes)["bike_id"],
        "member_id": rider["member_id"],
        "start_station_id": start["station_id"],
        "end_station_id": end["station_id"],
        "started_at": started_at,
        "ended_at": started_at + taken,
        "distance_km": distance,
        "fare": fare(taken, rider["plan"]),
    }


def populate(
    database: SourceDatabase,
    rng: Random,
    start: datetime,
    *,
    stations: int,
    bikes: int,
    members: int,
    past_trips: int,
) -> None:
    """Fill an empty database with the company as it is at `start` (UTC), with two weeks of past trips.

    Raises ValueError if the racks could not hold the bikes.
    """
    station_rows = _stations(rng, stations)
    if bikes > 0.8 * sum(row["capacity"] for row in station_rows):
        raise ValueError(
            f"{bikes} bikes need more than {stations} stations: a fifth of the docks has to stay free"
        )
    bike_rows = [
        new_bike(rng, database.next_id("bike", first=FIRST_BIKE_ID), _before(rng, start, _LONG_AGO))
        for _ in range(bikes)
    ]
    member_rows = [
        new_member(rng, database.next_id("member", first=FIRST_MEMBER_ID), _before(rng, start, _LONG_AGO))
        for _ in range(members)
    ]
    for row, text in zip(member_rows, vocabulary.AWKWARD_TEXTS, strict=False):
        row["note"] = text  # so that the full load has each of them, however small the city
    trips = [_past_trip(rng, 0, station_rows, bike_rows, member_rows, start) for _ in range(past_trips)]
    trips.sort(key=lambda row: row["started_at"])
    for row in trips:
        row["trip_id"] = database.next_id("trip", first=FIRST_TRIP_ID)

    racks: dict[int, list[int]] = {row["station_id"]: [] for row in station_rows}
    capacity = {row["station_id"]: row["capacity"] for row in station_rows}
    for bike in bike_rows:
        free = [number for number, rack in racks.items() if len(rack) < capacity[number]]
        racks[rng.choice(free)].append(bike["bike_id"])

    database.insert_initial("stations", station_rows)
    database.insert_initial("bikes", bike_rows)
    database.insert_initial("members", member_rows)
    database.insert_initial("trips", trips)
    database.insert_initial(
        "station_status",
        [
            {
                "station_id": number,
                "bikes_available": len(rack),
                "docks_available": capacity[number] - len(rack),
                "is_renting": True,
                "last_reported": _before(rng, start, timedelta(hours=1)),
            }
            for number, rack in racks.items()
        ],
    )
    database.insert_initial(
        "maintenance_tickets", [_past_ticket(rng, bike, start) for bike in bike_rows[::3]]
    )
    database.insert_initial("app_events", [_past_event(rng, trip) for trip in trips])
    database.connection.executemany(
        "INSERT INTO _bike_places VALUES (?, ?)",
        [(bike, number) for number, rack in racks.items() for bike in rack],
    )
    database.save()
    database.load_rows()


def _past_ticket(rng: Random, bike: Row, start: datetime) -> Row:
    closed_at = _before(rng, start, _PAST)
    return {
        "bike_id": bike["bike_id"],
        "ticket_no": 1,
        "opened_at": closed_at - timedelta(minutes=rng.randrange(60, 6000)),
        "closed_at": closed_at,
        "severity": rng.choice(("low", "medium", "high")),
        "description": vocabulary.complaint(rng),
        "cost": cents(rng.randrange(500, 30_000)) if rng.random() < 0.9 else None,
    }


def _past_event(rng: Random, trip: Row) -> Row:
    return {
        "event_time": trip["started_at"],
        "member_id": trip["member_id"],
        "event_name": "unlock",
        "payload": vocabulary.payload(rng, bike=trip["bike_id"]),
    }
