"""Histories by chance, for the shapes that keep the past: in any order, with repetitions and dying processes, a history
and a soft delete are what the oracle says.

Here: `test_random_histories`' sources beside these shapes, and sources that are loaded again and again. Not here:
situations of one's own choice (`test_shapes.py`). `LAKE_SHAPES=100:40` runs forty others, from seed 100 on.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from lake_assets.errors import UndeterminedRow
from lake_assets_tests.helpers.files.dms_files import Clock, DmsFile, Row, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench, comparable
from lake_assets_tests.helpers.oracles import oracle_shapes
from lake_assets_tests.helpers.oracles.masks import MASKING
from lake_assets_tests.helpers.oracles.random_history import (
    COLUMNS,
    MASKS,
    TABLE,
    RandomSource,
    kept_of,
    pieces,
    random_history,
    sequences,
)
from lake_assets_tests.helpers.processes.random_deaths import turn_with_a_chance_of_death

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FIRST, COUNT = (int(number) for number in os.environ.get("LAKE_SHAPES", "0:4").split(":"))
SEEDS = range(FIRST, FIRST + COUNT)
SEEDS_TOLD = [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.long) for seed in SEEDS[1:])]


def bench_of(folder: Path, key: list[str], max_files: int, seed: int, *, sequenced: bool = True) -> Bench:
    table = {"columns": COLUMNS, "primary_key": key, "mode": "soft_delete", "also": ["history"]}
    kept = kept_of(seed)
    # Where an update leaves `n` as it is, a mask may hide that it changes anything, and the oracle masks afterwards.
    mask = {name: how for name, how in MASKS[seed % len(MASKS)].items() if not kept or how == "hash"}
    return Bench(
        folder,
        {TABLE: table | {"mask": mask, "kept_when_null": kept}},
        {} if sequenced else {"change_sequence_column": None},
        {"automation": {"max_files_per_batch": max_files}} | MASKING,
    )


def turn(bench: Bench, random: Random) -> bool:
    """Whether all is applied: a table waits for a file that shows the values which an update of its row leaves out."""
    turn_with_a_chance_of_death(bench, random)
    errors = [result.error for result in bench.turn().values() if result.error is not None]
    for error in errors:
        if not isinstance(error, UndeterminedRow):
            raise error
    return not errors


def check(bench: Bench, stages: oracle_shapes.Stages, place: str) -> None:
    columns, key = bench.columns(TABLE), bench.key(TABLE)
    kept = {name: "not null" not in COLUMNS[name] for name in bench.tables[TABLE]["kept_when_null"]}
    told = bench.as_silver(TABLE, oracle_shapes.soft_delete(stages, columns, key, kept))
    assert bench.rows() == told, f"{place}, soft_delete"
    told = bench.as_silver(TABLE, oracle_shapes.history(stages, columns, key, kept))
    assert bench.rows("items_history") == told, f"{place}, history"


def _lacks_changes(files: list[DmsFile], changes: Sequence[str]) -> bool:
    """Whether an earlier change has not arrived, without which the row of a later one may be unknown. `changes`: the
    sequences of all."""
    there = sequences([file for file in files if not file.is_load])
    newest = max(there, default="")
    return {change for change in changes if change <= newest} != {*there}


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS_TOLD)
def test_one_full_load(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    told, random = random_history(seed, kept_of(seed), whole_moves=True), Random(seed)
    bench = bench_of(tmp_path, told.key, told.max_files, seed, sequenced=told.sequenced)
    changes = sequences([file for files in told.turns for file in files if not file.is_load])
    for number, files in enumerate(told.turns):
        bench.put(*files)
        is_whole = turn(bench, random) and not _lacks_changes(bench.files(TABLE), changes)
        if is_whole or number == len(told.turns) - 1:
            check(bench, [bench.files(TABLE)], f"seed {seed}, turn {number}")
    living = [{name: row[name] for name in COLUMNS} for row in told.rows]
    found = bench.table("items_history").scan("_is_current = true", tuple(COLUMNS)).to_arrow().to_pylist()
    assert comparable(found) == bench.as_silver(TABLE, living)


@dataclass
class Reloaded:
    """A source that is loaded several times, and the stages that its lake goes through."""

    seed: int
    random: Random = field(init=False)
    source: RandomSource = field(init=False)
    began: list[datetime] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        key = ["id", "part"] if self.seed % 2 else ["id"]
        always_before = self.random.random() < 0.5
        # A table that waits for a value which it must have would be loaded again before it has all changes.
        kept = tuple(name for name in kept_of(self.seed) if "not null" not in COLUMNS[name])
        self.source = RandomSource(self.random, key, always_before, kept, clock=Clock())

    def run(self, transactions: int) -> tuple[int, int]:
        """The range of the changes that these transactions make."""
        start = len(self.source.changes)
        for _ in range(transactions):
            self.source.transaction()
        return start, len(self.source.changes)

    def load(self, during: int) -> list[DmsFile]:
        """A full load, whose rows are read after `during` transactions have been committed since it began."""
        # Each of the two files has a row, whose time shows the load that it is of.
        while len(self.source.rows) < 8:
            self.run(1)
        self.source.clock.now += timedelta(milliseconds=500)
        self.began.append(self.source.clock.now)
        # The load may have read a row that moves meanwhile under either key: no key change leaves a value out.
        self.source.whole_moves = True
        self.run(during)
        self.source.whole_moves = False
        rows = [dict(row) for row in self.source.rows.values()]
        return [load_file(TABLE, rows[n::2], part=n + 1, at=self.began[-1]) for n in range(2)]

    def files(self, start: int, end: int) -> list[DmsFile]:
        """The changes in files, each flushed after its last one; some written twice."""
        changes = self.source.changes
        ranges = pieces(self.random, start, end, count=self.random.randint(2, 4))
        if self.random.random() < 0.5:
            again = self.random.randrange(start, end)
            ranges.append((again, min(end, again + self.random.randint(1, 20))))
        return [
            cdc_file(TABLE, changes[b - 1]["commit_ts"] + timedelta(milliseconds=n + 1), changes[a:b])
            for n, (a, b) in enumerate(ranges)
        ]

    def held_back(self, files: list[DmsFile]) -> list[DmsFile]:
        """Takes a file away without which the row of no later change is unknown, if there is one."""
        if self.source.kept:
            return []
        calm = [n for n, file in enumerate(files) if not any(map(self._ends_a_row, file.rows))]
        return [files.pop(self.random.choice(calm))] if calm else []

    def _ends_a_row(self, row: Row) -> bool:
        """Whether a key loses its row by the change."""
        return row["Op"] == "D" or any(row.get(f"BI_{n}") not in (None, row[n]) for n in self.source.key)


def first_commit(file: DmsFile) -> datetime:
    found: datetime = min(row["commit_ts"] for row in file.rows)
    return found


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS_TOLD)
def test_several_full_loads(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """What comes before the next load is applied counts for the time before it; what comes later, only from then on."""
    told = Reloaded(seed)
    random = told.random
    bench = bench_of(tmp_path, told.source.key, random.choice([2, 100]), seed)
    closed: list[list[DmsFile]] = []
    held_back: list[DmsFile] = []
    start = told.run(8)[0]
    for epoch in range(3):
        later: list[DmsFile] = []
        # The last file may hold changes from before the load that is flushed after it began.
        loads = told.load(during=random.randint(0, 4))
        if epoch:
            # Of the files that come with the load, what is newer than the table is part of the time before.
            files = told.files(start, len(told.source.changes))
            random.shuffle(files)
            some = random.randint(0, len(files))
            before, with_it = files[:some], files[some:]
            # Some of the changes from while the load ran come when it has been applied.
            later = [f for f in with_it if first_commit(f) >= told.began[-1] and random.random() < 0.5]
            with_it = [file for file in with_it if file not in later]
            if before:
                bench.put(*before)
                turn(bench, random)
                check(bench, [*closed, bench.files(TABLE)], f"seed {seed}, epoch {epoch}")
            applied = bench.files(TABLE)
            newest = max(
                sequences([f for f in applied if not f.is_load and f.flushed >= told.began[-2]]), default=""
            )
            late = [replace(f, rows=tuple(r for r in f.rows if r["change_seq"] > newest)) for f in with_it]
            closed.append([*applied, *late])
            bench.put(*with_it)
            start = len(told.source.changes)
        bench.put(*loads)
        turn(bench, random)
        check(bench, [*closed, bench.files(TABLE)], f"seed {seed}, load {epoch}")
        if later:
            bench.put(*later)
            turn(bench, random)
            check(bench, [*closed, bench.files(TABLE)], f"seed {seed}, from while load {epoch} ran")
        told.run(10)
        files = told.files(start, len(told.source.changes))
        start = len(told.source.changes)
        if epoch < 2:
            held_back += told.held_back(files)
        for file in random.sample(files, len(files)):
            bench.put(file)
        turn(bench, random)
        check(bench, [*closed, bench.files(TABLE)], f"seed {seed}, changes {epoch}")
        told.run(4)
    bench.put(*held_back)
    turn(bench, random)
    check(bench, [*closed, bench.files(TABLE)], f"seed {seed}, at last")
    assert any(row["_is_deleted"] for row in bench.stored())
