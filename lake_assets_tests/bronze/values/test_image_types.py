"""Parquet types whose values silver has as they are: an Arrow cast gives what Spark's conversion gives.

Here: every such pair of types, with the ends of their ranges. Not here: texts (`test_text_values.py`).
"""

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.files.parquet_columns import ParquetColumn
from lake_assets.bronze.reader.parquet_types import read_schema
from lake_assets.bronze.values.image_types import has_same_values, image_type
from lake_assets.local_times import LocalClock
from lake_assets_tests.helpers.oracles.spark_casts import from_parquet

DECLARED = (
    *("boolean", "int", "long", "float", "double", "string", "date", "timestamp", "timestamptz"),
    *("decimal(12, 2)", "decimal(38, 0)", "decimal(20, 0)", "binary", "uuid", "json", "time"),
)
TIMES = [
    datetime.fromisoformat(text)
    for text in ("0001-01-01", "1582-10-10T01:00", "2026-03-29T01:30", "9999-12-31T23:59:59.999")
]
FOUND: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int8(): [-128, 127],
    pa.int16(): [-(2**15), 2**15 - 1],
    pa.int32(): [-(2**31), 2**31 - 1],
    pa.int64(): [-(2**63), 2**63 - 1],
    pa.uint8(): [0, 255],
    pa.uint16(): [0, 2**16 - 1],
    pa.uint32(): [0, 2**32 - 1],
    pa.uint64(): [0, 2**64 - 1],
    pa.float32(): [float("nan"), float("-inf"), -0.0, 1e-45],
    pa.float64(): [float("nan"), float("inf"), -0.0, 5e-324],
    pa.string(): ["", "NULL", "\x00", "é𝄞"],
    pa.date32(): [date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31)],
    pa.timestamp("ms"): TIMES,
    pa.timestamp("us"): TIMES,
    pa.timestamp("ms", "UTC"): TIMES,
    pa.timestamp("us", "UTC"): TIMES,
    pa.timestamp("ns", "UTC"): [],
    pa.decimal128(12, 2): [Decimal("-9999999999.99"), Decimal("0.00")],
    pa.decimal128(20, 0): [Decimal(2**64 - 1), Decimal(-1)],
    pa.decimal128(38, 0): [Decimal(10**38 - 1), Decimal(0)],
    pa.binary(): [b"", b"\xff\x00"],
    pa.time64("us"): [],
}
SAME = [
    (found, declared) for found in FOUND for declared in DECLARED if has_same_values(str(found), declared)
]


def test_which_types_have_the_same_values() -> None:
    found = {(str(found), declared) for found, declared in SAME}
    in_files = set(DECLARED) - {"uuid", "json", "time"}
    assert {(str(image_type(declared)), declared) for declared in in_files} < found
    assert {declared for _, declared in found} == in_files, "a text may be no uuid"
    assert not has_same_values("int64", "int")
    assert not has_same_values("uint32", "int")
    assert not has_same_values("decimal128(12, 3)", "decimal(12, 2)")
    assert not has_same_values("timestamp[us]", "timestamptz"), "a wall clock"
    assert not has_same_values(None, "uuid"), "a column that the file does not have"


@pytest.mark.spark
@pytest.mark.parametrize(("found", "declared"), SAME, ids=[f"{found}-{declared}" for found, declared in SAME])
def test_a_cast_gives_what_spark_gives(spark: SparkSession, found: pa.DataType, declared: str) -> None:
    values = pa.array([*FOUND[found], None], found)
    kind = image_type(declared)
    # Spark knows no number without a sign: its Parquet reader takes the next larger type.
    next_type = {
        "uint8": pa.int16(),
        "uint16": pa.int32(),
        "uint32": pa.int64(),
        "uint64": pa.decimal128(20, 0),
    }
    given = values.cast(next_type.get(str(found), found))
    rows = pa.table({"found": given, "cast": values.cast(kind)})
    schema = read_schema([ParquetColumn("found", str(found)), ParquetColumn("cast", str(kind))])
    frame = spark.createDataFrame(rows, schema)
    converted = from_parquet(F.col("found"), str(found), declared, LocalClock())
    # As texts too: -0 equals 0.
    same = converted.eqNullSafe(F.col("cast")) & converted.cast("string").eqNullSafe(
        F.col("cast").cast("string")
    )
    assert frame.filter(~same).collect() == []
    assert frame.filter(converted.isNotNull()).count() == len(FOUND[found]) > 1
