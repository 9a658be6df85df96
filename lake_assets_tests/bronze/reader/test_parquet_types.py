"""Which Spark type a Parquet column is read as, by what the file log holds of its footer. Without Spark."""

import io
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lake_assets.bronze.files.inspect import inspect_file
from lake_assets.bronze.files.keys import DataFile, parse_key
from lake_assets.bronze.files.parquet_columns import ParquetColumn, parquet_columns, spark_name
from lake_assets.bronze.reader.parquet_types import read_schema
from lake_assets.config import DmsSettings
from lake_assets.storage.object_store import LocalStore

TYPES: list[tuple[str, str | None]] = [
    ("bool", "boolean"),
    ("int8", "tinyint"),
    ("int64", "bigint"),
    ("uint8", "smallint"),
    ("uint16", "int"),
    ("uint32", "bigint"),
    ("uint64", "decimal(20,0)"),
    ("float", "float"),
    ("double", "double"),
    ("decimal128(38, 4)", "decimal(38,4)"),
    ("decimal256(50, 4)", None),
    ("string", "string"),
    ("large_string", "string"),
    ("binary", "binary"),
    ("fixed_size_binary[16]", "binary"),
    ("extension<arrow.uuid>", "binary"),
    ("date32[day]", "date"),
    ("time32[ms]", "int"),
    ("time64[us]", "bigint"),
    ("timestamp[ms]", "timestamp_ntz"),
    ("timestamp[us, tz=UTC]", "timestamp"),
    ("timestamp[us, tz=+01:00]", "timestamp"),
    ("timestamp[ns]", "bigint"),
    ("int96", "timestamp"),
    ("dictionary<values=string, indices=int32, ordered=0>", "string"),
    ("halffloat", None),
    ("duration[us]", None),
    ("list<element: int64>", None),
    ("struct<a: string>", None),
]


@pytest.mark.parametrize(("arrow", "spark"), TYPES)
def test_read_type(arrow: str, spark: str | None) -> None:
    assert (spark_name(arrow) is None) == (spark is None)
    if spark is not None:
        assert read_schema([ParquetColumn("v", arrow)])["v"].dataType.simpleString() == spark


@pytest.mark.parametrize(
    ("logged", "name", "arrow"),
    [
        ("id:int64", "id", "int64"),
        ("a:b:c:string", "a:b:c", "string"),
        ("at:timestamp[us, tz=+01:00]", "at", "timestamp[us, tz=+01:00]"),
        ("x:int32:timestamp[us, tz=+01:00]", "x:int32", "timestamp[us, tz=+01:00]"),
        ("l:list<element: int64>", "l", "list<element: int64>"),
    ],
)
def test_names_and_types_may_contain_colons(logged: str, name: str, arrow: str) -> None:
    assert parquet_columns([logged]) == (ParquetColumn(name, arrow),)


def test_the_log_names_physical_units(tmp_path: Any) -> None:
    """Of a file whose writer had other types in mind (in the footer's Arrow schema), what it really holds."""
    at = datetime(2026, 3, 1)  # noqa: DTZ001
    table = pa.table(
        {
            "s": pa.array([at], pa.timestamp("s")),
            "ns": pa.array([at], pa.timestamp("ns")),
            "t": pa.array([1], pa.time32("s")),
            "d": pa.array([at.date()], pa.date64()),
        }
    )

    def columns(**options: Any) -> tuple[str, ...] | None:
        sink = io.BytesIO()
        pq.write_table(table, sink, **options)
        (tmp_path / "public/items").mkdir(parents=True, exist_ok=True)
        (tmp_path / "public/items/LOAD00000001.parquet").write_bytes(sink.getvalue())
        file = parse_key("public/items/LOAD00000001.parquet", DmsSettings())
        assert isinstance(file, DataFile)
        return inspect_file(LocalStore(tmp_path), file, DmsSettings()).columns

    rest = ("t:time32[ms]", "d:date32[day]")
    assert columns() == ("s:timestamp[ms]", "ns:timestamp[ns]", *rest)
    assert columns(coerce_timestamps="us") == ("s:timestamp[us]", "ns:timestamp[us]", *rest)
    assert columns(use_deprecated_int96_timestamps=True) == ("s:int96", "ns:int96", *rest)
    assert read_schema(parquet_columns(columns() or ())).simpleString() == (
        "struct<s:timestamp_ntz,ns:bigint,t:int,d:date>"
    )
