"""Rows that this process has decoded, as a DataFrame.

Spark gets few rows with its plan, and many in a table that is dropped when the batch ends. Here: both. Not here: the
rows (`bronze/decode/changes.py`).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructType

from lake_assets.bronze.decode.changes import BEFORE, IMAGE
from lake_assets.bronze.files.parquet_columns import ParquetColumn
from lake_assets.bronze.reader.parquet_types import read_schema
from lake_assets.bronze.reader.staging import StagedTable, Staging
from lake_assets.spark.sql import Sql, joined, literal, sql

IN_PLAN_ROWS, IN_PLAN_BYTES = 50_000, 8 << 20
"""Limit of the rows in a plan: Spark's optimizer goes through them one by one, and Spark Connect sends them in one
message."""
TASKS, ROWS_OF_A_TASK = 4, 50_000
DMS = ("_op", "_commit_ts", "_sequence", "_file", "_row", "_bad")


def decoded_frame(
    spark: SparkSession, changes: pa.Table, images: Sequence[str], before: Sequence[str], staging: Staging
) -> DataFrame:
    """Decoded changes, one row per DMS row. `images`, `before`: the names of their columns; `staging`: where many rows
    are left for Spark.

    Columns: `_op` string (I, U or D; I in full loads without operations), `_commit_ts` timestamp (UTC instant; NULL
    without a timestamp column), `_sequence` string (sortable; empty for full-load rows, which sort before every
    change), `_file` string (address of the file), `_row` long (the row's place in its file, from 0), `_bad` string (all
    reasons why the row cannot be used, else NULL), `_image` struct of silver's columns, and for a table with a key
    `_before` struct of the key columns before an update (NULL where DMS wrote none); with csv_no_sup_value or
    kept_when_null also `_unsupplied`, an array of the names of columns whose values the source did not supply."""
    rows = arrow_frame(spark, with_places(changes), staging)
    return _as_changes(rows, changes.schema, images, before)


def staged_frame(
    spark: SparkSession, schema: pa.Schema, staged: StagedTable, images: Sequence[str], before: Sequence[str]
) -> DataFrame:
    """The same, of changes that were staged `with_places`. `schema`: as decoded."""
    return _as_changes(spark.table(staged.name), schema, images, before)


def with_places(changes: pa.Table) -> pa.Table:
    """Decoded changes with names that no column of a source has."""
    return changes.rename_columns(list(_places(changes.schema).values()))


def _places(schema: pa.Schema) -> dict[str, str]:
    """By a column of decoded changes, its name in a frame."""
    return {name: f"c{at}" for at, name in enumerate(schema.names)}


def _as_changes(
    rows: DataFrame, schema: pa.Schema, images: Sequence[str], before: Sequence[str]
) -> DataFrame:
    """With structs for images, because a source column may have any name."""
    place = _places(schema)
    structs = {
        "_image": {name: place[IMAGE.format(place=at)] for at, name in enumerate(images)},
        "_before": {name: place[BEFORE.format(place=at)] for at, name in enumerate(before)},
    }
    fields = [sql("{place} AS {name}", place=Sql(place[name]), name=name) for name in place if name in DMS]
    for name, values in structs.items():
        if values:
            pairs = (sql("{name}, {place}", name=literal(n), place=Sql(at)) for n, at in values.items())
            fields.append(sql("named_struct({pairs}) AS {name}", pairs=joined(", ", pairs), name=name))
    if "_unsupplied" in place:
        fields.append(sql("{place} AS _unsupplied", place=Sql(place["_unsupplied"])))
    return rows.selectExpr(*fields)


def arrow_frame(spark: SparkSession, rows: pa.Table, staging: Staging) -> DataFrame:
    """The rows. Columns have the types of `image_type`; the last ones may be lists of texts."""
    if not _fits_plan(rows):
        return spark.table(_staged(rows, staging).name)
    # In one piece: PySpark loses the rows behind an empty one, and refuses lists in no piece at all.
    whole = rows.combine_chunks() if rows.num_rows else rows.schema.empty_table()
    return spark.createDataFrame(whole, _spark_schema(rows.schema)).coalesce(1)


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


def union(one: DataFrame, other: DataFrame) -> DataFrame:
    """The union. Only contracts with a marker for values that are not supplied have the column `_unsupplied`."""
    both = one.unionByName(other, allowMissingColumns=True)
    if one.columns == other.columns or "_unsupplied" not in both.columns:
        return both
    return both.withColumn("_unsupplied", F.coalesce("_unsupplied", F.array().cast("array<string>")))
