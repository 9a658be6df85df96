"""Rows that this process has decoded, as a DataFrame.

Spark gets few rows with its plan, and many as Parquet files beside the table's. Here: both. Not here: the rows
(`bronze/decode/changes.py`).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, StringType, StructType

from lake_assets.bronze.checked.staging import Staging
from lake_assets.bronze.files.parquet_columns import ParquetColumn
from lake_assets.bronze.reader.parquet_types import READ_OPTIONS, read_schema
from lake_assets.storage.spark_paths import literal_path

IN_PLAN_ROWS, IN_PLAN_BYTES = 50_000, 8 << 20
"""Limit of the rows in a plan: Spark's optimizer goes through them one by one, and Spark Connect sends them in one
message."""
TASKS, ROWS_OF_A_TASK = 4, 50_000


def may_be_given(rows: pa.Table, staging: Staging | None) -> bool:
    """Whether so many rows can be given to Spark."""
    return staging is not None or _fits_plan(rows)


def arrow_frame(spark: SparkSession, rows: pa.Table, staging: Staging | None) -> DataFrame:
    """The rows, which may be given. Columns have the types of `image_type`; the last ones may be lists of texts."""
    if staging is not None and not _fits_plan(rows):
        return read_staged(spark, rows.schema, _staged(rows, staging))
    # In one piece: PySpark loses the rows behind an empty one.
    return spark.createDataFrame(rows.combine_chunks(), _spark_schema(rows.schema)).coalesce(1)


def read_staged(spark: SparkSession, schema: pa.Schema, addresses: Sequence[str]) -> DataFrame:
    """The rows of staged files."""
    paths = [literal_path(address) for address in addresses]
    return spark.read.schema(_spark_schema(schema)).options(**READ_OPTIONS).parquet(*paths)


def _spark_schema(rows: pa.Schema) -> StructType:
    lists = [field.name for field in rows if pa.types.is_list(field.type)]
    flat = [field for field in rows if field.name not in lists]
    schema = read_schema([ParquetColumn(field.name, str(field.type)) for field in flat])
    for name in lists:
        schema = schema.add(name, ArrayType(StringType()))
    return schema


def _fits_plan(rows: pa.Table) -> bool:
    return bool(rows.num_rows <= IN_PLAN_ROWS and rows.nbytes <= IN_PLAN_BYTES)


def _staged(rows: pa.Table, staging: Staging) -> list[str]:
    """Writes the rows, and returns the addresses of the files."""
    number = max(1, min(TASKS, rows.num_rows // ROWS_OF_A_TASK))
    each = -(-rows.num_rows // number)

    def one(place: int) -> str:
        with staging.file() as out:
            out.add(rows.slice(place * each, each))
        return out.address

    with ThreadPoolExecutor(TASKS, thread_name_prefix="stage") as threads:
        return list(threads.map(one, range(number)))
