"""Parquet files of one table with other types in each: the declared type holds both, so the table goes on.

Here: two files that differ in every column, in one batch and in two, in either order. Not here: what a type of silver
becomes (`schema/test_evolve.py`), single values (`bronze/reader/test_types_by_contract.py`).
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.decode import files as decoding
from lake_assets_tests.helpers.files.dms_files import Clock, cdc_file
from lake_assets_tests.helpers.lakes.bench import Bench, comparable

pytestmark = pytest.mark.spark
ITEMS = "public.items"


class Written(NamedTuple):
    """A value as a file has it, and as silver does."""

    type: pa.DataType
    value: Any
    found: Any


def same(kind: pa.DataType, value: Any) -> Written:
    return Written(kind, value, value)


NOON, WALL = datetime(2026, 7, 1, 12, tzinfo=UTC), datetime(2026, 7, 1, 12)  # noqa: DTZ001
INSTANTS, WALLS = pa.timestamp("us", "UTC"), pa.timestamp("us")
ONE = UUID(int=1)
CASES: Mapping[str, tuple[str, Written, Written]] = {
    "id": ("long not null", same(pa.int32(), 1), same(pa.int64(), 2)),
    "flag": ("boolean", same(pa.bool_(), True), Written(pa.int8(), 0, False)),
    "flag_text": ("boolean", Written(pa.string(), "true", True), same(pa.bool_(), False)),
    "number": ("int", same(pa.int8(), -3), Written(pa.bool_(), True, 1)),
    "count": ("long", same(pa.uint32(), 4_000_000_000), same(pa.int16(), 7)),
    "at": ("timestamptz", same(INSTANTS, NOON), Written(WALLS, WALL, NOON - timedelta(hours=5, minutes=45))),
    "clock": ("timestamp", same(pa.timestamp("ms"), WALL), Written(INSTANTS, NOON, WALL)),
    "since": ("timestamp", Written(pa.date32(), date(2026, 7, 1), WALL.replace(hour=0)), same(WALLS, WALL)),
    "price": (
        "decimal(12, 3)",
        same(pa.decimal128(10, 3), Decimal("1.500")),
        Written(pa.decimal128(38, 4), Decimal("2.2500"), Decimal("2.250")),
    ),
    "size": ("double", same(pa.float32(), 0.5), same(pa.float64(), 0.1)),
    "text": ("string", same(pa.string(), "ö"), Written(pa.binary(), "ü".encode(), "ü")),
    "digits": ("string", Written(pa.int32(), 7, "7"), same(pa.string(), "007")),
    "ident": ("uuid", same(pa.string(), str(ONE)), Written(pa.binary(16), ONE.bytes, str(ONE))),
    "bytes": ("binary", same(pa.binary(), b"\xff"), same(pa.large_binary(), b"\x00")),
}


@pytest.mark.parametrize("held", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("order", "batches"),
    [
        ((0, 1), 1),
        ((1, 0), 2),
        *(pytest.param(*c, marks=pytest.mark.long) for c in [((0, 1), 2), ((1, 0), 1)]),
    ],
)
def test_the_table_goes_on(
    spark: SparkSession,
    tmp_path: Path,
    order: tuple[int, int],
    batches: int,
    held: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoding, "MOST_BYTES", decoding.MOST_BYTES if held else -1)
    columns = {name: declared for name, (declared, *_) in CASES.items()}
    table = {"columns": columns, "primary_key": ["id"], "cdc_only": True, "quarantine": {"max_rows": 0}}
    bench, clock = Bench(tmp_path, {ITEMS: table}, {"timestamp_zone": "Asia/Kathmandu"}), Clock()
    for number, side in enumerate(order, start=1):
        written = {name: case[1:][side] for name, case in CASES.items()}
        row = clock.change("I", {name: one.value for name, one in written.items()})
        types = {name: one.type for name, one in written.items()}
        bench.put(cdc_file(ITEMS, clock.now + timedelta(seconds=number), [row], "parquet"), types=types)
        if number == 2 or batches == 2:
            bench.apply()
    expected = [{name: case[1:][side].found for name, case in CASES.items()} for side in order]
    assert comparable(bench.stored()) == comparable(expected)


def test_a_value_that_does_not_fit_is_a_bad_row(spark: SparkSession, tmp_path: Path) -> None:
    columns = {"id": "long not null", "flag": "boolean", "text": "string"}
    bench, clock = (
        Bench(tmp_path, {ITEMS: {"columns": columns, "primary_key": ["id"], "cdc_only": True}}),
        Clock(),
    )
    types = {"id": pa.int64(), "flag": pa.bool_(), "text": pa.string()}
    row = {"id": 1, "flag": True, "text": "a"}
    bench.put(cdc_file(ITEMS, clock.now, [clock.change("I", row)], "parquet"), types=types)
    rows = [
        clock.change("I", {"id": 2, "flag": 2, "text": b"b"}),
        clock.change("I", {"id": 3, "flag": 0, "text": b"\xff"}),
        clock.change("I", {"id": 4, "flag": 1, "text": b"c"}),
    ]
    other = cdc_file(ITEMS, clock.now + timedelta(seconds=9), rows, "parquet")
    bench.put(other, types={**types, "flag": pa.int8(), "text": pa.binary()})
    bench.apply()
    assert bench.stored_by_id("flag") == {1: True, 4: True}
    reasons = " ".join(bad.reason for bad in bench.lake.runtime.quarantine.open("silver_shop.items"))
    assert "flag is not a valid boolean: '2'" in reasons
    assert "text is not a valid string: 'FF'" in reasons
