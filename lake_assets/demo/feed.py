"""A live feed: the simulation continues in real time and writes CDC files.

Here: pace, clock, flushing, stopping. Not here: the state that survives a kill (`demo/source/source_database.py`,
`outbox.py`), the city's transactions (`demo/company/city.py` and the modules on it).
"""

import fcntl
import heapq
import logging
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lake_assets.demo.company import rebalancing
from lake_assets.demo.company.city import City
from lake_assets.demo.company.population import ride_time
from lake_assets.demo.company.rare_changes import RARE_CHANGES
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.dms.output_storage import open_storage
from lake_assets.demo.dms.written_files import WrittenFiles
from lake_assets.demo.outbox import Outbox
from lake_assets.demo.source.source_database import SourceDatabase

_LOG = logging.getLogger(__name__)

_TICK = 0.1
"""Seconds between two checks of the clock."""

_LONGEST_BURST = 0.5
"""The most seconds that changes take between two checks of flushes and of the end, if the machine cannot keep the
rate."""


_UPHILL = 6
"""Each sixth station is on a hill: twice as many people take a bike there, and nobody rides up."""

_TRUCK_STOPS = 1 / 2500
"""The share of transactions that are a truck's stop. At the usual pace there is one in four minutes, so that a rack on
a hill is empty for about forty: some of them are always close to the limit of half an hour, or beyond it."""


class _LiveCity:
    """Chooses the next transaction of a city at a given pace, whatever its demand."""

    def __init__(self, city: City) -> None:
        self._city = city
        self._starts = [2 if self._is_uphill(number) else 1 for number in city.station_ids]
        self._ends = [
            number for number in city.station_ids if not self._is_uphill(number)
        ] or city.station_ids
        self._arrivals: list[tuple[datetime, int]] = []
        for trip_id in sorted(city.open_trips):
            self._expect(trip_id, city.trips[trip_id]["started_at"])

    @staticmethod
    def _is_uphill(station_id: int) -> bool:
        return station_id % _UPHILL == 0

    def _expect(self, trip_id: int, started_at: datetime) -> None:
        heapq.heappush(self._arrivals, (started_at + ride_time(2.0, self._city.rng), trip_id))

    def step(self, at: datetime) -> None:
        """One transaction or a few."""
        city, rng = self._city, self._city.rng
        draw = rng.random()
        if draw < 0.015:
            weights = [change.per_100_000 for change in RARE_CHANGES]
            rng.choices(RARE_CHANGES, weights)[0].operation(city, at)
        elif draw < 0.2:
            city.use_app(at)
        elif draw > 1 - _TRUCK_STOPS:
            self._truck(at)
        else:
            self._ride(at)

    def _ride(self, at: datetime) -> None:
        city, rng = self._city, self._city.rng
        # With a fast feed rides end early: there are not enough bikes for rides of a natural length.
        crowded = len(self._arrivals) >= len(city.bikes) // 5
        due = bool(self._arrivals) and self._arrivals[0][0] <= at and rng.random() < 0.6
        if crowded or due:
            _, arriving = heapq.heappop(self._arrivals)
            city.end_trip(at, arriving, None if rng.random() < 0.006 else rng.choice(self._ends))
            return
        station_id = rng.choices(city.station_ids, self._starts)[0]
        trip_id = city.start_trip(at, station_id)
        if trip_id is None:
            city.miss_bike(at, station_id)
        else:
            self._expect(trip_id, city.database.last_commit)

    def _truck(self, at: datetime) -> None:
        """Goes to the rack that has been empty for longest."""
        city = self._city
        rebalancing.collect_abandoned(city, at)
        rebalancing.load_truck(city, at, max(0, 8 - len(city.on_truck)))
        station_id = rebalancing.neediest_station(city, at, timedelta(0))
        if station_id is not None:
            rebalancing.unload_truck(city, at, station_id)


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """SIGTERM and SIGINT set `stop`; only the main thread can handle signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handle(number: int, frame: Any) -> None:
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _only_feed(database_path: Path) -> Iterator[None]:
    """Locks the database against a second feed; the operating system releases the lock however the process ends."""
    with database_path.with_name(f".{database_path.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"another feed is running on {database_path}; stop it first") from None
        yield


def run_feed(
    location: str | Path,
    database_path: Path,
    *,
    rate: float = 20.0,
    flush_seconds: float = 5.0,
    duration: float | None = None,
    stop: threading.Event | None = None,
    seed: int | None = None,
    endpoint_url: str | None = None,
) -> WrittenFiles:
    """Continue a history in real time, at about `rate` changes a second.

    Each table's file, or with preserve_transactions the one of all tables, is flushed `flush_seconds` after the first
    commit in it. Runs until `stop` is set, SIGTERM or SIGINT arrives, or `duration` seconds have passed; then flushes
    the remaining commits. `duration=0` only flushes the changes that a killed feed left. Commit timestamps are the wall
    clock's (UTC), or follow the newest commit if that lies in the future; the time since the last feed is skipped.
    Files have the settings of the history, and `location` must be the history's too.

    A kill at any moment is harmless: the database is then ahead of the files by the changes in its outbox, and the next
    call writes exactly these first.

    Raises FileNotFoundError without a history, RuntimeError if another feed runs on the database, ValueError for a
    rate or interval that is not positive, and whatever the storage raises; the next call repeats an interrupted flush.
    """
    if rate <= 0 or flush_seconds <= 0:
        raise ValueError(f"rate {rate} and flush_seconds {flush_seconds} have to be positive")
    if not database_path.exists():
        raise FileNotFoundError(f"{database_path} does not exist; generate_history writes it")
    stop = stop or threading.Event()
    written = WrittenFiles()
    began = time.monotonic()
    with _only_feed(database_path), _stopped_by_signals(stop):
        database = SourceDatabase(database_path)
        try:
            settings = DmsWriterSettings.from_json(database.get_state("settings", {}))
            storage = open_storage(location, endpoint_url=endpoint_url)
            outbox = Outbox(database, storage, settings, written)
            database.sink = outbox
            outbox.finish_files()
            live = _LiveCity(City(database, random.Random(seed)))
            _LOG.info("feed continues after %s at %s changes a second", database.last_commit, rate)
            _run(database, outbox, live, rate, timedelta(seconds=flush_seconds), duration, stop)
        finally:
            database.close()
    written.seconds = time.monotonic() - began
    return written


def _run(
    database: SourceDatabase,
    outbox: Outbox,
    live: _LiveCity,
    rate: float,
    flush_interval: timedelta,
    duration: float | None,
    stop: threading.Event,
) -> None:
    ahead = max(timedelta(0), database.last_commit - datetime.now(UTC))
    began = checked = time.monotonic()
    allowed = 0.0
    while True:
        now = datetime.now(UTC) + ahead
        over = stop.is_set() or (duration is not None and time.monotonic() - began >= duration)
        for stream, first_commit in list(outbox.first_commits.items()):
            if over or now >= first_commit + flush_interval:
                outbox.flush(stream, now)
        if over:
            return
        # Changes that were missed while the machine paused are not caught up all at once.
        allowed = min(allowed + rate * (time.monotonic() - checked), 2 * rate + 1)
        checked = time.monotonic()
        while allowed > 0 and not stop.is_set() and time.monotonic() - checked < _LONGEST_BURST:
            before = outbox.taken
            live.step(datetime.now(UTC) + ahead)
            allowed -= max(1, outbox.taken - before)
        stop.wait(_TICK)
