"""The columns of a table as DMS's control records define them, and the file by which silver learns them.

Here: columns and types from a record, and an empty Parquet file that has them. Not here: what a change of columns does
to silver (`schema/evolve.py`): it is what the files of a source with Parquet do. Pure.

Public examples show what `create-table` says, and none what the other records say: of those, only columns that are
where `create-table` has them count.
"""

import io
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.bronze.files.parquet_columns import parquet_columns
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.stream.messages import Control
from lake_assets.config import LANDED

Definition = dict[str, str]
"""By column of the source, Arrow's name of its type, in order."""

_OWN = (LANDED.operation_column, LANDED.timestamp_column_name or "", LANDED.change_sequence_column or "")
_BY_BITS = re.compile(r"U?INT(16|32|64)")
_INTEGER = re.compile(r"(U?)INT(\d+)")
_TYPES = {
    "BYTES": "binary",
    "BLOB": "binary",
    "DATE": "date32[day]",
    "TIMESTAMP": "timestamp[us]",
    "DATETIME": "timestamp[us]",
    "BOOLEAN": "bool",
    "REAL4": "float",
    "REAL8": "double",
    "FLOAT": "float",
    "DOUBLE": "double",
}
"""By DMS's name. Texts, times of day and types that are unknown here are text."""
_ARROW = {
    "binary": pa.binary(),
    "date32[day]": pa.date32(),
    "timestamp[us]": pa.timestamp("us"),
    "bool": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    **{str(kind): kind for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(kind): kind for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
}
_DECIMAL = re.compile(r"decimal128\((\d+), (\d+)\)")


def defined(control: Control, before: Definition | None, added: str | None) -> Definition | None:
    """The table's columns after the record; None if it does not say. `before`: those before it, if they are known.
    `added`: the column that the task's mapping adds for the order, which is none of the table."""
    found = _columns(control.details)
    operation = control.metadata.operation
    if operation == "create-table":
        after = found
    elif not found or before is None:
        return None
    elif operation == "drop-column":
        after = {name: kind for name, kind in before.items() if name not in found}
    elif operation in ("add-column", "column-type-change"):
        after = before | found
    else:
        return None
    return {name: kind for name, kind in after.items() if name != added} or None


def _columns(details: Any) -> Definition:
    """The columns that a record names, where `create-table` has them."""
    if not isinstance(details, Mapping):
        return {}
    columns = (details.get("table-def") or details).get("columns")
    if not isinstance(columns, Mapping):
        return {}
    said = {name: found if isinstance(found, Mapping) else {} for name, found in columns.items()}
    by_bits = any(_BY_BITS.fullmatch(str(one.get("type"))) for one in said.values())
    return {name: _type(one, by_bits=by_bits) for name, one in said.items()}


def _type(said: Mapping[str, Any], *, by_bits: bool) -> str:
    """The type of a column. INT8 has eight bytes in DMS's guide; its records may name types by bits."""
    name = str(said.get("type"))
    if (integer := _INTEGER.fullmatch(name)) is not None:
        size = int(integer[2])
        bits = size if by_bits or size > 8 else size * 8
        kind = f"{integer[1].lower()}int{bits}"
        return kind if kind in _ARROW else "string"
    if name == "NUMERIC":
        precision, scale = said.get("precision"), said.get("scale")
        fits = isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision <= 38
        return f"decimal128({precision}, {scale})" if fits and precision else "string"
    return _TYPES.get(name, "string")


def definition_of(file: LoggedFile) -> Definition:
    """The columns of a file that `content` has written."""
    return {
        column.name: column.arrow for column in parquet_columns(file.columns or ()) if column.name not in _OWN
    }


def content(definition: Definition) -> bytes:
    """An empty Parquet file with these columns."""
    own = [(name, pa.string()) for name in _OWN]
    schema = pa.schema([*own, *((name, _arrow(kind)) for name, kind in definition.items())])
    written = io.BytesIO()
    pq.write_table(schema.empty_table(), written)
    return written.getvalue()


def _arrow(kind: str) -> pa.DataType:
    decimal = _DECIMAL.fullmatch(kind)
    return _ARROW[kind] if decimal is None else pa.decimal128(int(decimal[1]), int(decimal[2]))
