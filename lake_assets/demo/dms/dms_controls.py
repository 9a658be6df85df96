"""DMS's control records: what it sends to a stream when it creates a table, or a column is added.

Here: their JSON. Not here: rows (`dms_messages.py`), the topic (`topic.py`).
"""

import json
from collections.abc import Iterable
from typing import Any

from lake_assets.demo.source.bike_schema import SCHEMA, Column, SourceTable

_TYPES = {
    "int": "INT4",
    "long": "INT8",
    "double": "REAL8",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "timestamptz": "DATETIME",
}


def created(table: SourceTable, at: str) -> list[bytes]:
    """What precedes a full load of the table. `at`: ISO, UTC."""
    definition = {"columns": _columns(table.columns), "primary-key": [*table.primary_key]}
    return [
        _record("drop-table", {}, table, at),
        _record("create-table", {"table-def": definition}, table, at),
    ]


def column_added(table: SourceTable, column: Column, at: str) -> bytes:
    """That the table has got a column."""
    return _record("add-column", {"columns": _columns([column])}, table, at)


def _record(operation: str, control: dict[str, Any], table: SourceTable, at: str) -> bytes:
    metadata = {
        "timestamp": at,
        "record-type": "control",
        "operation": operation,
        "schema-name": SCHEMA,
        "table-name": table.name,
    }
    return json.dumps({"control": control, "metadata": metadata}).encode()


def _columns(columns: Iterable[Column]) -> dict[str, Any]:
    return {column.name: {**_type(column), "nullable": not column.required} for column in columns}


def _type(column: Column) -> dict[str, Any]:
    if column.type.startswith("decimal("):
        precision, scale = column.precision_and_scale
        return {"type": "NUMERIC", "precision": precision, "scale": scale}
    return {"type": _TYPES.get(column.type, "WSTRING")}
