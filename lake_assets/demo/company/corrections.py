"""The office corrects what was recorded: trips of past days, stations, districts.

Here: late corrections of trips and rare changes of `stations`. Not here: accounts (`membership.py`) or bikes
(`workshop.py`). Each operation returns whether it found something to do.
"""

from datetime import datetime, timedelta

from lake_assets.demo.company.city import City
from lake_assets.demo.company.population import cents
from lake_assets.demo.company.vocabulary import RENAMED_DISTRICTS
from lake_assets.demo.source.source_database import Row

_LATE = timedelta(days=2)


def _late_trips(city: City, at: datetime, most: int) -> list[Row]:
    """Some trips of one single day, ended at least two days ago."""
    rows = (city.trips.get(city.rng.choice(city.ended_trips)) for _ in range(40))
    late = [
        row for row in rows if row is not None and row["ended_at"] < at - _LATE and row["fare"] is not None
    ]
    same_day = {row["trip_id"]: row for row in late if row["ended_at"].date() == late[0]["ended_at"].date()}
    return list(same_day.values())[:most]


def correct_fares(city: City, at: datetime) -> bool:
    """Finance goes through a past day: other fares, in one transaction."""
    if not (trips := _late_trips(city, at, 5)):
        return False
    with city.database.transaction(at) as tx:
        for row in trips:
            tx.update("trips", row["trip_id"], fare=row["fare"] + cents(city.rng.randrange(1, 500)))
    return True


def correct_end(city: City, at: datetime) -> bool:
    """A trip of a past day ended on another day than recorded."""
    if not (trips := _late_trips(city, at, 1)):
        return False
    ended_at = trips[0]["ended_at"] + timedelta(days=1)
    with city.database.transaction(at) as tx:
        tx.update(
            "trips",
            trips[0]["trip_id"],
            ended_at=ended_at,
            fare=None if city.rng.random() < 0.2 else cents(2_500),
        )
    return True


def void_trip(city: City, at: datetime) -> bool:
    """One of the last trips never happened."""
    for trip_id in reversed(city.ended_trips[-10:]):
        if trip_id in city.trips:
            city.ended_trips.remove(trip_id)
            with city.database.transaction(at) as tx:
                tx.delete("trips", trip_id)
            return True
    return False


def rename_district(city: City, at: datetime) -> bool:
    """Every station of a district changes in one transaction."""
    for old, new in RENAMED_DISTRICTS.items():
        stations = [row["station_id"] for row in city.stations.values() if row["district"] == old]
        if stations:
            with city.database.transaction(at) as tx:
                for station_id in stations:
                    tx.update("stations", station_id, district=new)
            return True
    return False


def close_or_open_station(city: City, at: datetime) -> bool:
    """Works in the street begin, or end; two tables change together."""
    opens = bool(city.closed_stations) and city.rng.random() < 0.7
    station_id = min(city.closed_stations) if opens else city.rng.choice(city.station_ids)
    city.closed_stations ^= {station_id}
    with city.database.transaction(at) as tx:
        tx.update("stations", station_id, is_active=station_id not in city.closed_stations)
        city.report(tx, station_id)
    return True


def add_docks(city: City, at: datetime) -> bool:
    """A station grows by a few docks."""
    station_id = city.rng.choice(city.station_ids)
    with city.database.transaction(at) as tx:
        tx.update(
            "stations", station_id, capacity=city.stations[station_id]["capacity"] + city.rng.randrange(1, 4)
        )
        city.report(tx, station_id)
    return True
