"""Marts by chance: changes arrive out of order while processes die; after each round the marts are what plain Python
says, partitions that no change concerns keep their files, and a mart computed anew from nothing has the same rows.

Here: one lake, on which every seed continues where the one before it has ended. Not here: chosen situations
(`test_incremental.py`), silver itself (`silver/test_random_histories.py`). `LAKE_HISTORIES=0:100` runs a hundred seeds.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.config import parse_column
from lake_assets.gold.mart import Follow, Input, Mart, MartRequest
from lake_assets.gold.periods.grain import Grain, Period, beginning, between
from lake_assets.gold.registry import load_mart
from lake_assets.iceberg.publish import Attempt
from lake_assets.orchestration.assets.mart_runs import MartRun, mart_work
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets_tests.helpers.files.dms_files import Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.marts.direct_runs import partition_files, run_marts
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
FIRST_DAY, DAYS = date(2026, 3, 27), 8
"""The clocks of Europe change, a week and a month begin."""
REBUILT_EVERY = 4


def seeds(count: int, always: Collection[int]) -> list[Any]:
    """The first ones, of which some are in every run of the tests."""
    return [
        pytest.param(seed, marks=() if seed in always else pytest.mark.long)
        for seed in range(FIRST, FIRST + count)
    ]


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


def moved_by(grain: Grain) -> Mart:
    """As MOVED, with partitions of this length."""

    def compute(request: MartRequest) -> DataFrame:
        rents, no = request.inputs["rents"], F.lit(0)
        kind = "timestamp" if grain is Grain.HOUR else "date"

        def part(column: str) -> Column:
            return F.date_trunc(grain, column).cast(kind).alias("part")

        began = rents.filter(request.within("began")).select(
            part("began"), F.lit(1).alias("begun"), no.alias("paid")
        )
        ended = rents.filter(request.within("ended")).select(part("ended"), no.alias("begun"), "paid")
        return (
            began.union(ended).groupBy("part").agg(F.sum("begun").alias("begun"), F.sum("paid").alias("paid"))
        )

    kind = "timestamptz" if grain is Grain.HOUR else "date"
    columns = (parse_column("part", f"{kind} not null"), *MOVED.columns[1:])
    return replace(
        MOVED,
        name=f"rents_by_{grain}",
        columns=columns,
        compute=compute,
        partition_column="part",
        partitions=grain,
    )


def total_by_hour(request: MartRequest) -> DataFrame:
    """Rents that had begun by the end of an hour."""
    first, last = (F.lit(hour.isoformat()).cast("timestamp") for hour in request.hours or ())
    hour = F.expr("INTERVAL 1 HOUR")
    hours = F.explode(F.sequence(first, last, hour)).alias("part")
    each = request.inputs["rents"].sparkSession.range(1).select(hours)
    until = each.join(request.inputs["rents"].select("began"), F.col("began") < F.col("part") + hour)
    return until.groupBy("part").agg(F.count(F.lit(1)).alias("begun"))


MARTS = (MOVED, TOTAL)
HOURLY_TOTAL = replace(
    TOTAL,
    name="rents_total_by_hour",
    columns=(parse_column("part", "timestamptz not null"), TOTAL.columns[1]),
    compute=total_by_hour,
    partition_column="part",
    partitions=Grain.HOUR,
)
SQL = load_mart(str(Path(__file__).parents[1] / "helpers/marts/rents_in_sql.sql"))
OTHERS = (*(moved_by(grain) for grain in (Grain.HOUR, Grain.WEEK, Grain.MONTH)), SQL)
KINDS = 7


def by_kind(request: MartRequest) -> DataFrame:
    """Rents and what was paid, by kind."""
    kind = (F.col("id") % KINDS).alias("kind")
    return (
        request.inputs["rents"].groupBy(kind).agg(F.count("id").alias("begun"), F.sum("paid").alias("paid"))
    )


KEYED = Mart(
    name="rents_by_kind",
    description="Rents by kind.",
    inputs={"rents": Input("shop", "rents")},
    columns=(parse_column("kind", "long not null"), *MOVED.columns[1:]),
    compute=by_kind,
    partition_column=None,
    key=("kind",),
)


@dataclass
class Rents:
    """A lake with marts on a table, its source, and the files of it that have not arrived yet."""

    bench: Bench
    clock: Clock = field(default_factory=lambda: Clock(datetime(2026, 4, 4, tzinfo=UTC)))
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

    def compute_some(self, random: Random) -> None:
        """Some of the runs that are needed, in any order, until the process dies in one of them, or does not."""
        runs = [run for run in self.work() if random.random() < 0.5]
        with pytest.MonkeyPatch.context() as patched, contextlib.suppress(Killed):
            dying(random, patched, [(Attempt, "publish")])
            for run in random.sample(runs, len(runs)):
                run_marts(self.bench.lake, run)

    def compute(self) -> None:
        """All of the runs that are needed."""
        for run in self.work():
            run_marts(self.bench.lake, run)
        assert not self.work()

    def work(self) -> Sequence[MartRun]:
        return mart_work(self.bench.lake.runtime, self.bench.lake.marts).runs

    def stored(self, mart: Mart) -> list[Row]:
        """The mart's rows in the order of its partitions, or of its key."""
        rows = self.bench.lake.runtime.catalog.load_table(mart.identifier).scan().to_arrow().to_pylist()
        return sorted(rows, key=lambda row: row[mart.partition_column or mart.key[0]])

    def file_of_row(self, mart: Mart) -> dict[tuple[Any, ...], str]:
        """The data file of each row of the mart."""
        lake = self.bench.lake
        table = f"{lake.config.catalog.name}.{mart.identifier}"
        rows = lake.runtime.sessions.root().table(table).select(*(c.name for c in mart.columns), "_file")
        return {tuple(row)[:-1]: row["_file"] for row in rows.collect()}


@pytest.fixture(scope="module")
def rents(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rents:
    return rents_with(tmp_path_factory.mktemp("rents"), MARTS)


@pytest.fixture(scope="module")
def others(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Rents:
    return rents_with(tmp_path_factory.mktemp("others"), (*OTHERS, HOURLY_TOTAL, KEYED), format_version=2)


def rents_with(folder: Path, marts: Sequence[Mart], **sections: Any) -> Rents:
    """One rent, in silver and the marts."""
    bench = Bench(folder, {RENTS: TABLE}, sections=sections)
    bench.lake = open_lake(bench.lake.config, marts=marts)
    bench.put(load_file(RENTS, [{"id": 100, "began": midnight(FIRST_DAY), "ended": None, "paid": 1}]))
    bench.apply()
    found = Rents(bench)
    found.compute()
    return found


@pytest.mark.parametrize("seed", seeds(COUNT, always=(0, 7)))
def test_marts_are_what_their_inputs_say(rents: Rents, seed: int) -> None:
    """With the first seed, a run of a mart dies; with the eighth one, a batch of silver."""
    a_round(rents, seed, [MOVED])
    assert_marts(rents)
    if seed % REBUILT_EVERY == 3:
        for mart in MARTS:
            rents.bench.lake.runtime.catalog.drop_table(mart.identifier)
        rents.compute()
        assert_marts(rents)


@pytest.mark.parametrize("seed", seeds(max(1, COUNT // 4), always=(1,)))
def test_marts_by_hour_week_and_month_in_sql_and_with_a_key(others: Rents, seed: int) -> None:
    """Their tables, and silver's, are of Iceberg's format 2."""
    before = others.file_of_row(KEYED)
    a_round(others, seed, OTHERS)
    assert_others(others)
    after = others.file_of_row(KEYED)
    assert {row: file for row, file in after.items() if row in before} == {
        row: file for row, file in before.items() if row in after
    }, "rows that have not changed are where they were"
    if seed % REBUILT_EVERY == 1:
        for mart in (*OTHERS, HOURLY_TOTAL, KEYED):
            others.bench.lake.runtime.catalog.drop_table(mart.identifier)
        others.compute()
        assert_others(others)


def a_round(rents: Rents, seed: int, exact: Sequence[Mart]) -> None:
    """Changes arrive, and are applied and computed. Of the marts `exact`, partitions that no change concerns keep their
    files."""
    random = Random(seed)
    before, files = rents.truth(), {mart.name: partition_files(rents.bench.lake, mart) for mart in exact}
    arrived = rents.arrive(random)
    turn_with_a_chance_of_death(rents.bench, random)
    rents.bench.apply()
    rents.compute_some(random)
    rents.bench.lake = rents.bench.reopened()
    rents.compute()
    changed = {change["id"] for change in arrived}
    times = times_of(changed, [*before, *rents.truth(), *rents.changes()])
    for mart in exact:
        concerned = set(map(mart.partitions.of, times))
        untouched = {part: paths for part, paths in files[mart.name].items() if part not in concerned}
        after = partition_files(rents.bench.lake, mart)
        assert {part: after.get(part) for part in untouched} == untouched, mart.name


def times_of(keys: Collection[int], rows: Iterable[Mapping[str, Any]]) -> set[datetime]:
    """All times of the rows with these keys."""
    times = (row.get(column) for row in rows if row["id"] in keys for column in ("began", "ended"))
    return {time for time in times if time is not None}


def assert_others(rents: Rents) -> None:
    """The marts of `others` have the rows that the arrived files give."""
    rows = rents.truth()
    kinds = sorted({row["id"] % KINDS for row in rows})
    of_kind = {kind: [row["paid"] for row in rows if row["id"] % KINDS == kind] for kind in kinds}
    assert [tuple(row.values()) for row in rents.stored(KEYED)] == [
        (kind, len(paid), sum(paid)) for kind, paid in of_kind.items()
    ]
    for mart in OTHERS:
        of = mart.partitions.of
        begun, paid = Counter(of(row["began"]) for row in rows), Counter[Period]()
        for row in rows:
            if row["ended"] is not None:
                paid[of(row["ended"])] += row["paid"]
        assert [tuple(row.values()) for row in rents.stored(mart)] == [
            (part, begun[part], paid[part]) for part in sorted({*begun, *map(of, ended_of(rows))})
        ], mart.name
    began = [row["began"] for row in rows]
    now = max([*(change["commit_ts"] for change in rents.changes()), *began])
    hours = between(Grain.HOUR, Grain.HOUR.of(min(began)), Grain.HOUR.of(now))
    assert [(row["part"], row["begun"]) for row in rents.stored(HOURLY_TOTAL)] == [
        (hour, sum(other < beginning(Grain.HOUR.after(hour)) for other in began)) for hour in hours
    ]


def ended_of(rows: Iterable[Row]) -> list[datetime]:
    return [row["ended"] for row in rows if row["ended"] is not None]


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
