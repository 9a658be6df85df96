"""Encodes file content as DMS's Parquet.

Here: Arrow types and the writer's options. Not here: the columns (`dms_layout.py`).
"""

import io

import pyarrow as pa
import pyarrow.parquet as pq

from lake_assets.demo.dms.dms_layout import FileContent
from lake_assets.demo.dms.dms_settings import DmsWriterSettings
from lake_assets.demo.source.bike_schema import Column
from lake_assets.demo.source.source_values import Stored, decoder

_ROW_GROUP_ROWS = 10_024
"""DMS's default RowGroupLength."""

_TYPES: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
}


def arrow_type(column: Column) -> pa.DataType:
    """The Arrow type of an Iceberg type name."""
    if column.type.startswith("decimal("):
        return pa.decimal128(*column.precision_and_scale)
    return _TYPES[column.type]


def _array(column: Column, values: tuple[Stored, ...]) -> pa.Array:
    decode = decoder(column.type)
    decoded = values if decode is None else [None if value is None else decode(value) for value in values]
    return pa.array(decoded, type=arrow_type(column))


def encode_parquet(content: FileContent, settings: DmsWriterSettings) -> bytes:
    """The file's bytes: format 1.0, timestamps in microseconds adjusted to UTC, decimals as fixed-length bytes.

    All columns are optional but the commit timestamp, as in files DMS wrote.
    """
    schema = pa.schema(
        [pa.field(column.name, arrow_type(column), not column.required) for column in content.columns]
    )
    by_column: list[tuple[Stored, ...]] = list(zip(*content.rows, strict=True)) or [()] * len(content.columns)
    arrays = [_array(column, values) for column, values in zip(content.columns, by_column, strict=True)]
    buffer = io.BytesIO()
    pq.write_table(
        pa.Table.from_arrays(arrays, schema=schema),
        buffer,
        version="1.0",
        row_group_size=_ROW_GROUP_ROWS,
        compression="gzip" if settings.compression == "gzip" else "none",
        store_schema=False,
    )
    return buffer.getvalue()
