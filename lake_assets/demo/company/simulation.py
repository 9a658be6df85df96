"""The discrete event simulation that generates a history.

Here: a queue of future events, their effects, and keeping pace with the requested number of changes. Not here:
transactions (`city.py` and the modules that use it), or files (`demo/history.py`).
"""

import heapq
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial

from lake_assets.demo.company import corrections, rebalancing
from lake_assets.demo.company.city import City
from lake_assets.demo.company.demand import Demand, intensity
from lake_assets.demo.company.population import ride_km, ride_time
from lake_assets.demo.company.rare_changes import DURING_THE_FULL_LOAD, RARE_CHANGES, Operation

Event = Callable[[datetime], None]

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_CHANGES_PER_TRIP = 9.0
_APP_USES_PER_TRIP = 0.5


class Simulation:
    """Runs a city from `start` to `end` (UTC). Aims at `changes` changes, slightly more rather than fewer."""

    def __init__(
        self, city: City, start: datetime, end: datetime, *, changes: int, written: Callable[[], int]
    ) -> None:
        self.city = city
        self._start = start
        self._end = end
        self._changes = changes
        self._written = written
        self._demand = Demand(city)
        self._queue: list[tuple[datetime, int, Event]] = []
        self._scheduled = 0
        minutes = max(1, (end - start) // _MINUTE)
        curve = [intensity(start + n * _MINUTE) for n in range(minutes)]
        total = sum(curve)
        self._share = [value / total for value in curve]
        self._due = 0.0

    def schedule(self, at: datetime, event: Event) -> None:
        """Events at the same moment happen in the order they were scheduled."""
        self._scheduled += 1
        heapq.heappush(self._queue, (at, self._scheduled, event))

    def plan(self, load_read_at: datetime) -> None:
        """Fill the queue: the pulse of demand, trucks, and every rare change, some before `load_read_at`."""
        rng = self.city.rng
        self.schedule(self._start, partial(self._minute, 0))
        for truck in range(max(1, len(self.city.station_ids) // 12)):
            self.schedule(self._start + truck * timedelta(minutes=13), self._truck)

        window = load_read_at - self._start
        for operation in DURING_THE_FULL_LOAD:
            self.schedule(self._start + rng.uniform(0.05, 0.9) * window, partial(self._rare, operation))
        # Two of these trips end while the full load runs, the others are open in the LOAD file.
        for share in (0.05, 0.1, 0.5, 0.7):
            self.schedule(self._start + share * window, self._ride)

        for operation, per_100_000, at_least in RARE_CHANGES:
            for _ in range(max(at_least, round(per_100_000 * self._changes / 100_000))):
                at = load_read_at + rng.random() * (self._end - _MINUTE - load_read_at)
                self.schedule(at, partial(self._rare, operation))
        for share in (0.35, 0.8):
            at = load_read_at + share * (self._end - load_read_at)
            self.schedule(at, partial(self._rare, corrections.rename_district))

    def run(self) -> Iterator[datetime]:
        """Yields the time of each event before it happens; all commits are earlier than `end`."""
        while self._queue and self._queue[0][0] < self._end - 2 * _SECOND:
            at, _, event = heapq.heappop(self._queue)
            yield at
            event(at)
        while self._written() < self._changes:
            yield self._end - _SECOND
            self.city.use_app(self._end - _SECOND)

    def _minute(self, number: int, at: datetime) -> None:
        """Start trips: more if the changes so far are behind the planned curve, fewer if they are ahead."""
        rng = self.city.rng
        share = self._share[number]
        target = self._changes * 1.005
        behind = self._due * target - self._written()
        self._due += share
        rows = share * target
        pace = min(2.0, max(0.0, 1 + behind / (20 * rows)))
        for event, per_trip in ((self._ride, 1.0), (self.city.use_app, _APP_USES_PER_TRIP)):
            expected = rows * pace * per_trip / _CHANGES_PER_TRIP
            for _ in range(int(expected) + (rng.random() < expected % 1)):
                self.schedule(at + rng.random() * _MINUTE, event)
        if behind > max(60 * rows, 20.0):
            # Too few bikes for the requested trips: riders use the app instead.
            for _ in range(round(behind / 20)):
                self.schedule(at + rng.random() * _MINUTE, self.city.use_app)
        if number + 1 < len(self._share):
            self.schedule(at + _MINUTE, partial(self._minute, number + 1))

    def _ride(self, at: datetime) -> None:
        city, rng = self.city, self.city.rng
        start = self._demand.start(rng, at)
        trip_id = city.start_trip(at, start)
        if trip_id is None:
            city.miss_bike(at, start)
            with_bikes = {
                number for number, rack in city.racks.items() if rack and number not in city.closed_stations
            }
            walked_to = city.nearest(start, with_bikes)
            if walked_to is None or rng.random() < 0.5:
                return
            at += timedelta(minutes=rng.uniform(2, 8))
            self.schedule(at, partial(self._ride_from, walked_to))
            return
        self._ride_on(at, trip_id, start)

    def _ride_from(self, start: int, at: datetime) -> None:
        trip_id = self.city.start_trip(at, start)
        if trip_id is not None:
            self._ride_on(at, trip_id, start)

    def _ride_on(self, at: datetime, trip_id: int, start: int) -> None:
        city, rng = self.city, self.city.rng
        end = self._demand.end(rng, at)
        taken = ride_time(ride_km(city.stations[start], city.stations[end], rng), rng)
        left_outside = rng.random() < 0.012
        self.schedule(at + taken, lambda when: city.end_trip(when, trip_id, None if left_outside else end))

    def _truck(self, at: datetime) -> None:
        """A round: see who needs bikes, load elsewhere, drive, unload, rest."""
        city, rng = self.city, self.city.rng
        back = at + timedelta(minutes=rng.uniform(15, 40))
        station_id = rebalancing.neediest_station(city, at)
        if station_id is not None or city.abandoned:
            rebalancing.collect_abandoned(city, at)
            target = station_id if station_id is not None else rng.choice(city.station_ids)
            rebalancing.load_truck(city, at, max(0, 8 - len(city.on_truck)))
            arrival = at + timedelta(minutes=rng.uniform(8, 20))
            self.schedule(arrival, lambda when: self._unload(target, when))
            back = arrival + timedelta(minutes=5)
        self.schedule(back, self._truck)

    def _unload(self, station_id: int, at: datetime) -> None:
        city = self.city
        if city.on_truck and not rebalancing.unload_truck(city, at, station_id):
            elsewhere = city.nearest(
                station_id, {number for number in city.station_ids if city.free_docks(number)}
            )
            if elsewhere is not None:
                rebalancing.unload_truck(city, at, elsewhere)

    def _rare(self, operation: Operation, at: datetime) -> None:
        if not operation(self.city, at):
            # Nothing fitted now (an empty rack, a member on a bike): soon something will.
            again = at + timedelta(minutes=self.city.rng.uniform(1, 15))
            if again < self._end - _MINUTE:
                self.schedule(again, partial(self._rare, operation))
