"""One table's rows of transaction files, taken apart by that table's own layout.

Here: getting at whole records in Spark, and choosing the table's. Not here: whose rows a file holds
(`bronze/files/transactions.py`), what fields mean (`read_changes.py`, `typed_rows.py`). DataFrame API only.

The rows of one file are of many widths. Spark's reader fits every row to one schema: it takes the width from the first
row where it is told none, cuts wider rows and fills up narrower ones. So the files are read for whole records, whose
first three fields name the table, and each record is taken apart a second time by its table's schema, where a row of
another width is noticed.
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.reader.headerless import LayoutsByRow
from lake_assets.bronze.reader.text_rows import csv_options, field_names, place, width_fault, width_faults
from lake_assets.config import DmsSettings


def table_rows(
    spark: SparkSession,
    paths: list[str],
    layout: Layout,
    name: str,
    dms: DmsSettings,
    among: LayoutsByRow | None = None,
    *,
    explain: bool = False,
) -> DataFrame:
    """The rows of the table `name` (`schema.table`) in the files' own order, read in one job, as
    `text_rows.regular_csv` gives those of a file of one table; the layout has neither TABLE nor SCHEMA. `among`: of a
    file that has several layouts, the rows of this one."""
    options = csv_options(dms)
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
            *place(F.lit(None)),
        )
        .filter((F.col("_table") == table) & (F.col("_schema") == schema))
    )
    if among is not None:
        records = records.filter(_belongs(layout, among, options))
    fields = field_names(layout)
    taken_apart = _taken_apart(layout, options).alias("_taken_apart")
    strange = F.col("_taken_apart._corrupt").isNotNull()
    width = len(fields) + 2
    # Of a record that has the three leading fields alone, Spark keeps nothing else.
    bare = F.when(F.col("_record").isNull(), F.lit(width_fault(width, 3 if explain else None)))
    return records.select("_record", "_file", "_row", taken_apart).select(
        *(F.col(f"_taken_apart.{field}").alias(field) for field in fields),
        "_file",
        "_row",
        bare.when(strange, width_faults(width, F.col("_record"), dms, explain=explain)).alias("_bad"),
    )


def _taken_apart(layout: Layout, options: dict[str, str]) -> Column:
    first, *others = field_names(layout)
    names = (first, "_table", "_schema", *others, "_corrupt")
    return F.from_csv("_record", ", ".join(f"{name} string" for name in names), dict(options))


def _belongs(layout: Layout, among: LayoutsByRow, options: dict[str, str]) -> Column:
    """Whether a record has the layout, as `LayoutsByRow.of` says it."""
    belongs, fits_another = F.lit(False), F.lit(False)
    for known, end, at in zip(among.layouts, among.ends, among.sequence_places, strict=False):
        row = _taken_apart(known, options)
        sequence = row[f"_{at}"]
        fits = row["_corrupt"].isNull() & (sequence != "") & (sequence < end)
        fits = F.coalesce(fits, F.lit(False)) & ~fits_another
        belongs = belongs | fits if known == layout else belongs
        fits_another = fits_another | fits
    return belongs | ~fits_another if among.layouts[-1] == layout else belongs
