"""Marts follow silver exactly, and are computed for the touched days only.

Here: files in several rounds through real runs; after each one the marts must equal everything computed anew from
silver, and the requested days must be the touched ones. The lake is shared and every test begins with nothing to do, on
days of its own. Not here: what a day's rows are (`marts/`), the decision alone (`test_changed_periods.py`).
"""

import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lake_assets.demo.marts.trip_revenue_daily import MART as TRIP_REVENUE_DAILY
from lake_assets.demo.replay import read_files
from lake_assets.gold.mart import MartRequest
from lake_assets.orchestration.assets.mart_runs import MartRun
from lake_assets_tests.helpers.lakes.bike_lake import (
    DAILY,
    EMPTY_NOW,
    MARTS,
    REVENUE,
    USED,
    BikeLake,
    Row,
    at,
    days,
    station,
    status,
    trip,
)
from lake_assets_tests.helpers.oracles.demo_history import make_history

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TODAY = 10
EVERY_DAY = days(*range(1, TODAY + 1))
ROUNDS = 3


def trips_changed(op: str, *rows: Row) -> list[tuple[str, str, Row]]:
    return [("trips", op, row) for row in rows]


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BikeLake]:
    """Ten days of a small city, applied."""
    lake = BikeLake(tmp_path_factory.mktemp("bikes"))
    lake.load("stations", at(1, "00:00"), [station(1, "north"), station(2, "south"), station(3, "south")])
    lake.load("station_status", at(1, "00:00:01"), [status(number, 5, at(1)) for number in (1, 2, 3)])
    ridden = [trip(n, at(n, "08:00"), at(n, "08:30")) for n in range(1, TODAY + 1)]
    lake.load("trips", at(1, "00:00:02"), ridden)
    lake.change(at(3, "10:00"), ("station_status", "U", status(3, 0, at(3, "10:00"))))
    lake.change(at(4, "06:00"), ("station_status", "U", status(3, 2, at(4, "06:00"))))
    lake.clock = at(TODAY)
    lake.change(lake.clock, *trips_changed("U", {"trip_id": TODAY, "fare": "3.00"}))
    assert lake.apply().success
    yield lake
    lake.instance.dispose()


@pytest.fixture
def bikes(shared: BikeLake) -> BikeLake:
    """The lake with nothing to do."""
    shared.compute()
    assert shared.requested() == {}
    return shared


def commit(bikes: BikeLake, *changes: tuple[str, str, Row], **arguments: Any) -> list[str]:
    """A transaction a minute after the last one."""
    bikes.clock += timedelta(minutes=1)
    return bikes.change(bikes.clock, *changes, **arguments)


def test_first_everything_is_computed(shared: BikeLake) -> None:
    assert shared.compute() == {DAILY: EVERY_DAY, REVENUE: EVERY_DAY, EMPTY_NOW: None}
    shared.check()
    assert shared.requested() == {}


def test_a_correction_touches_the_old_days_and_the_new_ones_alone(bikes: BikeLake) -> None:
    """A trip's end moves to another day, another one's start does, and the only trip of a day is deleted."""
    before = {mart: bikes.files(mart) for mart in (DAILY, REVENUE)}
    commit(
        bikes,
        ("trips", "U", {"trip_id": 3, "ended_at": at(6, "08:30")}),
        ("trips", "U", {"trip_id": 9, "started_at": at(7, "23:00")}),
        ("trips", "D", {"trip_id": 5}),
    )
    bikes.apply("trips")
    # Revenue counts on the day of the end, which the ninth trip has kept; its row is touched all the same.
    touched = {DAILY: days(3, 5, 6, 7, 9, TODAY), REVENUE: days(3, 5, 6, 9)}
    assert bikes.compute() == {**touched, EMPTY_NOW: None}
    bikes.check()
    for mart, files in before.items():
        after = bikes.files(mart)
        assert {day for day in EVERY_DAY if after.get(day) != files.get(day)} == touched[mart]
    assert date(2024, 3, 5) not in bikes.files(REVENUE), "its last row is gone"


@pytest.mark.long
def test_a_renamed_district_touches_every_day(bikes: BikeLake) -> None:
    commit(bikes, ("stations", "U", {"station_id": 2, "district": "harbour"}))
    bikes.apply("stations")
    assert bikes.compute() == {DAILY: EVERY_DAY, REVENUE: EVERY_DAY, EMPTY_NOW: None}
    bikes.check()


@pytest.mark.long
def test_a_late_status_touches_its_day_and_all_later_ones(bikes: BikeLake) -> None:
    """Files whose commits are older than what is applied: a spell begins on the 7th and ends on the 8th."""
    bikes.change(at(7, "23:50"), ("station_status", "U", status(1, 0, at(7, "23:50"))))
    bikes.change(at(8, "00:40"), ("station_status", "U", status(1, 4, at(8, "00:40"))))
    bikes.apply("station_status", "station_status_changes")
    assert bikes.compute() == {DAILY: days(7, 8, 9, TODAY), EMPTY_NOW: None}
    bikes.check()
    eighth = {
        row["station_id"]: row for row in bikes.rows("gold.station_daily") if row["day"] == date(2024, 3, 8)
    }
    assert (eighth[1]["minutes_empty"], eighth[1]["empty_limit_breaches"]) == (40.0, 1)


@pytest.mark.long
def test_a_kill_between_two_runs_of_a_list_loses_nothing(bikes: BikeLake) -> None:
    commit(bikes, *(("trips", "U", {"trip_id": n, "fare": "7.00"}) for n in (1, 2, 7)))
    bikes.apply("trips")
    assert bikes.requested() == {DAILY: days(1, 2, 7, TODAY), REVENUE: days(1, 2, 7), EMPTY_NOW: None}
    (second,) = (run for run in bikes.work().runs if run.periods == (date(2024, 3, 7), date(2024, 3, 7)))
    assert set(second.marts) == {DAILY, REVENUE}, "marts that need the same days share a run"
    assert bikes.run(second).success
    # Killed here, and Dagster's storage lost. Meanwhile another change has come.
    commit(bikes, *trips_changed("U", {"trip_id": 8, "fare": "8.00"}))
    bikes.restart()
    bikes.apply("trips")
    assert bikes.compute() == {DAILY: days(1, 2, 8, TODAY), REVENUE: days(1, 2, 8), EMPTY_NOW: None}
    bikes.check()


@pytest.mark.long
def test_silver_moves_between_the_plan_and_the_run(bikes: BikeLake) -> None:
    commit(bikes, *trips_changed("U", {"trip_id": 2, "fare": "1.00"}))
    bikes.apply("trips")
    planned = [run for run in bikes.work().runs if run.periods == (date(2024, 3, 2), date(2024, 3, 2))]
    commit(bikes, *trips_changed("U", {"trip_id": 2, "ended_at": at(9, "08:30")}))
    bikes.apply("trips")
    for run in planned:
        assert bikes.run(run).success
    # The run has seen the second change, and knows that the 9th is still to be computed.
    assert bikes.compute() == {DAILY: days(9, TODAY), REVENUE: days(9), EMPTY_NOW: None}
    bikes.check()


@pytest.mark.long
def test_two_runs_of_one_mart_at_once(bikes: BikeLake) -> None:
    """The second one publishes while the first computes: the first stores what it has computed."""
    commit(bikes, *(("trips", "U", {"trip_id": n, "fare": "2.00"}) for n in (1, 7)))
    bikes.apply("trips")
    first, second = (run for run in bikes.work().runs if REVENUE in run.marts)
    computed: list[tuple[date, date]] = []

    def revenue(request: MartRequest) -> DataFrame:
        computed.append(request.days)
        if len(computed) == 1:
            assert bikes.run(second).success
        return TRIP_REVENUE_DAILY.compute(request)

    bikes.restart(
        [replace(TRIP_REVENUE_DAILY, compute=revenue), *bikes.lake.marts[:1], *bikes.lake.marts[2:]]
    )
    assert bikes.run(first).success
    assert computed == [first.periods, second.periods]
    assert bikes.requested() == {DAILY: days(TODAY), EMPTY_NOW: None}
    bikes.restart()
    bikes.compute()
    bikes.check()


@pytest.mark.long
def test_a_range_by_hand(bikes: BikeLake) -> None:
    commit(bikes, *(("trips", "U", {"trip_id": n, "fare": "9.00"}) for n in (6, 8)))
    bikes.apply("trips")
    result = bikes.run(MartRun((DAILY, REVENUE), (date(2024, 3, 4), date(2024, 3, 7))))
    assert result.success
    events = result.get_asset_materialization_events()
    assert {(event.asset_key.path[-1], event.partition) for event in events if event.asset_key} == {
        (mart, f"2024-03-0{number}") for mart in (DAILY, REVENUE) for number in (4, 5, 6, 7)
    }
    # What of the list lay in the range is done, the rest is not; days that were not on it do no harm.
    assert bikes.compute() == {DAILY: days(8, TODAY), REVENUE: days(8), EMPTY_NOW: None}
    bikes.check()


@pytest.mark.long
def test_a_day_by_hand_before_all_data_widens_nothing(tmp_path: Path) -> None:
    bikes = BikeLake(tmp_path, marts=MARTS[:2])
    bikes.load("stations", at(8), [station(1, "north")])
    bikes.load("station_status", at(8), [status(1, 5, at(8))])
    bikes.load("trips", at(8), [trip(n, at(n, "08:00"), at(n, "08:30")) for n in (8, 9)])
    bikes.clock = at(9)
    commit(bikes, *trips_changed("U", {"trip_id": 9, "fare": "3.00"}))
    assert bikes.apply().success
    assert bikes.compute() == {DAILY: days(8, 9), REVENUE: days(8, 9)}
    by_hand = date(2024, 3, 2)
    assert bikes.run(MartRun((DAILY, REVENUE), (by_hand, by_hand))).success
    commit(bikes, ("stations", "U", {"station_id": 1, "district": "harbour"}))
    bikes.apply("stations")
    assert bikes.compute() == {DAILY: days(2, 8, 9), REVENUE: days(8, 9)}
    bikes.check()
    # Data from between the two: the quiet days after it, as if all were computed at once.
    commit(bikes, *trips_changed("I", trip(4, at(4, "08:00"), at(4, "08:30"))))
    bikes.apply("trips")
    assert bikes.compute() == {DAILY: days(4, 5, 6, 7, 9), REVENUE: days(4, 5, 6, 7)}
    bikes.check()
    bikes.instance.dispose()


@pytest.mark.long
def test_a_failed_table_stops_its_marts_alone(bikes: BikeLake) -> None:
    """A trip that cannot be decoded. The marts that read trips wait, the one that does not is computed."""
    good = trip(103, at(6, "09:00"), at(6, "09:10"))
    (key,) = commit(bikes, *trips_changed("I", good | {"bike_id": "no number"}))
    commit(bikes, ("station_status", "U", status(2, 0, bikes.clock)))
    assert not bikes.apply().success
    work = bikes.work()
    assert [run.marts for run in work.runs] == [(EMPTY_NOW,)]
    assert work.reasons == (f"{DAILY} waits for silver/bikeshare/trips: applied",)
    before = bikes.files(DAILY)
    forced = bikes.run(MartRun((DAILY,), (date(2024, 3, TODAY), date(2024, 3, TODAY))))
    assert not forced.success
    assert "not computed while a check of its inputs fails" in str(forced.all_events)
    assert not any(event.is_step_up_for_retry for event in forced.all_events)
    assert bikes.files(DAILY) == before
    bikes.compute()
    assert 2 in {row["station_id"] for row in bikes.rows("gold.racks_empty_now")}

    # DMS writes the file again, as it should have been.
    bikes.change(bikes.clock, *trips_changed("I", good), key=key.rsplit("/", 1)[-1])
    assert bikes.apply("trips").success
    assert bikes.compute() == {DAILY: days(6, TODAY), REVENUE: days(6)}
    bikes.check()


@pytest.mark.long
def test_maintenance_is_no_change(bikes: BikeLake) -> None:
    """Files of silver and gold rewritten, properties repeated in a commit without rows, snapshots expired."""
    catalog, session = bikes.lake.config.catalog.name, bikes.lake.runtime.sessions.root()
    trips, files = "silver_bikeshare.trips", bikes.files(DAILY)
    consumed = load(bikes, trips).current_snapshot().snapshot_id
    stamped = load(bikes, trips).current_snapshot().summary.additional_properties
    for table in (trips, "silver_bikeshare.stations", "gold.station_daily", "gold.racks_empty_now"):
        session.sql(
            f"CALL {catalog}.system.rewrite_data_files(table => '{table}', "
            "options => map('rewrite-all', 'true', 'min-input-files', '1'))"
        )
        assert load(bikes, table).current_snapshot().summary.operation.value == "replace"
    assert bikes.files(DAILY) != files
    assert bikes.requested() == {}

    writer = session.table(f"{catalog}.{trips}").limit(0).writeTo(f"{catalog}.{trips}")
    for name, value in stamped.items():
        if name.startswith("lake."):
            writer = writer.option(f"snapshot-property.{name}", value)
    writer.append()
    assert bikes.requested() == {}

    commit(bikes, *trips_changed("U", {"trip_id": 6, "fare": "6.66"}))
    bikes.apply("trips")
    expire = f"CALL {catalog}.system.expire_snapshots(table => '{trips}', "
    session.sql(f"{expire} snapshot_ids => array({consumed}))")
    assert load(bikes, trips).snapshot_by_id(consumed) is None
    assert bikes.requested() == {DAILY: days(6, TODAY), REVENUE: days(6), EMPTY_NOW: None}

    # With what came after it gone as well, nobody can tell what has changed.
    session.sql(f"{expire} older_than => current_timestamp(), retain_last => 1)")
    assert bikes.compute() == {DAILY: EVERY_DAY, REVENUE: EVERY_DAY, EMPTY_NOW: None}
    bikes.check()


def load(bikes: BikeLake, table: str) -> Any:
    return bikes.lake.runtime.catalog.load_table(table)


def test_a_position_that_moves_without_rows_is_no_change(bikes: BikeLake) -> None:
    """A file that the full load supersedes leads to a commit without rows, of a table that concerns every day."""
    before = load(bikes, "silver_bikeshare.stations").current_snapshot()
    bikes.change(at(1, "00:00") - timedelta(days=1), ("stations", "U", station(3, "nowhere")))
    bikes.apply("stations")
    assert (
        load(bikes, "silver_bikeshare.stations").current_snapshot().parent_snapshot_id == before.snapshot_id
    )
    assert bikes.requested() == {}
    bikes.check()


@pytest.mark.long
def test_a_reload_tells_what_was_missed(bikes: BikeLake) -> None:
    """The change log takes the reload's rows as what is so since then, not as what was so before everything."""
    commit(bikes, ("station_status", "U", status(3, 0, bikes.clock)))
    bikes.apply("station_status", "station_status_changes")
    bikes.compute()
    bikes.clock += timedelta(minutes=45)
    bikes.load("station_status", bikes.clock, [status(number, 3, bikes.clock) for number in (1, 2, 3)])
    bikes.apply("station_status", "station_status_changes")
    assert bikes.compute() == {DAILY: days(TODAY), EMPTY_NOW: None}
    bikes.check()
    assert bikes.rows("gold.racks_empty_now") == []


@pytest.mark.long
def test_midnight_passes(bikes: BikeLake) -> None:
    """A rack is empty over midnight and nothing happens to it: the old day and the new ones have minutes."""
    commit(bikes, ("station_status", "U", status(2, 0, bikes.clock)))
    bikes.apply("station_status", "station_status_changes")
    bikes.compute()
    bikes.clock = at(TODAY + 2, "00:20")
    commit(bikes, *trips_changed("U", {"trip_id": 1, "fare": "0.10"}))
    bikes.apply("trips")
    touched = days(1, TODAY, TODAY + 1, TODAY + 2)
    assert bikes.compute() == {DAILY: touched, REVENUE: days(1), EMPTY_NOW: None}
    bikes.check()


@pytest.mark.long
def test_days_without_a_partition_are_told(bikes: BikeLake) -> None:
    never = datetime.fromisoformat("9999-12-31T00:00:00+00:00")
    commit(
        bikes,
        *trips_changed("I", trip(105, at(1) - timedelta(days=3), at(1) - timedelta(days=2))),
        *trips_changed("I", trip(106, at(1), never)),
    )
    bikes.apply("trips")
    outside = bikes.work().outside["gold.trip_revenue_daily"]
    assert "outside of its partitions: 2024-02-2" in outside
    assert "2024-02-28" in outside
    assert "9999-12-31" in outside
    bikes.compute()
    assert bikes.requested() == {}
    assert bikes.work().outside["gold.trip_revenue_daily"] == outside, "they stay on the list"
    bikes.check()


@pytest.mark.long
@pytest.mark.parametrize("seed", [1])
def test_files_in_any_order_and_runs_killed_anywhere(
    spark: SparkSession, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """A simulated history, delivered in rounds that know no order; in each, only some of the runs are made."""
    rng = random.Random(seed)
    history = make_history(
        tmp_path_factory.mktemp("history"),
        changes=900,
        bikes=30,
        past_trips=60,
        flush_interval=timedelta(hours=5),
    )
    keys = sorted(key for key in history.files() if key.split("/")[1] in USED and "/." not in key)
    rng.shuffle(keys)
    bikes = BikeLake(tmp_path, start_date="2026-03-01")
    for number in range(ROUNDS):
        for key in keys[number::ROUNDS]:
            (tmp_path / "bronze" / key).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(history.folder / key, tmp_path / "bronze" / key)
        bikes.apply()
        for run in bikes.work().runs:
            if rng.random() < 0.5:
                assert bikes.run(run).success
        bikes.restart()
    bikes.compute()
    changes = [
        row for table in USED for rows in read_files(history.folder, table, history.settings) for row in rows
    ]
    bikes.check(datetime.fromisoformat(max(row.committed_at for row in changes) + "+00:00"))
    assert bikes.requested() == {}
