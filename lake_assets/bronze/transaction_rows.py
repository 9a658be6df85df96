"""One table's rows of transaction files, taken apart by that table's own layout.

Here: getting at whole records in Spark, and choosing the table's. Not here: whose rows a file holds
(`transactions.py`), what fields mean (`reader.py`, `typed_rows.py`). DataFrame API only.

The rows of one file are of many widths. Spark's reader fits every row to one schema: it takes the width from the first
row where it is told none, cuts wider rows and fills up narrower ones. So the files are read for whole records, whose
first three fields name the table, and each record is taken apart a second time by its table's schema, where a row of
another width is noticed.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.formats import Layout


def table_rows(
    spark: SparkSession,
    paths: list[str],
    layout: Layout,
    name: str,
    options: Mapping[str, str],
) -> DataFrame:
    """The rows of the table `name` (`schema.table`) in the files' own order, read in one job.

    `options` are those of Spark's CSV reader. Columns: `_0`, `_1`… string, the fields of the layout, which has neither
    TABLE nor SCHEMA; `_corrupt` string, not NULL in a row of another width; `_file` string.
    """
    schema, _, table = name.partition(".")
    reader = spark.read.schema("_op string, _table string, _schema string, _corrupt string")
    records = (
        reader.options(**options)
        .option("columnPruning", False)
        .csv(paths, header=False)
        # A record of any other width than the schema's is a bad one to Spark, and those it keeps whole. One of just
        # three fields is no row of a table, which has a column.
        .select(
            "_table",
            "_schema",
            F.col("_corrupt").alias("_record"),
            F.col("_metadata.file_path").alias("_file"),
        )
        .filter((F.col("_table") == table) & (F.col("_schema") == schema))
    )
    fields = [f"_{position}" for position in range(len(layout.columns))]
    typed = ", ".join(
        f"{field} string" for field in (fields[0], "_table", "_schema", *fields[1:], "_corrupt")
    )
    taken_apart = F.from_csv("_record", typed, dict(options)).alias("_taken_apart")
    return records.select("_record", "_file", taken_apart).select(
        *(F.col(f"_taken_apart.{field}").alias(field) for field in fields),
        F.when(F.col("_record").isNull(), F.lit(""))
        .otherwise(F.col("_taken_apart._corrupt"))
        .alias("_corrupt"),
        "_file",
    )
