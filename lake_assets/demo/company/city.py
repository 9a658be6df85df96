"""The state of the city: who rides, where each bike is, and the transactions of daily business.

Here: starting and ending trips, using the app, and the lookups that all operations share. Not here: when things happen
(`simulation.py`, `demo/feed.py`), trucks, the workshop and the office (in other modules, all built on this one).

All state can be rebuilt from the source database, so a new process continues where a killed one stopped.
"""

from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

from lake_assets.demo.company import vocabulary
from lake_assets.demo.company.population import cents, fare, ride_km
from lake_assets.demo.source.source_database import Row, SourceDatabase, Transaction

_RECENT_TRIPS = 50_000
"""Ended trips that an operator may still correct; older ones are closed for good."""


class City:
    """The company's operations on its database; `rng` is the only source of randomness."""

    def __init__(self, database: SourceDatabase, rng: Random) -> None:
        self.database = database
        self.rng = rng
        self.stations = database.rows("stations")
        self.bikes = database.rows("bikes")
        self.members = database.rows("members")
        self.trips = database.rows("trips")
        self.status = database.rows("station_status")
        self.tickets = database.rows("maintenance_tickets")

        self.station_ids = [row["station_id"] for row in self.stations.values()]
        self.member_ids = [row["member_id"] for row in self.members.values()]
        self.closed_stations = {row["station_id"] for row in self.stations.values() if not row["is_active"]}
        self.racks: dict[int, list[int]] = {number: [] for number in self.station_ids}
        places = database.connection.execute("SELECT bike_id, station_id FROM _bike_places ORDER BY bike_id")
        for bike_id, station_id in places:
            self.racks[station_id].append(bike_id)
        self.empty_since: dict[int, datetime] = {
            number: self.status[number]["last_reported"] for number, rack in self.racks.items() if not rack
        }
        in_order = sorted(
            self.trips.values(), key=lambda row: (row["ended_at"] or row["started_at"], row["trip_id"])
        )
        self.open_trips: set[int] = {row["trip_id"] for row in in_order if row["ended_at"] is None}
        self.ended_trips = [row["trip_id"] for row in in_order if row["ended_at"] is not None]
        self._forget_old_trips()
        self.on_truck = self._with_status("in_transit")
        self.abandoned = self._with_status("abandoned")
        self.workshop: dict[int, int] = {
            row["bike_id"]: row["ticket_no"] for row in self.tickets.values() if row["closed_at"] is None
        }
        self.erased_members: list[Row] = []
        """Accounts that were deleted and may still be restored under their number."""

    def _forget_old_trips(self) -> None:
        """Forgets old trips: a feed that runs for weeks must not keep every trip in memory."""
        if len(self.ended_trips) > _RECENT_TRIPS * 1.2:
            self.database.forget("trips", self.ended_trips[:-_RECENT_TRIPS])
            del self.ended_trips[:-_RECENT_TRIPS]

    def _with_status(self, status: str) -> list[int]:
        return [row["bike_id"] for row in self.bikes.values() if row["status"] == status]

    def free_docks(self, station_id: int) -> int:
        """Docks that can take a bike; none at a closed station."""
        capacity: int = 0 if station_id in self.closed_stations else self.stations[station_id]["capacity"]
        return max(0, capacity - len(self.racks[station_id]))

    def nearest(self, station_id: int, wanted: set[int]) -> int | None:
        """The station among `wanted` that is nearest to a station, if any."""
        here = self.stations[station_id]

        def distance(number: int) -> tuple[float, int]:
            there = self.stations[number]
            north, east = there["latitude"] - here["latitude"], there["longitude"] - here["longitude"]
            return north * north + 0.45 * east * east, number

        return min(wanted - {station_id}, key=distance, default=None)

    def report(self, tx: Transaction, station_id: int) -> None:
        """Write the station's current counters."""
        rack = self.racks[station_id]
        if rack:
            self.empty_since.pop(station_id, None)
        else:
            self.empty_since.setdefault(station_id, tx.at)
        tx.update(
            "station_status",
            station_id,
            bikes_available=len(rack),
            docks_available=max(0, self.stations[station_id]["capacity"] - len(rack)),
            is_renting=station_id not in self.closed_stations,
            last_reported=tx.at,
        )

    def app_event(
        self, tx: Transaction, name: str, member_id: int | None, *, copies: int = 1, **details: Any
    ) -> None:
        """One event, or several that are identical in every column: legal in a table without a key."""
        text = vocabulary.payload(self.rng, **details)
        for _ in range(copies):
            row = {"event_time": tx.at, "member_id": member_id, "event_name": name, "payload": text}
            tx.insert("app_events", row)

    def use_app(self, at: datetime) -> None:
        """A rider browses the app, perhaps before signing in; rarely a retry sends everything twice."""
        rng = self.rng
        member = None if rng.random() < 0.3 else rng.choice(self.member_ids)
        with self.database.transaction(at) as tx:
            for _ in range(rng.randrange(1, 4)):
                self.app_event(tx, "view", member, copies=2 if rng.random() < 0.02 else 1)

    def miss_bike(self, at: datetime, station_id: int) -> None:
        """A rider finds an empty rack."""
        with self.database.transaction(at) as tx:
            self.app_event(tx, "no_bike_available", self.rng.choice(self.member_ids), station=station_id)

    def start_trip(self, at: datetime, station_id: int) -> int | None:
        """Take a bike from the rack; None if there is none or the station does not rent."""
        rack = self.racks[station_id]
        if not rack or station_id in self.closed_stations:
            return None
        rng = self.rng
        bike_id = rack.pop(rng.randrange(len(rack)))
        member_id = rng.choice(self.member_ids)
        trip_id = self.database.next_id("trip")
        with self.database.transaction(at) as tx:
            tx.insert(
                "trips",
                {
                    "trip_id": trip_id,
                    "bike_id": bike_id,
                    "member_id": member_id,
                    "start_station_id": station_id,
                    "end_station_id": None,
                    "started_at": tx.at,
                    "ended_at": None,
                    "distance_km": None,
                    "fare": None,
                },
            )
            tx.place_bike(bike_id, None)
            self.report(tx, station_id)
            if self.bikes[bike_id]["is_electric"]:
                # Only electric bikes report their position; a classic bike's is known from its trip.
                tx.update("bikes", bike_id, status="in_use")
            if rng.random() < 0.8:
                self.app_event(tx, "unlock", member_id, bike=bike_id, station=station_id)
        self.open_trips.add(trip_id)
        return trip_id

    def end_trip(self, at: datetime, trip_id: int, station_id: int | None) -> None:
        """Return the bike: to the station, to the nearest one with a free dock, or (None) into the bushes."""
        rng = self.rng
        trip = self.trips[trip_id]
        bike_id, member_id = trip["bike_id"], trip["member_id"]
        if station_id is not None and not self.free_docks(station_id):
            open_docks = {number for number in self.station_ids if self.free_docks(number)}
            station_id = self.nearest(station_id, open_docks)
        start = self.stations[trip["start_station_id"]]
        distance = None if station_id is None else ride_km(start, self.stations[station_id], rng)
        member = self.members.get(member_id)
        self.open_trips.discard(trip_id)
        self.ended_trips.append(trip_id)
        self._forget_old_trips()
        with self.database.transaction(at) as tx:
            if self.bikes[bike_id]["is_electric"]:
                tx.update("bikes", bike_id, status="available" if station_id is not None else "abandoned")
                if rng.random() < 0.7:
                    tx.update(
                        "bikes",
                        bike_id,
                        battery_percent=self._battery_after(bike_id, tx.at - trip["started_at"]),
                    )
            elif station_id is None:
                tx.update("bikes", bike_id, status="abandoned")
            tx.update(
                "trips",
                trip_id,
                end_station_id=station_id,
                ended_at=tx.at,
                distance_km=distance,
                fare=fare(tx.at - trip["started_at"], None if member is None else member["plan"]),
            )
            if station_id is None:
                self.abandoned.append(bike_id)
            else:
                self.racks[station_id].append(bike_id)
                tx.place_bike(bike_id, station_id)
                self.report(tx, station_id)
            if rng.random() < 0.8:
                copies = 2 if rng.random() < 0.01 else 1
                self.app_event(tx, "lock", member_id, copies=copies, bike=bike_id, stars=rng.randrange(1, 6))

    def _battery_after(self, bike_id: int, ridden: timedelta) -> Decimal:
        left = self.bikes[bike_id]["battery_percent"] - cents(int(ridden.total_seconds() / 3))
        # The crew swaps an empty battery on the spot.
        return left if left > 5 else cents(10_000)
