"""Events and their collapse: what a few changes of one key amount to, in any order of arrival.

Here: the rule alone, on DataFrames made by hand. Not here: files (`bench.py`'s users).
"""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.silver.changes.collapse import collapse, events, figures, observe_changes, observe_used
from lake_assets.silver.plan.lateness import is_late
from lake_assets.silver.table.change_events import key_columns
from lake_assets.spark.checkpoint import checkpointed

SCHEMA = (
    "_op string, _commit_ts timestamp, _sequence string, _file string, _row bigint, _bad string, "
    "_image struct<id: bigint, v: string>, _before struct<id: bigint>"
)
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)

Change = tuple[str, str, int, str | None, int | None]
"""Operation, sequence, key, value, key before."""


def frame(spark: SparkSession, changes: Sequence[Change], file: str = "f") -> DataFrame:
    rows = [
        (op, AT, sequence, file, place, None, (key, value), (before,))
        for place, (op, sequence, key, value, before) in enumerate(changes)
    ]
    return spark.createDataFrame(rows, SCHEMA)


def state(changes: DataFrame, *, before_images: bool = True) -> dict[int, str | None]:
    """Living keys and their values; a deleted key is missing."""
    rows = collapse(events(changes, ["id"], before_images=before_images), ["id"]).collect()
    assert len({row["_key_0"] for row in rows}) == len(rows)
    return {row["_key_0"]: row["_image"]["v"] for row in rows if not row["_tombstone"]}


CASES: dict[str, tuple[list[Change], dict[int, str | None]]] = {
    "the highest sequence wins": (
        [("U", "2", 1, "b", None), ("U", "3", 1, "c", None), ("I", "1", 1, "a", None)],
        {1: "c"},
    ),
    "a delete is a tombstone": ([("I", "1", 1, "a", None), ("D", "2", 1, None, None)], {}),
    "inserted again": (
        [("I", "1", 1, "a", None), ("D", "2", 1, None, None), ("I", "3", 1, "b", None)],
        {1: "b"},
    ),
    "NULL is a value": ([("I", "1", 1, "a", None), ("U", "2", 1, None, None)], {1: None}),
    "a key update removes the old key": ([("I", "1", 1, "a", None), ("U", "2", 2, "b", 1)], {2: "b"}),
    "a before image that is the same key is none": ([("U", "2", 1, "b", 1)], {1: "b"}),
    "a before image of an insert or delete means nothing": (
        [("I", "1", 3, "x", None), ("I", "2", 1, "a", 3), ("D", "3", 2, None, 3)],
        {1: "a", 3: "x"},
    ),
    "a chain": (
        [("I", "1", 1, "a", None), ("U", "2", 2, "b", 1), ("U", "3", 3, "c", 2), ("U", "4", 4, "d", 3)],
        {4: "d"},
    ),
    "a chain in a circle": (
        [("I", "1", 1, "a", None), ("U", "2", 2, "b", 1), ("U", "3", 1, "c", 2)],
        {1: "c"},
    ),
    "the old key taken again": (
        [("I", "1", 1, "a", None), ("U", "2", 2, "b", 1), ("I", "3", 1, "c", None)],
        {1: "c", 2: "b"},
    ),
    "full-load rows come before every change": (
        [("U", "1", 1, "b", None), ("I", "", 1, "a", None)],
        {1: "b"},
    ),
}


@pytest.mark.spark
def test_states(spark: SparkSession) -> None:
    """All cases at once, each with keys of its own, and each in reversed order as well."""
    expected: dict[int, str | None] = {}
    changes: list[Change] = []
    for number, (reverse, (case, result)) in enumerate(itertools.product((False, True), CASES.values())):
        base = number * 100
        own = [(op, seq, key + base, v, None if b is None else b + base) for op, seq, key, v, b in case]
        # The sequence decides, so the order of the rows in their file must not.
        changes += reversed(own) if reverse else own
        expected |= {key + base: value for key, value in result.items()}
    assert state(frame(spark, changes)) == expected


@pytest.mark.spark
def test_without_a_sequence_file_and_line_decide(spark: SparkSession) -> None:
    same = "2026030112000000" + "0" * 19
    first = frame(spark, [("I", same, 1, "a", None), ("U", same, 1, "b", None)], file="20260301-1.csv")
    second = frame(
        spark,
        [("U", same, 1, "c", None), ("I", same, 2, "x", None), ("D", same, 2, None, None)],
        "20260301-2.csv",
    )
    assert state(second.unionByName(first)) == {1: "c"}


@pytest.mark.spark
def test_floating_point_keys_are_the_keys_of_the_source(spark: SparkSession) -> None:
    """NaN is one key, and -0.0 is 0.0, as in PostgreSQL; the image keeps the sign."""
    schema = SCHEMA.replace("id: bigint", "id: double")
    nan = float("nan")
    rows = [("I", "1", nan), ("U", "2", nan), ("I", "1", 0.0), ("U", "2", -0.0)]
    made = [(op, AT, seq, "f", n, None, (key, seq), (None,)) for n, (op, seq, key) in enumerate(rows)]
    found = collapse(
        events(spark.createDataFrame(made, schema), ["id"], before_images=True), ["id"]
    ).collect()
    assert sorted(repr(row["_image"]["id"]) + row["_image"]["v"] for row in found) == ["-0.02", "nan2"]


@pytest.mark.spark
def test_composite_keys_take_what_is_missing_before_from_now(spark: SparkSession) -> None:
    """Some engines write the before image of the changed part only."""
    image, before = (
        "struct<`a.b`: bigint, `_KEY 0`: string, v: string>",
        "struct<`a.b`: bigint, `_KEY 0`: string>",
    )
    schema = SCHEMA.split("_image")[0] + f"_image {image}, _before {before}"
    rows = [
        ("I", AT, "1", "f", 0, None, (1, "x", "old"), (None, None)),
        ("U", AT, "2", "f", 1, None, (2, "x", "new"), (1, None)),
    ]
    found = collapse(
        events(spark.createDataFrame(rows, schema), ["a.b", "_KEY 0"], before_images=True), ["a.b", "_KEY 0"]
    )
    assert found.columns[:4] == [*key_columns(["a.b", "_KEY 0"]), "_tombstone", "_image"]
    assert sorted((r["_key_0"], r["_key_1"], r["_tombstone"]) for r in found.collect()) == [
        (1, "x", True),
        (2, "x", False),
    ]


@pytest.mark.spark
def test_figures_are_taken_while_the_rows_are_read(spark: SparkSession) -> None:
    changes = frame(
        spark,
        [
            ("I", "", 1, "a", None),
            ("U", "5", 1, "b", None),
            ("D", "7", 2, None, None),
            ("I", "6", 3, "", None),
        ],
    )
    spoilt = changes.withColumn(
        "_bad", F.when(F.col("_row") >= 2, F.concat(F.lit("no "), F.col("_row").cast("string")))
    )
    observed, observation = observe_changes(spoilt)
    good, used = observe_used(observed.filter(F.col("_bad").isNull()))
    assert good.collect()
    seen = figures(observation, used)
    assert seen.used == 2
    assert (seen.rows, seen.by_op) == (4, {"I": 2, "U": 1, "D": 1})
    # Not those of the rows that cannot be used.
    assert (seen.min_sequence, seen.max_sequence, seen.max_commit_ts) == ("5", "5", AT)
    assert seen.bad_rows == 2
    assert [is_late(seen.min_sequence, highest) for highest in ("", "4", "5", "9")] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["empty", "filtered away"])
def test_nothing_to_read_is_seen_as_nothing(spark: SparkSession, kind: str) -> None:
    """Spark may cut an empty plan short; the figures must come all the same."""
    changes: DataFrame = spark.createDataFrame([], SCHEMA)
    if kind == "filtered away":
        changes = frame(spark, [("I", "1", 1, "a", None)]).filter(F.col("_op") == "X")
    observed, observation = observe_changes(changes)
    good, used = observe_used(observed)
    states: list[Any] = checkpointed(
        collapse(events(good, ["id"], before_images=True), ["id"]), [observation, used]
    ).collect()
    assert states == []
    seen = figures(observation, used)
    assert (seen.rows, seen.used, seen.min_sequence, seen.max_sequence, seen.max_commit_ts) == (
        0,
        0,
        "",
        "",
        None,
    )
    assert not is_late(seen.min_sequence, "9")
