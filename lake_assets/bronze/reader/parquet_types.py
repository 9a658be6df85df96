"""The Spark types that Parquet columns are read with.

Here: schemas to read with. Not here: which Spark type a column is read with (`bronze/files/parquet_columns.py`).
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import StructType

from lake_assets.bronze.files.parquet_columns import ParquetColumn, spark_name

READ_OPTIONS = {
    # DMS writes dates of the Gregorian calendar, also before 1582. By default, Spark may refuse such a file or shift
    # its dates.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "mergeSchema": "false",
}


def read_schema(columns: Sequence[ParquetColumn]) -> StructType:
    """The schema to read a file with. Every type must have a `spark_name`."""
    names = {column.name: spark_name(column.arrow) for column in columns}
    assert None not in names.values(), f"{names} were to be refused before"
    fields: list[dict[str, Any]] = [
        {"name": column.name, "type": spark_name(column.arrow), "nullable": True, "metadata": {}}
        for column in columns
    ]
    return StructType.fromJson({"type": "struct", "fields": fields})
