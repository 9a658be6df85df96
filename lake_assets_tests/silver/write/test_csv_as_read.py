"""Large batches of CSV files: applied like those of Parquet files, by way of staged rows.

Here: the same tables from CSV and from Parquet, and what is left of staged rows. Not here: which values are decoded
(`bronze/values/test_text_values.py`), the way of a large batch itself (`test_parquet_as_read.py`).
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.decode import files as decoding
from lake_assets.bronze.reader import staging
from lake_assets.bronze.reader.staging import Staging
from lake_assets.iceberg.publish import Attempt
from lake_assets.silver.changes.staged_rows import StagedRows
from lake_assets_tests.helpers.files.dms_files import Clock, DmsFile, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, changed, loaded, values
from lake_assets_tests.helpers.lakes.small_table import NEVER

pytestmark = [pytest.mark.spark, pytest.mark.slow]
STAMP = "2026-03-01 12:06:00.000000"


@pytest.fixture(autouse=True)
def all_large() -> Iterator[None]:
    with patch.object(decoding, "MOST_BYTES", -1):
        yield


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """For each group of files of a batch, the number of those whose rows were staged; below 0 if a row is bad."""
    found: list[int] = []

    plain = StagedRows._stage

    def stage(self: StagedRows, *given: Any) -> Any:
        tables, files = plain(self, *given)
        found.append(len(files) * (-1 if any(file.figures.bad_rows for file in files) else 1))
        return tables, files

    monkeypatch.setattr(StagedRows, "_stage", stage)
    return found


@pytest.fixture
def rows_staged(monkeypatch: pytest.MonkeyPatch) -> list[list[dict[str, Any]]]:
    """The rows of each staged file, as they were when the attempt ended."""
    found: list[list[dict[str, Any]]] = []
    clear = Staging.clear

    def seen(self: Staging) -> None:
        written = [file.file_path.removeprefix("file://") for table in self._tables for file in table._files]
        found.extend(pq.read_table(path).to_pylist() for path in written)
        clear(self)

    monkeypatch.setattr(Staging, "clear", seen)
    return found


def shop(folder: Path, table: dict[str, Any] = ITEMS, **more: Any) -> Bench:
    return Bench(folder, {"public.items": table}, sections=NEVER, **more)


def left(bench: Bench) -> list[str]:
    return [path.name for path in bench.folder.rglob(f"{staging.PREFIX}*")]


def test_a_load_and_changes(spark: SparkSession, tmp_path: Path, staged: list[int]) -> None:
    bench, clock = shop(tmp_path), Clock()
    bench.put(loaded({1: "a", 2: "b", 3: 'c, d\n"e"'}))
    (batch,) = bench.apply()["items"]
    assert (batch.strategy, values(bench)) == ("overwrite", {1: "a", 2: "b", 3: 'c, d\n"e"'})
    bench.put(changed(clock, ("U", 1, "x"), ("I", 4, "d")), changed(clock, ("D", 2, "b"), ("U", 1, "y")))
    (batch,) = bench.apply()["items"]
    assert (batch.strategy, batch.rows_removed, batch.unseen_updates) == ("delete_and_append", 2, 0)
    assert bench.rows() == bench.truth()
    assert staged == [1, 2]
    assert left(bench) == []


def test_a_load_with_the_changes_since(
    spark: SparkSession, tmp_path: Path, staged: list[int], rows_staged: list[Any]
) -> None:
    """Two kinds of files in one batch, one of which is read again by itself."""
    bench, clock = shop(tmp_path), Clock()
    bench.put(loaded({1: "a", 2: "b"}), changed(clock, ("U", 1, "x"), ("D", 2, "b"), ("I", 3, "c")))
    bench.apply()
    assert values(bench) == {1: "x", 3: "c"}
    assert bench.rows() == bench.truth()
    assert sum(staged) == 2
    assert sorted(map(len, rows_staged)) == [2, 3], "the rows of both"
    assert left(bench) == []


def test_a_row_that_cannot_be_used_is_quarantined(
    spark: SparkSession, tmp_path: Path, staged: list[int]
) -> None:
    table = ITEMS | {"columns": {"id": "long not null", "v": "string", "n": "int"}}
    bench, clock = shop(tmp_path, table), Clock()
    bench.put(loaded({1: "a"}))
    bench.apply()
    file = changed(clock, ("U", 1, "x"), ("I", 2, "b"))
    file = replace(
        file, rows=tuple({**row, "n": number} for row, number in zip(file.rows, ("seven", 7), strict=True))
    )
    bench.put(file)
    bench.apply()
    assert values(bench) == {1: "a", 2: "b"}
    (held,) = bench.lake.runtime.quarantine.open("silver_shop.items")
    assert (held.row, "n is not a valid int: 'seven'" in held.reason) == (0, True), held
    assert staged[-1] == -1
    assert left(bench) == []


def test_a_key_without_a_value_is_quarantined(spark: SparkSession, tmp_path: Path, staged: list[int]) -> None:
    bench, clock = shop(tmp_path), Clock()
    bench.put(loaded({1: "a"}))
    bench.apply()
    file = changed(clock, ("U", 1, "x"), ("I", 2, "b"))
    file = replace(file, rows=(file.rows[0], {**file.rows[1], "id": "NULL"}))
    bench.put(file)
    bench.apply()
    assert values(bench) == {1: "x"}
    (held,) = bench.lake.runtime.quarantine.open("silver_shop.items")
    assert (held.row, held.reason) == (1, "id is NULL")
    assert staged[-1] == -1
    assert left(bench) == []


def test_rows_of_a_masked_table_are_masked_before_they_are_staged(
    spark: SparkSession, tmp_path: Path, staged: list[int], rows_staged: list[Any]
) -> None:
    """Also those that cannot be used, which may have a secret in any column."""
    columns = {"id": "long not null", "v": "string", "n": "int", "w": "string"}
    table = ITEMS | {"columns": columns, "mask": {"v": "redact"}}
    bench = shop(tmp_path, table)
    bench.put_text("public/items/LOAD00000001.csv", "Op,commit_ts,id,v,n,w", f"I,{STAMP},1,secret,1,plain")
    bench.apply()
    lines = [f"U,{STAMP},1,another secret,2,plainer", f"I,{STAMP},2,x,no number,secret"]
    bench.put_text("public/items/20260301-120600000.csv", "Op,commit_ts,id,v,n,w", *lines)
    bench.apply()
    assert bench.stored() == [{"id": 1, "v": "***", "n": 2, "w": "plainer"}]
    assert [len(rows) for rows in rows_staged] == [1, 2], "in one attempt"
    assert "secret" not in str(rows_staged)
    assert "plainer" in str(rows_staged)
    assert staged == [1, -1]


def test_what_stands_in_place_of_an_operation_is_not_staged(
    spark: SparkSession, tmp_path: Path, rows_staged: list[Any]
) -> None:
    """Without quotes, a line break in a masked text shifts what follows it."""
    table = ITEMS | {"mask": {"v": "redact"}}
    bench = shop(tmp_path, table, dms={"rfc_4180": False, "change_sequence_column": "seq"})
    lines = [
        f"U,{STAMP},1,a secret of",
        f"secret two,secret three,2,x,{'3' * 35}",
        f"I,{STAMP},3,x,secret four",
    ]
    bench.put_text("public/items/20260301-120600000.csv", "Op,commit_ts,id,v,seq", *lines)
    bench.apply()
    assert bench.stored() == []
    assert sum(map(len, rows_staged)) == 3
    assert "secret" not in str(rows_staged)


@pytest.mark.parametrize("extension", ["csv", "parquet"])
@pytest.mark.parametrize("most", [decoding.MOST_BYTES, -1])
def test_a_file_that_is_gone_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extension: str, most: int
) -> None:
    monkeypatch.setattr(decoding, "MOST_BYTES", most)
    bench = shop(tmp_path)
    types = {"id": pa.int64(), "v": pa.string()}
    bench.put(load_file("public.items", [{"id": 1, "v": "a"}], extension=extension), types=types)
    bench.look()
    (path,) = (tmp_path / "bronze").rglob(f"LOAD*.{extension}")
    path.unlink()
    error = str(bench.turn()["items"].error)
    assert "is gone from the bucket. Put it back, or have DMS reload the table." in error


def test_an_attempt_that_fails_leaves_nothing(
    spark: SparkSession, tmp_path: Path, staged: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, clock = shop(tmp_path), Clock()
    bench.put(loaded({1: "a"}))
    bench.apply()
    bench.put(changed(clock, ("U", 1, "x")))
    seen: list[str] = []

    def fails(self: Attempt) -> int:
        seen.extend(left(bench))
        raise RuntimeError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(Attempt, "publish", fails)
        assert "no space" in str(bench.turn()["items"].error)
    assert len(seen) == 1, "rows were staged"
    assert left(bench) == []
    bench.apply()
    assert values(bench) == {1: "x"}


def test_many_small_files_of_two_layouts(spark: SparkSession, tmp_path: Path, staged: list[int]) -> None:
    """The second one has a column that the table does not have yet."""
    bench, clock = (
        shop(tmp_path, ITEMS | {"columns": {"id": "long not null", "v": "string", "w": "string"}}),
        Clock(),
    )
    bench.put(loaded(dict.fromkeys(range(50), "a")))
    bench.apply()
    files: list[DmsFile] = []
    for number in range(30):
        file = changed(clock, ("U", number, f"x{number}"))
        if number % 2:
            file = replace(file, rows=tuple({**row, "w": "more"} for row in file.rows))
        files.append(file)
    bench.put(*files)
    bench.apply()
    assert bench.rows() == bench.truth()
    assert staged[-1] == 30


def test_many_tiny_files_are_staged_together(spark: SparkSession, tmp_path: Path, staged: list[int]) -> None:
    bench, clock = shop(tmp_path), Clock()
    bench.put(loaded({1: "a"}))
    bench.apply()
    bench.put(*(changed(clock, ("U", 1, f"x{number}")) for number in range(64)))
    bench.apply()
    assert values(bench) == {1: "x63"}
    assert staged == [1, 64]


def test_files_without_rows_only(spark: SparkSession, tmp_path: Path, rows_staged: list[Any]) -> None:
    bench, clock = shop(tmp_path), Clock()
    bench.put(loaded({}), changed(clock, ("I", 1, "x"), ("I", 3, "c")))
    bench.apply()
    assert values(bench) == {1: "x", 3: "c"}


def test_columns_that_silver_has_not_are_not_staged(
    spark: SparkSession, tmp_path: Path, rows_staged: list[Any]
) -> None:
    bench = shop(tmp_path, ITEMS | {"ignore": ["secret"]})
    bench.put_text(
        "public/items/LOAD00000001.csv",
        "Op,commit_ts,id,secret,v",
        f"I,{STAMP},1,s3cret,a",
        f"I,{STAMP},2,s3cret,b",
    )
    bench.apply()
    assert values(bench) == {1: "a", 2: "b"}
    assert rows_staged
    assert "s3cret" not in str(rows_staged)


def test_a_key_with_empty_bytes_that_moves(spark: SparkSession, tmp_path: Path, staged: list[int]) -> None:
    columns = {"id": "long not null", "part": "binary not null", "v": "string"}
    bench = shop(
        tmp_path, {"columns": columns, "primary_key": ["id", "part"]}, dms={"before_image_prefix": "BI_"}
    )
    clock, row = Clock(), {"id": 1, "part": b"", "v": "a"}
    bench.put(load_file("public.items", [row, row | {"part": b"x"}]))
    bench.apply()
    moved = clock.change("U", row | {"id": 2, "part": b"y"}, {"id": 1, "part": b""})
    bench.put(cdc_file("public.items", clock.now, [moved]))
    bench.apply()
    assert bench.rows() == bench.truth()
    assert staged == [1, 1]


def test_a_column_that_is_named_like_a_before_image(
    spark: SparkSession, tmp_path: Path, rows_staged: list[Any]
) -> None:
    columns = {"id": "long not null", "BI_id": "string"}
    bench = shop(tmp_path, {"columns": columns, "primary_key": ["id"]})
    bench.put_text(
        "public/items/LOAD00000001.csv", "Op,commit_ts,id,BI_id", f"I,{STAMP},1,7", f"I,{STAMP},2,8"
    )
    bench.apply()
    assert bench.stored() == [{"id": 1, "BI_id": "7"}, {"id": 2, "BI_id": "8"}]


@pytest.mark.parametrize(
    "name",
    [
        "ü+ it's [c] {d} *",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("a b", "ü+", "x[1]{a}*", "it's")),
    ],
)
def test_paths_of_any_name(spark: SparkSession, tmp_path: Path, rows_staged: list[Any], name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    bench, clock = shop(folder, location=tmp_path / f"source%41 {name}"), Clock()
    bench.put(loaded({1: "a", 2: "b"}))
    bench.apply()
    bench.put(changed(clock, ("U", 1, "x"), ("D", 2, "b"), ("I", 3, "c")))
    bench.apply()
    assert values(bench) == {1: "x", 3: "c"}
    assert bench.rows() == bench.truth()
    assert sorted(map(len, rows_staged)) == [2, 3]
    assert not list(tmp_path.rglob("staged-*"))
