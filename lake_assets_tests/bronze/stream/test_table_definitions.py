"""Columns and types from DMS's control records."""

import io
from typing import Any

import pyarrow.parquet as pq
import pytest

from lake_assets.bronze.stream.messages import Control, parse
from lake_assets.bronze.stream.table_definitions import content, defined
from lake_assets_tests.helpers.files.dms_messages import control


def record(operation: str, details: Any) -> Control:
    found = parse(control(operation, details))
    assert isinstance(found, Control)
    return found


def table_def(**types: Any) -> dict[str, Any]:
    columns = {name: kind if isinstance(kind, dict) else {"type": kind} for name, kind in types.items()}
    return {"table-def": {"columns": columns, "primary-key": ["id"]}}


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ({"a": "INT32", "b": "INT8", "c": "UINT8"}, {"a": "int32", "b": "int8", "c": "uint8"}),
        ({"a": "INT4", "b": "INT8", "c": "UINT1"}, {"a": "int32", "b": "int64", "c": "uint8"}),
        (
            {"a": {"type": "NUMERIC", "precision": 12, "scale": 2}, "b": {"type": "NUMERIC"}},
            {"a": "decimal128(12, 2)", "b": "string"},
        ),
        ({"a": {"type": "NUMERIC", "precision": 50, "scale": 2}}, {"a": "string"}),
        (
            {"a": {"type": "WSTRING", "length": 255}, "b": "CLOB", "c": "TIME", "d": "HYPERCUBE", "e": {}},
            dict.fromkeys("abcde", "string"),
        ),
        (
            {"a": "DATETIME", "b": "TIMESTAMP", "c": "DATE", "d": "BOOLEAN", "e": "BYTES", "f": "REAL8"},
            {
                "a": "timestamp[us]",
                "b": "timestamp[us]",
                "c": "date32[day]",
                "d": "bool",
                "e": "binary",
                "f": "double",
            },
        ),
    ],
)
def test_types(types: dict[str, Any], expected: dict[str, str]) -> None:
    found = defined(record("create-table", table_def(**types)), None, None)
    assert found == expected
    schema = pq.read_schema(io.BytesIO(content(found)))
    assert {name: str(schema.field(name).type) for name in expected} == expected


BEFORE = {"id": "int64", "v": "string"}


@pytest.mark.parametrize(
    ("operation", "details", "expected"),
    [
        ("add-column", {"columns": {"n": {"type": "INT32"}}}, {**BEFORE, "n": "int32"}),
        ("add-column", table_def(n="DATE"), {**BEFORE, "n": "date32[day]"}),
        ("drop-column", {"columns": {"v": {"type": "STRING"}}}, {"id": "int64"}),
        ("column-type-change", {"columns": {"v": {"type": "BYTES"}}}, {"id": "int64", "v": "binary"}),
        ("create-table", table_def(id="INT8", seq="STRING"), {"id": "int64"}),
        # They say nothing that is known.
        ("add-column", {"column": "n"}, None),
        ("add-column", None, None),
        ("add-column", {"columns": ["n"]}, None),
        ("rename-column", {"columns": {"v": {"type": "STRING"}}}, None),
        ("create-table", {}, None),
        ("drop-table", {}, None),
    ],
)
def test_operations(operation: str, details: Any, expected: dict[str, str] | None) -> None:
    assert defined(record(operation, details), BEFORE, "seq") == expected


def test_a_change_of_columns_that_are_unknown() -> None:
    assert defined(record("add-column", {"columns": {"n": {"type": "INT32"}}}), None, None) is None
