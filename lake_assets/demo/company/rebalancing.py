"""Trucks that bring bikes to empty racks.

Here: loading and unloading. Not here: how often a truck leaves (`simulation.py`, `demo/feed.py`).
"""

from datetime import datetime, timedelta

from lake_assets.demo.company.city import City

_EMPTY_BEFORE_A_TRUCK_COMES = timedelta(minutes=40)


def neediest_station(
    city: City, at: datetime, empty_for: timedelta = _EMPTY_BEFORE_A_TRUCK_COMES
) -> int | None:
    """The open station whose rack has been empty for longest; None if no rack has been empty for so long."""
    waiting = [
        (since, number) for number, since in city.empty_since.items() if number not in city.closed_stations
    ]
    if not waiting:
        return None
    since, number = min(waiting)
    return number if at - since >= empty_for else None


def load_truck(city: City, at: datetime, wanted: int) -> int:
    """Put up to `wanted` bikes of the fullest rack on the truck, in one transaction; returns how many are on it."""
    donor = max(
        city.station_ids,
        key=lambda number: (len(city.racks[number]) / city.stations[number]["capacity"], number),
    )
    rack = city.racks[donor]
    taken = [rack.pop() for _ in range(min(wanted, len(rack) * 2 // 3))]
    if taken:
        with city.database.transaction(at) as tx:
            for bike_id in taken:
                tx.update("bikes", bike_id, status="in_transit")
                tx.place_bike(bike_id, None)
            city.report(tx, donor)
        city.on_truck += taken
    return len(city.on_truck)


def collect_abandoned(city: City, at: datetime) -> bool:
    """Put bikes that were left outside a station on the truck; returns whether there were any."""
    if not city.abandoned:
        return False
    with city.database.transaction(at) as tx:
        for bike_id in city.abandoned:
            tx.update("bikes", bike_id, status="in_transit")
    city.on_truck += city.abandoned
    city.abandoned = []
    return True


def unload_truck(city: City, at: datetime, station_id: int) -> bool:
    """Fill the station's free docks from the truck, in one transaction; returns whether any bike fitted."""
    fitting = city.on_truck[: city.free_docks(station_id)]
    if not fitting:
        return False
    del city.on_truck[: len(fitting)]
    city.racks[station_id] += fitting
    with city.database.transaction(at) as tx:
        for bike_id in fitting:
            tx.update("bikes", bike_id, status="available")
            tx.place_bike(bike_id, station_id)
        city.report(tx, station_id)
    return True
