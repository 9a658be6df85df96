"""Files that change their names and bytes and come back: every table keeps its rows, and goes on.

Here: real files and tables, of every shape, in random chains. Not here: the decisions on single objects
(`bronze/log/test_copies.py`, `test_chains.py`), files that say something else (`test_written_again.py`).
"""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.silver.apply.rebuild import rebuild
from lake_assets_tests.helpers.files.written_again import BARE, EVENTS, ITEMS, TABLES, Lake

pytestmark = pytest.mark.spark
NO_SEQUENCE = {"change_sequence_column": None}
SOME = {ITEMS: TABLES[ITEMS] | {"also": ["change_log"]}, BARE: TABLES[BARE]}
"""A table of current rows with its log, and one without a key."""


def is_right(lake: Lake) -> None:
    """Compares each table with the source, or, where it keeps the past, with its files."""
    bench = lake.bench
    assert bench.rows("items") == bench.truth(ITEMS)
    if bench.dms["change_sequence_column"]:
        assert bench.rows("items_changes") == bench.truth(ITEMS, "change_log")
    assert bench.rows("bare") == bench.truth(BARE, "full_row")
    if EVENTS in lake.tables:
        assert bench.rows("events") == bench.truth(EVENTS, "append_log")
    for name in {"items_changes", "items_history", "soft"}.intersection(lake.names):
        found = rebuild(bench.lake.runtime, lake.target(name), publish=False)
        assert found.equal, (name, found)


@pytest.mark.parametrize(
    ("tables", "dms"),
    [
        pytest.param(SOME, {}, id="some tables"),
        pytest.param(TABLES, {}, id="every shape", marks=pytest.mark.long),
        pytest.param(TABLES, NO_SEQUENCE, id="every shape, no sequence", marks=pytest.mark.long),
    ],
)
def test_files_that_change_their_names_and_come_back(
    spark: SparkSession, tmp_path: Path, tables: dict[str, dict[str, Any]], dms: dict[str, Any]
) -> None:
    lake = Lake(tmp_path, tables, dms)
    lake.load()
    lake.changes(("U", 1, "new"), ("I", 7, "i"), ("D", 4, "loaded"))
    lake.turn()
    before = lake.rows()
    lake.there_and_back(Random(1), lake.turn)
    assert lake.rows() == before
    lake.changes(("U", 2, "new"), ("I", 8, "i"))
    lake.turn()
    is_right(lake)


def random_chain(lake: Lake, seed: int, steps: int) -> None:
    """Random steps on random files, scans and turns between any of them, and new changes now and then."""
    random, story = Random(seed), [f"seed {seed}"]
    lake.load()
    lake.changes(("U", 1, "new"), ("I", 7, "i"))
    lake.turn()
    ordered = bool(lake.bench.dms["change_sequence_column"])
    for number in range(steps):
        chosen = lake.objects()
        for place in random.sample(sorted(chosen), random.randint(1, len(chosen))):
            paths = chosen[place]
            source = random.choice(paths)
            to = source.with_name(source.name.partition(".")[0] + random.choice([".csv", ".csv.gz"]))
            reorder = random.random() < 0.5 and (ordered or "LOAD" in place)
            lake.spell(source, to, random, reorder=reorder)
            if random.random() < 0.6:
                for other in paths:
                    if other != to:
                        other.unlink(missing_ok=True)
            story.append(f"{source.relative_to(lake.bench.folder)} -> {to.name}")
        if random.random() < 0.3:
            lake.changes(("U", random.randint(1, 3), f"v{number}"), ("I", 20 + number, "i"))
            story.append("changes")
        if random.random() < 0.4:
            lake.bench.look()
            story.append("scan")
        if random.random() < 0.6:
            lake.turn()
            story.append("turn")
    try:
        lake.turn()
        is_right(lake)
        assert all(not result.batches for result in lake.turn().values()), "nothing is left to do"
    except Exception as error:
        raise AssertionError("\n".join(story)) from error


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 40))
def test_random_chains(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    random_chain(Lake(tmp_path, dms=NO_SEQUENCE if seed % 3 == 0 else {}), seed, steps=8)
