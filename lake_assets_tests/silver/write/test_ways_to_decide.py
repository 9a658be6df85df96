"""Batches that are decided in three ways: held by this process, staged for Spark, and in pieces of a few keys.

Here: what all three have to have in common, each case once. Not here: the rule (`silver/reduce/test_last_changes.py`),
random histories, of which some are decided in pieces (`soak`).
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.decode import files as decoding
from lake_assets.silver.changes import keyed_events
from lake_assets.silver.reduce import edit_keys
from lake_assets_tests.helpers.files.dms_files import Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, changed, loaded, values

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TEXTS = {"a": "string not null", "b": "string not null", "v": "string"}


@pytest.fixture(params=["held", pytest.param("staged", marks=pytest.mark.long), "pieces"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    way: str = request.param
    if way != "held":
        monkeypatch.setattr(decoding, "MOST_BYTES", -1)
    if way == "pieces":
        monkeypatch.setattr(keyed_events, "ROWS_OF_A_PIECE", 2)
        monkeypatch.setattr(edit_keys, "MOST_HELD", 1)
    return way


def texts(a: str, b: str, v: str) -> dict[str, Any]:
    return {"a": a, "b": b, "v": v}


def file(clock: Clock, minute: int, *rows: dict[str, Any]) -> DmsFile:
    return cdc_file("public.items", clock.now + timedelta(minutes=minute), rows)


def stored(bench: Bench) -> list[tuple[str, ...]]:
    return sorted((row["a"], row["b"], row["v"]) for row in bench.stored())


def test_a_load_changes_and_a_late_file(spark: SparkSession, tmp_path: Path, way: str) -> None:
    bench, clock = Bench(tmp_path, {"public.items": ITEMS}), Clock()
    bench.put(loaded(dict.fromkeys(range(12), "a")))
    bench.apply()
    late = changed(clock, *(("U", key, "late") for key in range(8)), ("I", 40, "late"), ("D", 11, "a"))
    bench.put(changed(clock, ("U", 1, "b"), ("D", 2, "a"), ("I", 30, "c"), ("U", 1, "d"), ("D", 40, "x")))
    bench.apply()
    bench.put(late)
    (batch,) = bench.apply()["items"]
    assert bench.rows() == bench.truth()
    assert values(bench)[1] == "d"
    assert batch.unseen_updates == 0


def test_files_without_rows(spark: SparkSession, tmp_path: Path, way: str) -> None:
    bench, clock = Bench(tmp_path, {"public.items": ITEMS}), Clock()
    bench.put(loaded({}))
    bench.apply()
    assert bench.stored() == []
    bench.put(changed(clock))
    bench.apply()
    bench.put(changed(clock, ("I", 1, "a"), ("I", 2, "b"), ("I", 3, "c")))
    bench.apply()
    assert values(bench) == {1: "a", 2: "b", 3: "c"}


def test_a_late_file_beside_one_without_rows(spark: SparkSession, tmp_path: Path, way: str) -> None:
    """A file that was applied is gone, so that the late one cannot be: it alone is quarantined."""
    bench, clock = Bench(tmp_path, {"public.items": ITEMS}), Clock()
    bench.put(loaded({1: "a", 2: "b", 3: "c"}))
    bench.apply()
    late, applied = changed(clock, ("U", 1, "late")), changed(clock, ("U", 2, "applied"))
    bench.put(applied)
    bench.apply()
    (bench.folder / "bronze" / applied.key).unlink()
    bench.put(late, changed(clock, ("U", 3, "newer")), file(clock, 9))
    bench.apply()
    assert values(bench) == {1: "a", 2: "applied", 3: "newer"}
    assert [held.key for held in bench.lake.runtime.quarantine.open()] == [late.key]


@pytest.mark.parametrize("key", [["b", "a"], pytest.param(["a", "b"], marks=pytest.mark.long)])
def test_a_key_in_another_order_than_its_columns(
    spark: SparkSession, tmp_path: Path, way: str, key: list[str]
) -> None:
    """A late change of a row that has moved since, by a file of an older contract; and rows that are followed."""
    bench, clock = Bench(tmp_path, {"public.items": {"columns": TEXTS, "primary_key": key}}), Clock()
    bench.put(load_file("public.items", [texts("p", "q", "1"), texts("q", "p", "2"), texts("x", "y", "3")]))
    bench.apply()
    late = file(clock, 1, clock.change("U", texts("x", "y", "late")))
    bench.put(file(clock, 2, clock.change("U", texts("x", "z", "moved"), {"a": "x", "b": "y"})))
    bench.apply()
    moves = [
        clock.change("U", texts("m", "n", "1"), {"a": "p", "b": "q"}),
        clock.change("U", texts("p", "q", "2"), {"a": "q", "b": "p"}, same_transaction=True),
        clock.change("U", texts("q", "p", "1"), {"a": "m", "b": "n"}, same_transaction=True),
    ]
    bench.put(file(clock, 3, *moves))
    bench.apply()
    swapped = [("p", "q", "2"), ("q", "p", "1"), ("x", "z", "moved")]
    assert stored(bench) == swapped
    bench.edit({"public.items": {"columns": TEXTS | {"w": "string"}, "primary_key": key}})
    bench.put(file(clock, 4, clock.change("I", texts("new", "", "4") | {"w": "w"})))
    bench.apply()
    bench.put(late)
    bench.apply()
    assert stored(bench) == [("new", "", "4"), *swapped]


def test_keys_of_a_load_that_repeat(spark: SparkSession, tmp_path: Path, way: str) -> None:
    bench = Bench(tmp_path, {"public.items": ITEMS})
    bench.put(loaded({1: "a", 2: "b", 3: "c", 4: "d"}), loaded({2: "b", 5: "e"}, part=2))
    bench.apply()
    assert values(bench) == {1: "a", 2: "b", 3: "c", 4: "d", 5: "e"}
    assert len(bench.stored()) == 5
