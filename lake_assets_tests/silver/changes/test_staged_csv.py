"""Large batches of CSV files, whose rows this process stages for Spark.

Here: such batches with real files and tables; every batch counts as large. Not here: the spellings of values
(`bronze/checked/test_csv_columns.py`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.checked.staging import Staging
from lake_assets.silver.changes import reading
from lake_assets_tests.helpers.files.dms_files import Clock
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, changed, loaded, values
from lake_assets_tests.helpers.lakes.small_table import NEVER

pytestmark = [pytest.mark.spark, pytest.mark.slow]
STAMP, SEQUENCE = "2026-03-01 12:06:00.000000", "20260301120600000000000000000000001"


@pytest.fixture(autouse=True)
def all_large() -> Iterator[None]:
    with patch.object(reading, "LARGE", 1):
        yield


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> list[list[dict[str, Any]]]:
    """The rows of each staged file, as they were when the attempt ended."""
    found: list[list[dict[str, Any]]] = []
    clear = Staging.clear

    def seen(self: Staging) -> None:
        for address in self._addresses:
            path = Path(address.removeprefix("file:").replace("//", "/"))
            if path.stat().st_size:
                found.append(pq.read_table(path).to_pylist())
        clear(self)

    monkeypatch.setattr(Staging, "clear", seen)
    return found


def bench(folder: Path, table: dict[str, Any] = ITEMS, **more: Any) -> Bench:
    return Bench(folder, {"public.items": table}, sections=NEVER, **more)


def test_rows_are_staged(spark: SparkSession, tmp_path: Path, staged: list[Any]) -> None:
    shop, clock = bench(tmp_path), Clock()
    shop.put(loaded({1: "a", 2: "b"}), changed(clock, ("U", 1, "x"), ("D", 2, "b"), ("I", 3, "c")))
    shop.apply()
    assert values(shop) == {1: "x", 3: "c"}
    assert sorted(map(len, staged)) == [2, 3]


def test_files_without_rows_only(spark: SparkSession, tmp_path: Path, staged: list[Any]) -> None:
    shop, clock = bench(tmp_path), Clock()
    shop.put(loaded({}), changed(clock, ("I", 1, "x"), ("I", 3, "c")))
    shop.apply()
    assert values(shop) == {1: "x", 3: "c"}


def test_columns_that_silver_has_not_are_not_staged(
    spark: SparkSession, tmp_path: Path, staged: list[Any]
) -> None:
    shop = bench(tmp_path, ITEMS | {"ignore": ["secret"]})
    shop.put_text(
        "public/items/LOAD00000001.csv",
        "Op,commit_ts,id,secret,v",
        f"I,{STAMP},1,s3cret,a",
        f"I,{STAMP},2,s3cret,b",
    )
    shop.apply()
    assert values(shop) == {1: "a", 2: "b"}
    assert staged
    assert "s3cret" not in str(staged)


def test_a_column_that_is_named_like_a_before_image(
    spark: SparkSession, tmp_path: Path, staged: list[Any]
) -> None:
    columns = {"id": "long not null", "BI_id": "string"}
    shop = bench(tmp_path, {"columns": columns, "primary_key": ["id"]})
    shop.put_text(
        "public/items/LOAD00000001.csv", "Op,commit_ts,id,BI_id", f"I,{STAMP},1,7", f"I,{STAMP},2,8"
    )
    shop.apply()
    assert shop.stored() == [{"id": 1, "BI_id": "7"}, {"id": 2, "BI_id": "8"}]


@pytest.mark.parametrize("name", ["a b", "ü+", "x[1]{a}*", "it's"])
def test_paths_of_any_name(spark: SparkSession, tmp_path: Path, staged: list[Any], name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    shop, clock = bench(folder, location=tmp_path / f"source%41 {name}"), Clock()
    shop.put(loaded({1: "a", 2: "b"}))
    shop.apply()
    shop.put(changed(clock, ("U", 1, "x"), ("D", 2, "b"), ("I", 3, "c")))
    shop.apply()
    assert values(shop) == {1: "x", 3: "c"}
    assert sorted(map(len, staged)) == [2, 3]
    assert not list(tmp_path.rglob("staged-*"))
