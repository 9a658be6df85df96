"""Events, and the last one of each key by Spark: what a few changes of one key amount to, in any order of arrival.

Here: the rule alone, on DataFrames made by hand. Not here: files (`bench.py`'s users).
"""

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from pyspark.sql import DataFrame, SparkSession

from lake_assets.silver.reconcile.expected_rows import last_events
from lake_assets.silver.reduce.events import events
from lake_assets.silver.table.change_events import key_columns

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
    rows = last_events(events(changes, ["id"], before_images=before_images), ["id"]).collect()
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
    found = last_events(
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
    found = last_events(
        events(spark.createDataFrame(rows, schema), ["a.b", "_KEY 0"], before_images=True), ["a.b", "_KEY 0"]
    )
    assert found.columns[:4] == [*key_columns(["a.b", "_KEY 0"]), "_tombstone", "_image"]
    assert sorted((r["_key_0"], r["_key_1"], r["_tombstone"]) for r in found.collect()) == [
        (1, "x", True),
        (2, "x", False),
    ]
