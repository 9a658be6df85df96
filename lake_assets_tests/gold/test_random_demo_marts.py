"""Every mart of the demonstration on changing silver: after rounds of random changes, which arrive out of order while
runs of marts die, it is what plain Python says, and so is a mart that is computed again from nothing. Partitions that a
run does not compute keep their files.

Here: the shipped marts, each computed where its own declaration says that something has changed. Not here: what the
rows of each one are (`marts/`), chosen situations (`test_incremental.py`), more seeds (`test_random_marts.py`).
"""

import contextlib
import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.demo.marts import DEMO_MARTS
from lake_assets.demo.source.bike_schema import TABLES
from lake_assets.gold.periods.grain import Period, between
from lake_assets.iceberg.publish import Attempt
from lake_assets.orchestration.assets.mart_runs import MartRun, mart_work
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.silver.apply.engine import apply_tables
from lake_assets_tests.helpers.lakes.bike_lake import BikeLake, Row, at, station, status, trip
from lake_assets_tests.helpers.marts.direct_runs import partition_files, run_marts
from lake_assets_tests.helpers.processes.faults import Killed
from lake_assets_tests.helpers.processes.random_deaths import dying

pytestmark = [pytest.mark.spark, pytest.mark.slow]
USED = ("stations", "station_status", "trips", "bikes", "members", "maintenance_tickets")
ALWAYS, RARELY = ("trips", "trips", "station_status", "maintenance_tickets", "bikes"), ("stations", "members")
"""The tables of which rows change in every round, and those whose changes concern all partitions of a mart."""
PLANS = ("annual", "annual", "monthly")


@dataclass
class Company:
    """The source, its lake, and the files that have not arrived yet."""

    bikes: BikeLake
    random: Random
    live: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    """By table, the numbers of its rows."""
    held: list[tuple[datetime, str]] = field(default_factory=list)
    """Commit times and keys of files in the folder beside the bucket."""
    computed: dict[str, list[set[Period]]] = field(default_factory=lambda: defaultdict(list))
    """By mart with partitions, the partitions that each run has computed."""
    now: datetime = field(init=False)
    """The newest commit that has arrived."""

    def __post_init__(self) -> None:
        for place, table in enumerate(USED):
            self.live[table] |= set(range(1, 9 if table == "trips" else 4))
            rows = [self.row(table, number) for number in sorted(self.live[table])]
            self.bikes.load(table, at(20, f"06:00:0{place}"), rows)
        self.now = self.bikes.clock = at(20, "06:00:05")

    def row(self, table: str, number: int) -> Row:
        """A row with random values."""
        random = self.random
        if table == "stations":
            return station(number, random.choice(["north", "south", "harbour"]))
        if table == "station_status":
            return status(number, random.choice([0, 0, 0, 4]), self.bikes.clock)
        started = at(random.randint(1, 19), random.choice(["00:00", "07:30", "23:50"]))
        minutes = random.choice([None, 9, 30, 700])
        ended = None if minutes is None else started + timedelta(minutes=minutes)
        if table == "trips":
            ridden: Row = {"bike_id": random.randint(1, 4), "member_id": random.randint(1, 4)}
            ridden["start_station_id"] = random.randint(1, 4)
            if ended is not None:
                ridden["distance_km"] = random.randint(0, 9_999_999) / 1e6
            return trip(number, started, ended, **ridden)
        if table == "bikes":
            model, state = random.choice(["City 3", "Volt S"]), random.choice(["available", "maintenance"])
            named = {"bike_id": number, "model": model, "status": state}
            return named | {"is_electric": True, "battery_percent": "50.00", "bought_on": date(2024, 1, 1)}
        if table == "members":
            named = {"member_id": number, "email": f"{number}@example.org", "full_name": f"Name {number}"}
            return named | {"plan": random.choice(PLANS), "joined_at": at(1)}
        ticket = {"bike_id": 1 + number % 4, "ticket_no": number, "opened_at": started, "closed_at": ended}
        return ticket | {"severity": "low", "description": "flat tyre", "cost": None}

    def change(self, table: str) -> None:
        """Inserts, updates or deletes a row. The file is held back, unless its changes concern all partitions."""
        number, live = self.random.randint(1, 9 if table == "trips" else 4), self.live[table]
        row = self.row(table, number)
        if number in live and self.random.random() < 0.25:
            live.remove(number)
            self.commit(
                table, "D", {name: row[name] for name in TABLES[table].primary_key}, table not in RARELY
            )
        else:
            self.commit(table, "U" if number in live else "I", row, table not in RARELY)
            live.add(number)

    def empty(self, number: int) -> None:
        """A rack runs empty now, and its files arrive."""
        for bikes in (1, 0):
            op = "U" if number in self.live["station_status"] else "I"
            self.live["station_status"].add(number)
            self.commit("station_status", op, status(number, bikes, self.bikes.clock), held=False)

    def commit(self, table: str, op: str, row: Row, held: bool) -> None:
        """The file of one change."""
        self.bikes.clock += timedelta(minutes=self.random.choice([1, 3, 8, 20]))
        for key in self.bikes.change(self.bikes.clock, (table, op, row)):
            if held:
                self._move(key, "bronze", "held")
                self.held.append((self.bikes.clock, key))
            else:
                self.now = self.bikes.clock

    def arrive(self, share: float) -> None:
        """A random part of the files lands, in any order, and is applied."""
        for file in self.random.sample(self.held, round(share * len(self.held))):
            self.held.remove(file)
            self._move(file[1], "held", "bronze")
            self.now = max(self.now, file[0])
        runtime = self.bikes.lake.runtime
        log_arrivals(runtime, "bikeshare")
        assert [
            result.error for result in apply_tables(runtime, self.bikes.lake.targets) if result.error
        ] == []

    def _move(self, key: str, here: str, there: str) -> None:
        target = self.bikes.folder / there / key
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(self.bikes.folder / here / key, target)

    def work(self) -> Sequence[MartRun]:
        return mart_work(self.bikes.lake.runtime, self.bikes.lake.marts).runs

    def compute_some(self) -> None:
        """Half of the runs that are needed, in any order. Each may die, before its publish or after it."""
        runs = self.work()
        for run in self.random.sample(runs, len(runs) // 2):
            with pytest.MonkeyPatch.context() as patched, contextlib.suppress(Killed):
                dying(self.random, patched, [(Attempt, "publish")])
                self._run(run)
        self.bikes.restart(self.bikes.lake.marts)

    def compute(self) -> None:
        """All of the runs that are needed, in any order."""
        runs = self.work()
        for run in self.random.sample(runs, len(runs)):
            self._run(run)
        assert not self.work()

    def _run(self, run: MartRun) -> None:
        lake = self.bikes.lake
        marts = [mart for mart in lake.marts if mart.name in run.marts and mart.partition_column is not None]
        before = {mart.name: partition_files(lake, mart) for mart in marts}
        run_marts(lake, run)
        for mart in marts:
            assert run.periods is not None
            computed, after = set(between(run.grain, *run.periods)), partition_files(lake, mart)
            self.computed[mart.name].append(computed)
            untouched = {part: paths for part, paths in before[mart.name].items() if part not in computed}
            assert {part: after.get(part) for part in untouched} == untouched, mart.name

    def a_round(self, number: int) -> None:
        """Changes; some of their files stay behind for a later round, and some of the marts."""
        for table in (*ALWAYS, *RARELY) if number % 4 == 2 else ALWAYS:
            self.change(table)
            self.change(table)
        self.empty(1 + number % 3)
        self.arrive(0.7)
        self.compute_some()
        if number % 2 == 0:
            self.compute()
            self.bikes.check(self.now)


@pytest.mark.parametrize(
    ("seed", "rounds"),
    [(1, (0, 2)), *(pytest.param(seed, range(9), marks=pytest.mark.long) for seed in (2, 3, 4))],
    ids=str,
)
def test_the_marts_follow_silver(
    spark: SparkSession, tmp_path: Path, seed: int, rounds: Sequence[int]
) -> None:
    company = Company(BikeLake(tmp_path, tables=USED, marts=DEMO_MARTS), Random(seed))
    marts = company.bikes.lake.marts
    by_time = {mart.name for mart in marts if mart.partition_column is not None}
    seen: dict[str, list[Any]] = defaultdict(list)
    for number in rounds:
        company.a_round(number)
        for mart in marts:
            if number % 2 == 0 and (rows := company.bikes.rows(mart.identifier)) not in seen[mart.name]:
                seen[mart.name].append(rows)
    assert {name for name, versions in seen.items() if len(versions) > 1} == {mart.name for mart in marts}
    if len(rounds) < 3:
        return
    in_part = {name for name in by_time if len({len(run) for run in company.computed[name]}) > 1}
    assert in_part == by_time
    for mart in marts:
        company.bikes.lake.runtime.catalog.drop_table(mart.identifier)
    company.compute()
    company.bikes.check(company.now)
