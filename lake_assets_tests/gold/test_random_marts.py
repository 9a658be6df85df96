"""Marts by chance: changes arrive out of order while processes die; after each round the marts are what plain Python
says, days that no change concerns keep their files, and a mart computed anew from nothing has the same rows.

Here: one lake, on which every seed continues where the one before it has ended. Not here: chosen situations
(`test_incremental.py`), silver itself (`silver/test_random_histories.py`). `LAKE_HISTORIES=0:100` runs a hundred seeds.
"""

import contextlib
import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.gold.compute_mart import computed_mart
from lake_assets.gold.mart import Follow, Input, Mart, MartRequest
from lake_assets.gold.partition_rows import ColumnRows, PartitionRows
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.gold.view import mart_view
from lake_assets.gold.write_mart import Store, write
from lake_assets.iceberg.publish import Attempt
from lake_assets.orchestration.assets.mart_runs import MartRun, mart_work
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets_tests.helpers.files.dms_files import Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.oracles import oracle
from lake_assets_tests.helpers.oracles.mart_oracle import days_from, midnight
from lake_assets_tests.helpers.processes.faults import Killed
from lake_assets_tests.helpers.processes.random_deaths import dying, turn_with_a_chance_of_death

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FIRST, COUNT = (int(number) for number in os.environ.get("LAKE_HISTORIES", "0:20").split(":"))

RENTS = "public.rents"
COLUMNS = {
    "id": "long not null",
    "began": "timestamptz not null",
    "ended": "timestamptz",
    "paid": "long not null",
}
TABLE = {"columns": COLUMNS, "primary_key": ["id"], "partition_by": ["day(began)"]}
FIRST_DAY, DAYS = date(2026, 3, 1), 8
REBUILT_EVERY = 4

Row = dict[str, Any]


def moved(request: MartRequest) -> DataFrame:
    """Rents by the day they began, and what was paid by the day they ended."""
    rents, no = request.inputs["rents"], F.lit(0)
    began = rents.select(F.to_date("began").alias("day"), F.lit(1).alias("begun"), no.alias("paid"))
    ended = rents.select(F.to_date("ended").alias("day"), no.alias("begun"), "paid")
    both = began.union(ended).filter(F.col("day").between(*map(F.lit, request.days)))
    return both.groupBy("day").agg(F.sum("begun").alias("begun"), F.sum("paid").alias("paid"))


def total(request: MartRequest) -> DataFrame:
    """Rents that had begun by the end of a day."""
    days = request.inputs["rents"].sparkSession.createDataFrame([request.days], "first date, last date")
    each = days.select(F.explode(F.sequence("first", "last")).alias("day"))
    rents = request.inputs["rents"].select(F.to_date("began").alias("began"))
    until = each.join(rents, F.col("began") <= F.col("day"))
    return until.groupBy("day").agg(F.count(F.lit(1)).alias("begun"))


MOVED = Mart(
    name="rents_moved",
    description="Rents by day.",
    inputs={
        "rents": (Input("shop", "rents", Follow.DAY, "began"), Input("shop", "rents", Follow.DAY, "ended"))
    },
    columns=(
        parse_column("day", "date not null"),
        parse_column("begun", "long not null"),
        parse_column("paid", "long not null"),
    ),
    compute=moved,
)
TOTAL = Mart(
    name="rents_total",
    description="Rents up to each day.",
    inputs={"rents": Input("shop", "rents", Follow.DAY_ONWARDS, "began")},
    columns=(parse_column("day", "date not null"), parse_column("begun", "long not null")),
    compute=total,
)
MARTS = (MOVED, TOTAL)


@dataclass
class Rents:
    """A lake with two marts on a table, its source, and the files of it that have not arrived yet."""

    bench: Bench
    clock: Clock = field(default_factory=lambda: Clock(datetime(2026, 3, 9, tzinfo=UTC)))
    rows: dict[int, Row] = field(default_factory=dict)
    held: list[DmsFile] = field(default_factory=list)

    def change(self, random: Random) -> Row:
        """An insert, update or delete of a random row."""
        key = random.randrange(12)
        if key in self.rows and random.random() < 0.2:
            del self.rows[key]
            return self.clock.change("D", {"id": key})
        op = "U" if key in self.rows else "I"
        began = midnight(FIRST_DAY) + timedelta(days=random.randrange(DAYS), hours=8)
        ended = random.choice([None, began + timedelta(hours=random.choice([1, 20]))])
        self.rows[key] = {"id": key, "began": began, "ended": ended, "paid": random.randrange(100)}
        return self.clock.change(op, self.rows[key])

    def arrive(self, random: Random) -> list[Mapping[str, Any]]:
        """Three new files, of which some arrive now, with some of those held back before; the changes that arrive."""
        self.clock.now += timedelta(hours=5)
        for _ in range(3):
            changes = [self.change(random) for _ in range(random.choice([1, 1, 2]))]
            self.held.append(cdc_file(RENTS, self.clock.now + timedelta(seconds=1), changes))
        arrived = random.sample(self.held, 2)
        self.held = [file for file in self.held if file not in arrived]
        self.bench.put(*arrived)
        return [change for file in arrived for change in file.rows]

    def changes(self) -> list[Mapping[str, Any]]:
        """All changes that have arrived."""
        return [change for file in self.bench.files(RENTS) for change in file.rows]

    def truth(self) -> list[Row]:
        """The rows by the files that have arrived."""
        return oracle.current(self.bench.files(RENTS), list(COLUMNS), ["id"])

    def run(self, run: MartRun) -> None:
        """Computes what was requested."""
        assert run.days is not None
        lake, (first, last) = self.bench.lake, run.days
        window = (midnight(first), midnight(last + timedelta(days=1)))
        store = Store(PartitionRows(((ColumnRows("day", (), window),),), f"{first} to {last}"), ["day"])
        for mart in lake.marts:
            if mart.name in run.marts:
                view = mart_view(LoadedTables(lake.runtime.catalog), mart, lake.config.gold)
                assert view is not None
                write(
                    lake.runtime, mart.identifier, computed_mart(lake.runtime, mart, view, run.days)[0], store
                )

    def compute_some(self, random: Random) -> None:
        """Some of the runs that are needed, in any order, until the process dies in one of them, or does not."""
        runs = [run for run in self.work() if random.random() < 0.5]
        with pytest.MonkeyPatch.context() as patched, contextlib.suppress(Killed):
            dying(random, patched, [(Attempt, "publish")])
            for run in random.sample(runs, len(runs)):
                self.run(run)

    def compute(self) -> None:
        """All of the runs that are needed."""
        for run in self.work():
            self.run(run)
        assert not self.work()

    def work(self) -> Sequence[MartRun]:
        return mart_work(self.bench.lake.runtime, self.bench.lake.marts).runs

    def stored(self, mart: Mart) -> list[Row]:
        """The mart's rows by day."""
        rows = self.bench.lake.runtime.catalog.load_table(mart.identifier).scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: row["day"])

    def files(self, mart: Mart) -> dict[date, set[str]]:
        """The mart's data files by day."""
        found: dict[date, set[str]] = defaultdict(set)
        for task in self.bench.lake.runtime.catalog.load_table(mart.identifier).scan().plan_files():
            found[date(1970, 1, 1) + timedelta(days=task.file.partition[0])].add(task.file.file_path)
        return found


@pytest.fixture(scope="module")
def rents(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rents:
    """One rent, in silver and both marts."""
    bench = Bench(tmp_path_factory.mktemp("rents"), {RENTS: TABLE})
    bench.tracked = {"rents": ("ended",)}
    bench.lake = open_lake(bench.lake.config, marts=MARTS)
    bench.put(load_file(RENTS, [{"id": 100, "began": midnight(FIRST_DAY), "ended": None, "paid": 1}]))
    bench.apply()
    found = Rents(bench)
    found.compute()
    return found


@pytest.mark.parametrize("seed", range(FIRST, FIRST + COUNT))
def test_marts_are_what_their_inputs_say(rents: Rents, seed: int) -> None:
    random = Random(seed)
    before, files = rents.truth(), rents.files(MOVED)
    arrived = rents.arrive(random)
    turn_with_a_chance_of_death(rents.bench, random)
    rents.bench.apply()
    rents.compute_some(random)
    rents.bench.lake = rents.bench.reopened()
    rents.compute()
    assert_marts(rents)

    changed = {change["id"] for change in arrived}
    concerned = days_of(changed, [*before, *rents.truth(), *rents.changes()])
    untouched = {day: paths for day, paths in files.items() if day not in concerned}
    after = rents.files(MOVED)
    assert {day: after.get(day) for day in untouched} == untouched

    if seed % REBUILT_EVERY == 0:
        for mart in MARTS:
            rents.bench.lake.runtime.catalog.drop_table(mart.identifier)
        rents.compute()
        assert_marts(rents)


def days_of(keys: Collection[int], rows: Iterable[Mapping[str, Any]]) -> set[date]:
    """All days of the rows with these keys."""
    days = (row.get(column) for row in rows if row["id"] in keys for column in ("began", "ended"))
    return {day.date() for day in days if day is not None}


def assert_marts(rents: Rents) -> None:
    """Both marts have the rows that the arrived files give."""
    rows = rents.truth()
    began = [row["began"].date() for row in rows]
    paid: Counter[date] = Counter()
    for row in rows:
        if row["ended"] is not None:
            paid[row["ended"].date()] += row["paid"]
    assert rents.stored(MOVED) == [
        {"day": day, "begun": began.count(day), "paid": paid[day]} for day in sorted({*began, *paid})
    ]
    now = max(change["commit_ts"] for change in rents.changes()).date()
    assert rents.stored(TOTAL) == [
        {"day": day, "begun": sum(other <= day for other in began)}
        for day in days_from(min(began), max(now, *began))
    ]
