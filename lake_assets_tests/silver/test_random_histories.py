"""Histories by chance: random transactions, cut into random files, which arrive in random order, some of them twice,
while processes die; after each turn silver is what the oracle says, and in the end what the source is.

Here: one keyed table with its change log. Not here: situations of one's own choice (`test_late_files.py`).
`LAKE_HISTORIES=100:40` runs forty others, from seed 100 on.
"""

import itertools
import os
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from lake_assets.iceberg.publish import KeptBranches
from lake_assets.silver.apply import turn
from lake_assets.silver.changes import reading
from lake_assets_tests.helpers.files.dms_files import Row
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.oracles.masks import MASKING
from lake_assets_tests.helpers.oracles.random_history import (
    COLUMNS,
    TABLE,
    History,
    kept_of,
    random_history,
    sequences,
)
from lake_assets_tests.helpers.processes.random_deaths import turn_with_a_death

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FIRST, COUNT = (int(number) for number in os.environ.get("LAKE_HISTORIES", "0:5").split(":"))
SEEDS = range(FIRST, FIRST + COUNT)
SMALL_LOAD = reading.SMALL_LOAD


@pytest.fixture(params=[pytest.param(seed, marks=pytest.mark.long) for seed in SEEDS])
def told(request: pytest.FixtureRequest) -> History:
    return random_history(request.param, kept_of(request.param))


def test_silver_is_what_the_files_say(
    spark: SparkSession, tmp_path: Path, told: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn, "SMALL_LOAD", SMALL_LOAD if told.seed % 3 else 0)
    print(
        f"seed {told.seed}: {len(told.turns)} turns, key {told.key}, sequenced {told.sequenced}, {told.max_files} files"
    )
    bench = Bench(
        tmp_path,
        {
            TABLE: {
                "columns": COLUMNS,
                "primary_key": told.key,
                "also": ["change_log"],
                "mask": told.mask,
                "kept_when_null": kept_of(told.seed),
            }
        },
        {} if told.sequenced else {"change_sequence_column": None},
        {"automation": {"max_files_per_batch": told.max_files, "rewrite_below_mb": told.seed % 2}} | MASKING,
    )
    bench.lake.runtime.branches = KeptBranches() if told.seed // 2 % 2 else None
    random = Random(told.seed)
    for number, files in enumerate(told.turns):
        bench.put(*files)
        turn_with_a_death(bench, random)
        bench.apply()
        place = f"seed {told.seed}, turn {number}"
        assert bench.rows() == bench.truth(), place
        found, expected = bench.rows("items_changes"), bench.truth(shape="change_log")
        if not told.sequenced:
            # The engine tells the change's centisecond where DMS told nothing.
            found, expected = ([row.split("_sequence")[0] for row in rows] for rows in (found, expected))
        assert found == expected, place
    assert bench.rows() == bench.as_silver(
        TABLE, [{name: row[name] for name in COLUMNS} for row in told.rows]
    )


def test_histories_are_of_the_kinds_they_should_be() -> None:
    """Late files, repetitions, key updates and loads after changes all occur among a few seeds."""
    files = [[file for turn in random_history(seed).turns for file in turn] for seed in range(8)]
    seen = {
        "late": any(
            a.name > b.name for found in files for a, b in itertools.pairwise(found) if not b.is_load
        ),
        "late load": any(
            not a.is_load and b.is_load for found in files for a, b in itertools.pairwise(found)
        ),
        "repeated": any(len(sequences(found)) > len(set(sequences(found))) for found in files),
        "masked": {column for seed in range(6) for column in random_history(seed).mask} == {"v", "part"},
        "a masked key": any("part" in random_history(seed).mask for seed in range(1, 5, 2)),
        "moved": any(moved(row) for found in files for file in found for row in file.rows),
    }
    assert all(seen.values()), seen


def moved(row: Row) -> bool:
    return row["Op"] == "U" and row.get("BI_id", row["id"]) != row["id"]
