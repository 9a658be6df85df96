"""Logs of changes whose rows this process holds: the same rows as if Spark had read the files, each once.

Not here: tables of current rows (`test_held_rows.py`).
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.reader import staging
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.silver.batch.result import BatchResult
from lake_assets.silver.reduce import append_only_tables
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file, csv_bytes, load_file, put
from lake_assets_tests.helpers.files.held_batches import EVERY_TYPE, KEY, files_of, read_by
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, loaded
from lake_assets_tests.helpers.oracles.masks import MASKING

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("with_the_changes_since")]


@pytest.mark.parametrize(
    ("extension", "way"),
    [
        ("csv", "process"),
        ("csv", "Spark"),
        ("parquet", "staged"),
        pytest.param("csv", "staged", marks=pytest.mark.long),
        pytest.param("parquet", "process", marks=pytest.mark.long),
        pytest.param("parquet", "Spark", marks=pytest.mark.long),
    ],
)
def test_a_change_log(
    spark: SparkSession, tmp_path: Path, looks: list[int | None], extension: str, way: str
) -> None:
    columns = {name: declared for name, (declared, _) in EVERY_TYPE.items()}
    types = {name: kind for name, (_, kind) in EVERY_TYPE.items()}
    types |= {f"BI_{name}": types[name] for name in KEY}
    table = {"columns": columns, "primary_key": KEY, "mode": "change_log", "mask": {"_tombstone": "hash"}}
    bench = Bench(tmp_path, {"public.items": table}, dms={"before_image_prefix": "BI_"}, sections=MASKING)
    for files in files_of(Clock(), extension):
        bench.put(*files, types=types)
        with read_by(way):
            (batch,) = bench.apply()["items"]
        assert bench.rows() == bench.truth(shape="change_log")
        assert batch.rows_written == batch.rows_read
    assert looks == ([None, None] if way == "Spark" else [2, 1]), (
        "the load and the changes since, then changes"
    )
    assert not list(tmp_path.rglob(f"{staging.PREFIX}*"))


def test_changes_of_a_log_that_come_again(
    spark: SparkSession, tmp_path: Path, looks: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same batch, and in a later one."""
    compared: list[int] = []
    each_once = append_only_tables.each_once

    def counted(rows: DataFrame) -> DataFrame:
        compared.append(1)
        return each_once(rows)

    monkeypatch.setattr(append_only_tables, "each_once", counted)
    bench, clock = Bench(tmp_path, {"public.items": {**ITEMS, "mode": "change_log"}}), Clock()
    bench.put(loaded({1: "a"}))
    bench.apply()

    def put(*files: list[dict[str, Any]]) -> BatchResult:
        for rows in files:
            clock.now += timedelta(minutes=1)
            bench.put(cdc_file("public.items", clock.now, rows))
        (batch,) = bench.apply()["items"]
        assert bench.rows() == bench.truth(shape="change_log")
        return batch

    first, second = ([clock.change("I", {"id": n, "v": "x"}) for n in range(at, at + 3)] for at in (10, 20))
    assert put(first).rows_written == 3
    assert (looks[-1], compared) == (1, [])
    assert put(second, second[1:]).rows_written == 3
    assert put(first[1:]).rows_written == 0
    assert len(compared) == 2
    third = [clock.change("D", {"id": 20, "v": "x"}), clock.change("I", {"id": 31, "v": "y"})]
    assert put(third[:1], third[1:]).rows_written == 2
    assert len(compared) == 2, "each change has a sequence of its own, after every applied one"


@pytest.mark.parametrize("repeated", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_load_with_changes_that_come_twice(spark: SparkSession, tmp_path: Path, *, repeated: bool) -> None:
    bench, clock = Bench(tmp_path, {"public.items": {**ITEMS, "mode": "change_log"}}), Clock()
    first = [clock.change("I", {"id": n, "v": "x"}) for n in range(10, 13)]
    second = [clock.change("D", {"id": 10, "v": "x"}), *(first[1:] if repeated else [])]
    bench.put(loaded({1: "a", 2: "a"}))
    for rows in (first, second):
        clock.now += timedelta(minutes=1)
        bench.put(cdc_file("public.items", clock.now, rows))
    (batch,) = bench.apply()["items"]
    assert (batch.rows_read, batch.rows_written) == (8 if repeated else 6, 6)
    assert bench.rows() == bench.truth(shape="change_log")


def test_a_load_without_operations(spark: SparkSession, tmp_path: Path, looks: list[int | None]) -> None:
    dms = {"include_op_for_full_load": False}
    bench = Bench(tmp_path, {"public.items": {**ITEMS, "mode": "change_log"}}, dms=dms)
    bench.put(loaded({1: "a", 2: "b"}))
    bench.apply()
    assert looks == [1]
    assert bench.rows() == bench.truth(shape="change_log")


def test_a_log_of_inserts(spark: SparkSession, tmp_path: Path, looks: list[int | None]) -> None:
    table = {"columns": {"id": "long", "v": "string"}, "mode": "append_log"}
    bench, clock = Bench(tmp_path, {"public.items": table}), Clock()
    rows = [clock.change("I", {"id": n % 2, "v": [None, "", "x"][n % 3]}) for n in range(4)]
    bench.put(loaded({1: "a", 2: "a"}), cdc_file("public.items", clock.now + timedelta(minutes=1), rows))
    (batch,) = bench.apply()["items"]
    assert (batch.strategy, batch.kind, batch.rows_written, looks) == ("overwrite", "full_load", 6, [2])
    assert bench.rows() == bench.truth(shape="append_log")
    clock.now += timedelta(minutes=2)
    bench.put(
        cdc_file("public.items", clock.now + timedelta(minutes=1), [clock.change("I", {"id": 1, "v": "x"})])
    )
    (batch,) = bench.apply()["items"]
    assert bench.rows() == bench.truth(shape="append_log")
    assert (batch.strategy, batch.rows_written, batch.rows, looks[-1]) == ("append", 1, 7, 1)
    clock.now += timedelta(minutes=2)
    bench.put(
        cdc_file("public.items", clock.now + timedelta(minutes=1), [clock.change("U", {"id": 1, "v": "y"})])
    )
    assert "an append_log cannot express that" in str(bench.turn()["items"].error)


@pytest.mark.parametrize("way", ["process", pytest.param("Spark", marks=pytest.mark.long)])
def test_a_file_that_is_written_again_after_it_was_logged(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    """Its columns have another order by then: no value may get into another column."""
    columns = {"id": "long not null", "v": "string", "w": "string"}
    bench, clock = Bench(tmp_path, {"public.items": {"columns": columns, "mode": "change_log"}}), Clock()
    bench.put(load_file("public.items", [{"id": 1, "v": "a", "w": "b"}]))
    bench.apply()
    file = cdc_file("public.items", clock.now, [clock.change("I", {"id": 2, "v": "c", "w": "d"})])
    bench.put(file)
    bench.look()
    assert bench.location is not None
    put(bench.location, file.key, csv_bytes(file, ["id", "w", "v"], [], bench.dms))
    with read_by(way):
        (result,) = apply_tables(bench.lake.runtime, bench.lake.targets)
        assert "was written again since it was logged" in str(result.error)
        bench.apply()
    assert bench.rows() == bench.truth(shape="change_log")
    assert bench.lake.runtime.quarantine.open("silver_shop.items") == []
