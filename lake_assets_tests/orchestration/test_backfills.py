"""Backfills as Dagster's UI launches them, beside a live feed: one run for a range, a run for each day, some killed.

The marts' code has changed, so that only a backfill computes the old days again. Here: webserver, daemon, and what the
marts are in the end. Not here: which days the sensor requests (`sensors/test_mart_sensor.py`).
"""

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from lake_assets.demo.compare import source_rows
from lake_assets.demo.feed import run_feed
from lake_assets.demo.source.bike_schema import TABLES
from lake_assets.gold.periods.grain import Grain
from lake_assets.orchestration.lake_definitions import Lake
from lake_assets_tests.helpers.marts.rides_at_once import HOLD, VERSION
from lake_assets_tests.helpers.orchestration.backfills import Backfill, backfill
from lake_assets_tests.helpers.orchestration.dagster_dev import (
    Dev,
    caught_up,
    running,
    trips_by_day,
    write_history,
)

pytestmark = [pytest.mark.spark, pytest.mark.long]

AT_ONCE, BY_DAY = MARTS = ("rides_at_once", "rides_by_day")
MODULES = [f"lake_assets_tests.helpers.marts.{mart}" for mart in MARTS]


HOURS = 1_000
LONG = int(os.environ.get("LAKE_BACKFILL_DAYS", "400"))


@pytest.mark.parametrize(
    ("days", "continuous"),
    [(12, False), (12, True), pytest.param(LONG, False, marks=pytest.mark.timeout(7200))],
)
def test_killed_backfills_beside_a_feed(tmp_path: Path, days: int, continuous: bool) -> None:
    """kill -9 of one run of each backfill; of the long one later also of Dagster, Spark and all."""
    (tmp_path / VERSION).write_text("1")
    for dev in running(tmp_path, days=days - 1, marts=MODULES, continuous=continuous):
        write_history(dev, days=days - 1, changes=25 * days)
        lake = dev.lake()
        wait_for_marts(dev, lake)
        assert_rides(dev, lake, version=1)
        (tmp_path / VERSION).write_text("2")
        partitions = [str(dev.start.date() + timedelta(days=n)) for n in range(days)]
        with fed(dev, flush_seconds=max(2, days / 20)):
            with held(dev):
                at_once = backfill(dev, AT_ONCE, partitions)
                dev.wait("failed run", at_once.kill_a_run)
            by_day = backfill(dev, BY_DAY, partitions)
            wait_for_runs(by_day, days // 2)
            with held(dev):
                dev.wait("failed run", by_day.kill_a_run)
            before = runs_of_sensor(dev)
            if days > 12:
                wait_for_runs(by_day, days * 3 // 4)
                dev.kill_all()
                dev.up()
            assert dev.wait("end", by_day.ended, 60 * days) == at_once.ended() == "COMPLETED_FAILED"
            assert (at_once.count(), by_day.count()) == (1, days)
            assert runs_of_sensor(dev) > before, "the marts have not waited for the end"
            took = by_day.seconds()
            print(
                f"{days} days: a run for each took {took[len(took) // 2]:.1f} s (median), {sum(took):.0f} s in all"
            )
            for killed in (at_once, by_day):
                again = killed.failed_again()
                assert dev.wait("end", again.ended) == "COMPLETED_SUCCESS"
                assert again.count() == killed.count("FAILURE")
                if killed is at_once:
                    print(f"{days} days: one run for all of them took {again.seconds()[0]:.1f} s")
        wait_for_marts(dev, lake)
        assert_rides(dev, lake, version=2)


def test_a_thousand_hours_of_which_a_run_is_killed(tmp_path: Path) -> None:
    """Four runs of 250 partitions each, the second of which dies, and what failed once more."""
    (tmp_path / VERSION).write_text("1")
    mart = "rides_by_hour"
    for dev in running(tmp_path, days=HOURS / 24, marts=[f"lake_assets_tests.helpers.marts.{mart}"]):
        write_history(dev, days=HOURS / 24, changes=2_000)
        lake = dev.lake()
        wait_for_marts(dev, lake)
        assert rides_by_hour(lake) == {hour: (rides, 1) for hour, rides in hours_of_source(dev).items()}
        (tmp_path / VERSION).write_text("2")
        first = Grain.HOUR.of(dev.start)
        hours = [first + timedelta(hours=n) for n in range(HOURS)]
        launched = backfill(dev, mart, [Grain.HOUR.key(hour) for hour in hours])
        wait_for_runs(launched, 1)
        with held(dev):
            dev.wait("failed run", launched.kill_a_run)
        assert dev.wait("end", launched.ended, 900) == "COMPLETED_FAILED"
        assert (launched.count("SUCCESS"), launched.count("FAILURE")) == (3, 1)
        print(f"{HOURS} hours in 4 runs: {launched.seconds()} s")
        again = launched.failed_again()
        assert dev.wait("end", again.ended, 300) == "COMPLETED_SUCCESS"
        assert again.count() == 1
        inside = {hour: (rides, 2 if hour in hours else 1) for hour, rides in hours_of_source(dev).items()}
        assert rides_by_hour(lake) == inside


def rides_by_hour(lake: Lake) -> dict[datetime, tuple[int, int]]:
    """By hour, the rides and the version by which they were computed."""
    rows = lake.runtime.catalog.load_table("gold.rides_by_hour").scan().to_arrow().to_pylist()
    return {row["hour"]: (row["rides"], row["version"]) for row in rows}


def hours_of_source(dev: Dev) -> Counter[datetime]:
    """The rides by hour from the first partition on, by the source's own database."""
    column = TABLES["trips"].column_names.index("started_at")
    first = datetime.combine(dev.start.date(), time(), UTC)
    hours = (
        row[column].replace(minute=0, second=0, microsecond=0) for row in source_rows(dev.database)["trips"]
    )
    return Counter(hour for hour in hours if hour >= first)


@contextmanager
def held(dev: Dev) -> Iterator[None]:
    """Inside the block, no run computes."""
    (dev.folder / HOLD).touch()
    yield
    (dev.folder / HOLD).unlink()


def wait_for_runs(launched: Backfill, number: int) -> None:
    """Waits until so many runs of the backfill have succeeded."""
    launched.dev.wait("more runs", lambda: launched.count("SUCCESS") >= number, 60 * number)


def wait_for_marts(dev: Dev, lake: Lake) -> None:
    """Waits until silver equals the source and no mart is stale."""
    dev.wait("equal tables and marts", lambda: caught_up(dev, lake))


def runs_of_sensor(dev: Dev) -> int:
    """How many runs the sensor has requested for the marts."""
    return len(dev.runs('{tags: [{key: "dagster/sensor_name", value: "marts"}]}'))


@contextmanager
def fed(dev: Dev, flush_seconds: float) -> Iterator[None]:
    """Inside the block, the source changes and its files land."""
    stop = Event()
    feed = partial(run_feed, dev.folder / ".lake/bronze", dev.database, rate=5, seed=5)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(feed, flush_seconds=flush_seconds, stop=stop)
        try:
            yield
        finally:
            stop.set()
        done.result()


def assert_rides(dev: Dev, lake: Lake, version: int) -> None:
    """Both marts have the source's rides of every day, all computed by this version."""
    expected = sorted((day, rides, version) for day, rides in trips_by_day(dev).items())
    for mart in MARTS:
        every = lake.runtime.catalog.load_table(f"gold.{mart}").scan().to_arrow().to_pylist()
        # In a continuous lake, the marts begin some days before the history.
        rows = [row for row in every if row["day"] >= dev.start.date()]
        assert sorted((row["day"].isoformat(), row["rides"], row["version"]) for row in rows) == expected, (
            mart
        )
