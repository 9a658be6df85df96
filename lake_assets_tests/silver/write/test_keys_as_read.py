"""Keys of large batches of Parquet changes that are written as they are read: their types, widths, names and number.

Not here: what the changes do (`test_parquet_as_read.py`).
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.files.dms_files import NOON, Clock, cdc_file, load_file
from lake_assets_tests.helpers.files.parquet_shop import TYPES, applied, bench, four_rows, parquet, put
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import changed, values

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("all_large")]


@pytest.fixture(scope="module")
def made(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, all_large: None
) -> Callable[[], Bench]:
    return four_rows(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def shop(made: Callable[[], Bench]) -> Bench:
    return made()


@pytest.mark.parametrize(
    ("declared", "arrow", "how"),
    [
        ("string", pa.string(), "as read"),
        ("long", pa.string(), "as read"),
        pytest.param("long", pa.int32(), "as read", marks=pytest.mark.long),
        pytest.param("string", pa.int64(), "as read", marks=pytest.mark.long),
    ],
)
def test_keys_of_other_types_in_the_file(
    spark: SparkSession, tmp_path: Path, tried: list[str], declared: str, arrow: pa.DataType, how: str
) -> None:
    """As a text, 01 is not 1; as a number, it is."""
    table = {"columns": {"id": f"{declared} not null", "v": "string"}, "primary_key": ["id"]}
    shop, types, clock = bench(tmp_path, table), TYPES | {"id": arrow}, Clock()
    texts = ["01", "1"] if declared == "long" and arrow == pa.string() else ["1", "2"]
    keys = [text if arrow == pa.string() else int(text) for text in texts]
    rows = [clock.change("U", {"id": key, "v": text}) for key, text in zip(keys, texts, strict=True)]
    applied(shop, cdc_file("public.items", clock.now, rows), types=types)
    assert len(shop.stored()) == len({int(text) for text in texts})
    assert set(tried) == {how}


def test_files_with_keys_of_different_widths(shop: Bench, tried: list[str]) -> None:
    clock = Clock()
    put(shop, changed(clock, ("U", 1, "x"), ("U", 2, "y")), types=TYPES | {"id": pa.int32()})
    applied(shop, changed(clock, ("U", 1, "z")))
    assert values(shop) == {1: "z", 2: "y", 3: "c", 4: "d"}
    assert set(tried) == {"as read"}


def test_changes_of_unknown_rows_are_counted(spark: SparkSession, tmp_path: Path, tried: list[str]) -> None:
    """Of a table without a full load, a delete of an unknown row as well."""
    found, clock = bench(tmp_path), Clock()
    applied(found, changed(clock, ("I", 1, "a"), ("I", 2, "b")))
    batch = applied(found, changed(clock, ("D", 1, "a"), ("D", 8, "h"), ("U", 9, "i")))
    assert (batch.position.unknown_rows, values(found)) == (2, {2: "b", 9: "i"})
    assert set(tried) == {"as read"}


def test_a_batch_with_files_from_before_its_key_was_renamed(shop: Bench, tried: list[str]) -> None:
    clock = Clock(NOON + timedelta(hours=1))
    before = parquet(changed(clock, ("U", 1, "x"), ("U", 2, "y")))
    shop.put(before, types=TYPES)
    columns = {"nr": "long not null", "v": "string"}
    shop.edit({"public.items": {"columns": columns, "primary_key": ["nr"], "renamed_from": {"nr": "id"}}})
    rows = [clock.change("U", {"nr": 1, "v": "z"}), clock.change("I", {"nr": 7, "v": "g"})]
    put(shop, cdc_file("public.items", clock.now, rows), types={"nr": pa.int64(), "v": pa.string()})
    shop.apply()
    assert {row["nr"]: row["v"] for row in shop.stored()} == {1: "z", 2: "y", 3: "c", 4: "d", 7: "g"}
    assert len(shop.stored()) == 5


def test_keys_of_two_columns(spark: SparkSession, tmp_path: Path, tried: list[str]) -> None:
    columns = {"shop": "string not null", "nr": "int not null", "v": "string"}
    found = bench(tmp_path, {"columns": columns, "primary_key": ["shop", "nr"]})
    clock, types = Clock(), {"shop": pa.string(), "nr": pa.int32(), "v": pa.string()}
    load = [{"shop": name, "nr": nr, "v": "a"} for name in "xy" for nr in (1, 2)]
    applied(found, load_file("public.items", load), types=types)
    changes = [("U", "x", 1), ("D", "y", 2), ("U", "x", 1), ("I", "z", 1)]
    rows = [
        clock.change(op, {"shop": name, "nr": nr, "v": str(number)})
        for number, (op, name, nr) in enumerate(changes)
    ]
    applied(found, cdc_file("public.items", clock.now, rows), types=types)
    rows_now = sorted((row["shop"], row["nr"], row["v"]) for row in found.stored())
    assert rows_now == [("x", 1, "2"), ("x", 2, "a"), ("y", 1, "a"), ("z", 1, "3")]
    assert set(tried) == {"as read"}
