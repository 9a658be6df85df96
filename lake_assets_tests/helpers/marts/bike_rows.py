"""Rows of stations, trips and racks' states, written by hand; times are of March 2024.

Here: rows by what a test says of them. Not here: spells without bikes (`rack_spells.py`), computing marts
(`mart_frames.py`).
"""

from datetime import datetime
from decimal import Decimal
from itertools import count
from typing import Any

from lake_assets_tests.helpers.marts.mart_frames import Row


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


def station(number: int, district: str) -> Row:
    return {"station_id": number, "name": f"Rack {number}", "district": district, "capacity": 9}
