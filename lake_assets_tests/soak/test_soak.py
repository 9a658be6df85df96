"""Some of the random histories, chosen so that they have every feature.

Here: a fixed set of seeds in `make test`, more in `make test-long`, and a check of the set. Not here: thousands of them
(`make soak`).
"""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.soak import truth
from lake_assets_tests.soak.plan import KINDS, NOT_YET
from lake_assets_tests.soak.run import History, history, run
from lake_assets_tests.soak.source import COLUMNS, Image

FEATURES = {
    *KINDS,
    *(
        "moves",
        "chains",
        "parked swaps",
        "swaps",
        "shifts",
        "churn",
        "pairs",
        "partial",
        "partial key change",
    ),
    *("emptied", "before changed", "before always", "before none", "commits apart", "commits close"),
    *("commits coarse", "sequences all", "sequences none", "sequences comes", "sequences goes"),
    *(
        "layout csv",
        "layout headerless",
        "layout parquet",
        "layout mixed",
        "layout transactions",
        "compressed",
    ),
    *(
        "load none",
        "load plain",
        "load parallel",
        "overlap",
        "reloads",
        "new parts",
        "old file after a reload",
    ),
    *("late", "late load", "cut", "repeated", "rewritten", "again", "kills", "small batches", "log too"),
    *("masked", "partitioned", "toasted", "toasted key change"),
    *("policy first_cdc", "policy immediately"),
}
LEFT_OUT = {*NOT_YET, "partial key change", "new parts"}
SEEDS = (8, 978, 138, 464, 723, 1147, 394, 159)
MORE = range(40)


def _features(seed: int) -> set[str]:
    found = history(seed, NOT_YET)
    return found.seen | {found.plan.kind}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.long) for seed in (*SEEDS[1:], *MORE))]
)
def test_silver_is_the_source(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    outcome = run(seed, NOT_YET, tmp_path)
    assert outcome.failure is None, outcome.failure
    assert outcome.compared


def test_every_feature_is_among_the_seeds() -> None:
    assert set().union(*map(_features, SEEDS)) >= FEATURES - LEFT_OUT
    assert set().union(*(history(seed).seen for seed in range(60))) | set(KINDS) >= FEATURES


def test_a_seed_is_one_history() -> None:
    one, other = history(8), history(8)
    assert one.written.objects == other.written.objects
    assert one.turns == other.turns


@pytest.mark.parametrize("seed", range(0, 200, 7))
def test_the_files_of_a_history_decide_it(seed: int) -> None:
    """The changes of the whole bucket, applied one by one, give the source's rows: no history is ambiguous."""
    found = history(seed)
    bucket = _whole(found)
    assert bucket.whole
    if found.plan.keyed:
        end = truth.canonical(found.written.source.rows)
        assert truth.canonical(truth.current(bucket) or []) == end
        if not (found.written.source.collisions or found.plan.partial or found.plan.toasted):
            assert truth.canonical(_said(bucket)) == end


def _whole(found: History) -> truth.Bucket:
    bucket = truth.Bucket(found.written)
    for turn in found.turns:
        for look in turn.looks:
            for one in look:
                bucket.put(one)
    return bucket


def _said(bucket: truth.Bucket) -> truth.Rows:
    """Each change done as the files say it, one after the other."""
    changes = bucket.written.source.changes
    key = bucket.written.plan.key
    table: dict[tuple[Any, ...], Image] = {}
    for row in truth.loaded(bucket):
        table[tuple(row[name] for name in key)] = {name: row[name] for name in COLUMNS}
    for number in sorted({number for file in bucket.changes for number in file.numbers}):
        change = changes[number]
        if change.before is not None and change.op == "U":
            table.pop(tuple(change.before[name] for name in key), None)
        if change.op == "D":
            table.pop(tuple(change.image[name] for name in key), None)
        else:
            table[tuple(change.image[name] for name in key)] = change.image
    return list(table.values())
