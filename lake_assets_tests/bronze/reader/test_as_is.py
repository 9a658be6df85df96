"""Parquet files that Spark reads as they are: the same changes as those that this process decodes.

Here: which files these are, their changes, and rows that have to be decoded. Not here: batches of them
(`silver/write/test_parquet_as_read.py`, `silver/write/test_large_batches.py`), the look at their keys
(`bronze/decode/test_looked_at.py`).
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from lake_assets.bronze.reader.as_is import UNLIKE, as_is, may_be_as_is
from lake_assets.config import TableConfig
from lake_assets_tests.helpers.files.read_folder import PARQUET_DMS, Folder, read_changes

pytestmark = pytest.mark.spark
NAME = "public.items"
AT = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)
VALUES: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "id": ("long not null", pa.int32(), [1, 2, -3]),
    "part": ("string not null", pa.string(), ["a", "", "ü`.'"]),
    "flag": ("boolean", pa.bool_(), [True, None, False]),
    "small": ("int", pa.int8(), [-128, None, 127]),
    "large": ("decimal(20, 0)", pa.uint64(), [2**64 - 1, None, 0]),
    "single": ("float", pa.float32(), [0.1, None, -0.0]),
    "real": ("double", pa.float64(), [float("nan"), None, float("-inf")]),
    "price": ("decimal(12, 2)", pa.decimal128(12, 2), [Decimal("-1.50"), None, Decimal("0.00")]),
    "bytes": ("binary", pa.binary(), [b"\xff\x00", None, b""]),
    "day": ("date", pa.date32(), [-719_162, None, 0]),
    "wall": ("timestamp", pa.timestamp("us", "UTC"), [-1, None, 1]),
    "at": ("timestamptz", pa.timestamp("ms", "UTC"), [-1, None, 253_402_300_799_999]),
    "a.b`c'\"": ("string not null", pa.string(), ["x", "y", "z"]),
}
OWN: dict[str, list[Any]] = {
    "Op": ["I", "U", "D"],
    "commit_ts": ["2026-03-01 12:00:00", "2026-03-01 12:00:00.5", "2026-03-01 12:00:00.000005"],
    "change_seq": [f"2026030112000000{number:019}" for number in (3, 1, 2)],
}


def folder_of(path: Path, **dms: Any) -> Folder:
    columns = {name: declared for name, (declared, _, _) in VALUES.items()}
    return Folder(path, columns, ["id", "part"], **PARQUET_DMS | dms)


def put(folder: Folder, columns: Mapping[str, Any], name: str = "20260301-120000000") -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(columns)), sink)
    assert folder.put(f"public/items/{name}.parquet", sink.getvalue().to_pybytes())


def images() -> dict[str, pa.Array]:
    found = {}
    for name, (_, kind, values) in VALUES.items():
        numbers = pa.int32() if pa.types.is_date(kind) else pa.int64()
        counts = pa.types.is_temporal(kind)
        found[name] = pa.array(values, numbers).cast(kind) if counts else pa.array(values, kind)
    return found


def rows(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


def both(spark: SparkSession, folder: Folder) -> tuple[list[str], list[str]]:
    given: dict[str, Any] = {"name": NAME, "table": folder.table, "dms": folder.dms}
    assert all(may_be_as_is(NAME, file, folder.table, folder.dms) for file in folder.files)
    (frame,) = as_is(spark, folder.store, folder.files, **given)
    decoded = read_changes(spark, folder.store, folder.files, **given)
    # Spark's readers write the scheme of an address with one slash or with three.
    return rows(frame.selectExpr("* EXCEPT (_file)")), rows(decoded.selectExpr("* EXCEPT (_file)"))


@pytest.mark.parametrize(
    ("own", "dms"),
    [
        (("Op", "commit_ts", "change_seq"), {}),
        (("Op", "commit_ts"), {"change_sequence_column": None}),
        (
            ("commit_ts",),
            {
                "change_sequence_column": None,
                "include_op_for_full_load": False,
                "cdc_inserts_only": True,
            },
        ),
    ],
)
def test_changes(spark: SparkSession, tmp_path: Path, own: tuple[str, ...], dms: dict[str, Any]) -> None:
    folder = folder_of(tmp_path, **dms)
    before = {"BI_id": pa.array([None, 7, 8], pa.int64()), "BI_part": [None, "b", ""]}
    put(folder, {name: OWN[name] for name in own} | images() | before)
    put(folder, {name: OWN[name] for name in own} | images() | before, "20260301-120000001")
    found, decoded = both(spark, folder)
    assert found == decoded
    assert len(found) == 6


def test_a_full_load(spark: SparkSession, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, include_op_for_full_load=False, change_sequence_column=None)
    put(folder, {"commit_ts": OWN["commit_ts"]} | images(), "LOAD00000001")
    found, decoded = both(spark, folder)
    assert found == decoded
    assert "_op='I'" in found[0]
    assert "_sequence=''" in found[0]


def test_rows_that_have_to_be_decoded(spark: SparkSession, tmp_path: Path) -> None:
    """A delete may lack what is required outside of its key."""
    folder = folder_of(tmp_path)
    odd = "a.b`c'\""
    broken = pa.array([b"a\xff", b"", b"c"]).view(pa.string())
    cases: list[tuple[dict[str, Any], list[int]]] = [
        ({odd: pa.array([None, "y", None], pa.string())}, [0]),
        ({"part": pa.array([None, "y", None], pa.string())}, [0, 2]),
        ({"part": broken}, []),  # of a key: the look at its file sees it
        ({"unused": broken}, [0]),
    ]
    for number, (changed, unlike) in enumerate(cases):
        folder.files.clear()
        put(folder, OWN | images() | changed, f"20260301-12000000{number}")
        (frame,) = as_is(spark, folder.store, folder.files, name=NAME, table=folder.table, dms=folder.dms)
        found = {row["_row"]: row["_bad"] for row in frame.select("_row", "_bad").collect()}
        assert found == {place: UNLIKE if place in unlike else None for place in range(3)}


@pytest.mark.parametrize(
    "changed",
    [
        {"small": pa.array([1, 2, 3], pa.int64())},
        {"at": pa.array([1, 2, 3], pa.timestamp("us"))},
        {"at": pa.array([1, 2, 3], pa.timestamp("ns", "UTC"))},
        {"flag": pa.array([0, 1, 0], pa.int8())},
        {"price": pa.array([Decimal(1)] * 3, pa.decimal128(12, 3))},
        {"day": pa.array(["2026-03-01"] * 3)},
        {"part": pa.array(["a", "b", "c"]).dictionary_encode()},
        {"BI_id": pa.array(["1", "2", "3"])},
        {"small": None},
    ],
    ids=" ".join,
)
def test_files_with_other_columns(tmp_path: Path, changed: dict[str, Any]) -> None:
    folder = folder_of(tmp_path)
    columns = {name: values for name, values in (OWN | images() | changed).items() if values is not None}
    put(folder, columns)
    assert not may_be_as_is(NAME, folder.files[0], folder.table, folder.dms)


@pytest.mark.parametrize(
    ("table", "dms"),
    [
        ({"mode": "full_row", "primary_key": ()}, {}),
        ({"kept_when_null": ("bytes",)}, {}),
        ({"defaults": {"small": 1}}, {}),
        ({}, {"timestamp_zone": "Europe/Berlin"}),
        ({}, {"csv_no_sup_value": "?"}),
    ],
    ids=str,
)
def test_tables_of_which_none_is_read_as_it_is(
    tmp_path: Path, table: dict[str, Any], dms: dict[str, Any]
) -> None:
    folder = folder_of(tmp_path)
    put(folder, OWN | images())
    (file,) = folder.files
    assert may_be_as_is(NAME, file, folder.table, folder.dms)
    other = TableConfig.model_validate(folder.table.model_dump() | table)
    assert not may_be_as_is(NAME, file, other, folder.dms.model_copy(update=dms))
    assert not may_be_as_is(NAME, replace(file, columns=None), folder.table, folder.dms)
    assert not may_be_as_is(NAME, replace(file, format="json"), folder.table, folder.dms)
