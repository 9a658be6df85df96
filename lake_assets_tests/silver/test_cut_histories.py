"""Histories by chance of a source with a consistent cut: after each turn each shape of the table is what the oracle
says of the rows up to the cut that it shows, however late, often or cut up the files came, and whatever died.

Here: one keyed table with its change log and its history. Not here: transactions over several tables
(`test_consistent_cut.py`), situations of one's own choice (`test_cut_cases.py`).
"""

from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from lake_assets.silver.apply.rebuild import rebuild
from lake_assets.silver.table.position import read_position
from lake_assets_tests.helpers.files.dms_files import NOON, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bank import quiet
from lake_assets_tests.helpers.lakes.bench import Bench, comparable
from lake_assets_tests.helpers.oracles import oracle
from lake_assets_tests.helpers.oracles.random_history import COLUMNS, TABLE, RandomSource, last_commit, pieces
from lake_assets_tests.helpers.processes.random_deaths import turn_with_a_chance_of_death

pytestmark = [pytest.mark.spark, pytest.mark.slow]
CUT = {"consistent_cut": {"interval": "12s", "margin": "3s", "every": "1s"}}


def files_of(source: RandomSource, random: Random, count: int) -> list[DmsFile]:
    """In the order in which they arrive: most within the interval, some much later, some changes twice."""
    ranges = pieces(random, 0, len(source.changes), count=count)
    starts = [random.randrange(len(source.changes)) for _ in range(3)]
    ranges += [(start, min(len(source.changes), start + random.randint(1, 12))) for start in starts]
    files = []
    for number, (a, b) in enumerate(ranges):
        rows = source.changes[a:b]
        flush = max(row["commit_ts"] for row in rows) + timedelta(seconds=random.uniform(0, 10))
        files.append((flush + timedelta(seconds=random.choice([0, 0, 0, 2, 40])), number, flush, rows))
    return [cdc_file(TABLE, flush, rows) for _, _, flush, rows in sorted(files, key=lambda file: file[:2])]


def upto(cut: datetime | None, files: list[DmsFile]) -> list[DmsFile]:
    """What the files say up to a commit time."""
    return [
        file
        if cut is None or file.is_load
        else DmsFile(file.key, tuple(row for row in file.rows if row["commit_ts"] <= cut))
        for file in files
    ]


def compare(bench: Bench, key: list[str], place: str) -> int:
    """Each table with the oracle at its own cut; the rows that wait in the main one."""
    cut = {name: read_position(bench.table(name)) for name in ("items", "items_changes", "items_history")}
    said = upto(cut["items"].cut, bench.files(TABLE))
    assert bench.rows() == comparable(oracle.current(said, list(COLUMNS), key)), place
    said = upto(cut["items_changes"].cut, bench.files(TABLE))
    assert bench.rows("items_changes") == comparable(oracle.change_log(said, list(COLUMNS))), place
    valid = bench.stored("items_history")
    now = [{name: row[name] for name in COLUMNS} for row in valid if row["_is_current"]]
    said = upto(cut["items_history"].cut, bench.files(TABLE))
    assert comparable(now) == comparable(oracle.current(said, list(COLUMNS), key)), place
    return cut["items"].waiting


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 8))])
def test_silver_is_what_the_files_say_up_to_the_cut(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    random, short = Random(f"{seed} cut"), seed == 0
    key = ["id", "part"] if seed % 2 else ["id"]
    source = RandomSource(random, key, always_before=random.random() < 0.5)
    for _ in range(5):
        source.transaction()
    loaded = [dict(row) for row in source.rows.values()]
    source.changes.clear()
    for _ in range(12 if short else 22):
        source.transaction()
    bench = Bench(
        tmp_path,
        {TABLE: {"columns": COLUMNS, "primary_key": key, "also": ["change_log", "history"]}},
        sections={
            "automation": {"max_files_per_batch": random.choice([2, 100]), "rewrite_below_mb": seed // 2 % 2}
        },
        source=CUT,
    )
    bench.put(load_file(TABLE, loaded, at=NOON))
    arrivals, waited, behind = files_of(source, random, 5 if short else 14), 0, 0
    for number, (a, b) in enumerate(pieces(random, 0, len(arrivals), count=2 if short else 6)):
        bench.put(*arrivals[a:b])
        turn_with_a_chance_of_death(bench, random)
        applied = bench.apply()
        behind += sum(batch.rows_behind_cut for batch in applied["items"])
        waited += compare(bench, key, f"seed {seed}, turn {number}")
    assert waited, "no row ever waited"
    targets = {target.name: target for target in bench.lake.targets}
    for name in ("items", "items_changes"):
        assert rebuild(bench.lake.runtime, targets[name], publish=False).equal, name
    quiet(bench)
    bench.apply()
    assert compare(bench, key, f"seed {seed}, the end") == 0
    assert bench.rows() == comparable([{name: row[name] for name in COLUMNS} for row in source.rows.values()])
    assert max(last_commit(file) for file in arrivals) <= read_position(bench.table()).max_commit_ts
