"""Rows that this process has decoded, as a DataFrame.

Spark gets few rows with its plan, and many in a table that is dropped when the batch ends. Here: both. Not here: the
rows (`bronze/decode/changes.py`).
"""

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, StringType, StructType

from lake_assets.bronze.checked.staging import StagedTable, Staging
from lake_assets.bronze.files.parquet_columns import ParquetColumn
from lake_assets.bronze.reader.parquet_types import read_schema

IN_PLAN_ROWS, IN_PLAN_BYTES = 50_000, 8 << 20
"""Limit of the rows in a plan: Spark's optimizer goes through them one by one, and Spark Connect sends them in one
message."""
TASKS, ROWS_OF_A_TASK = 4, 50_000


def arrow_frame(spark: SparkSession, rows: pa.Table, staging: Staging) -> DataFrame:
    """The rows. Columns have the types of `image_type`; the last ones may be lists of texts."""
    if not _fits_plan(rows):
        return staged_rows(spark, _staged(rows, staging))
    # In one piece: PySpark loses the rows behind an empty one.
    return spark.createDataFrame(rows.combine_chunks(), _spark_schema(rows.schema)).coalesce(1)


def staged_rows(spark: SparkSession, staged: StagedTable) -> DataFrame:
    """The rows of a staged table."""
    return spark.table(staged.name)


def _spark_schema(rows: pa.Schema) -> StructType:
    lists = [field.name for field in rows if pa.types.is_list(field.type)]
    flat = [field for field in rows if field.name not in lists]
    schema = read_schema([ParquetColumn(field.name, str(field.type)) for field in flat])
    for name in lists:
        schema = schema.add(name, ArrayType(StringType()))
    return schema


def _fits_plan(rows: pa.Table) -> bool:
    return bool(rows.num_rows <= IN_PLAN_ROWS and rows.nbytes <= IN_PLAN_BYTES)


def _staged(rows: pa.Table, staging: Staging) -> StagedTable:
    number = max(1, min(TASKS, rows.num_rows // ROWS_OF_A_TASK))
    each = -(-rows.num_rows // number)
    table = staging.table(rows.schema)

    def write(place: int) -> None:
        with table.file() as out:
            out.add(rows.slice(place * each, each))

    with ThreadPoolExecutor(TASKS, thread_name_prefix="stage") as threads:
        list(threads.map(write, range(number)))
    table.publish()
    return table
