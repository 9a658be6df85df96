"""One table's rows of transaction files, parsed by that table's own layout.

Here: reading whole records in Spark, and selecting the table's. Not here: which tables' rows a file has
(`bronze/files/transactions.py`), the meaning of fields (`read_changes.py`, `typed_rows.py`). DataFrame API only.

The rows of one file have different widths. Spark's reader fits every row to one schema: without a schema it uses the
width of the first row; it cuts wider rows and pads narrower ones. So this module reads whole records, whose first three
fields name the table, and parses each record a second time by its table's schema, which detects a row of another width.
"""

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.decode.records import width_fault
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.layouts.headerless import LayoutsByRow
from lake_assets.bronze.reader.text_rows import csv_options, field_names, place, width_faults
from lake_assets.config import DmsSettings


def table_rows(
    spark: SparkSession,
    paths: list[str],
    layout: Layout,
    schema: str,
    tables: Collection[str],
    dms: DmsSettings,
    among: LayoutsByRow | None = None,
    *,
    explain: bool = False,
) -> DataFrame:
    """The rows of these tables of a schema, in the files' own order, read in one job, in the form of
    `text_rows.regular_csv`; the layout has neither TABLE nor SCHEMA. `among`: for a file with several layouts, returns
    the rows of this layout."""
    options = csv_options(dms)
    reader = spark.read.schema("_op string, _table string, _schema string, _corrupt string")
    records = (
        reader.options(**options)
        .option("columnPruning", False)
        .csv(paths, header=False)
        # Spark treats a record of another width than the schema's as corrupt, and keeps its whole text. A record of
        # only three fields is not a valid row, because a table has at least one column.
        .select(
            "_table",
            "_schema",
            F.col("_corrupt").alias("_record"),
            *place(F.lit(None)),
        )
        .filter(F.col("_table").isin(*tables) & (F.col("_schema") == schema))
    )
    if among is not None:
        records = records.filter(_belongs(layout, among, options))
    fields = field_names(layout)
    taken_apart = _taken_apart(layout, options).alias("_taken_apart")
    strange = F.col("_taken_apart._corrupt").isNotNull()
    width = len(fields) + 2
    # Spark keeps no whole text of a record that has only the three leading fields.
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
    """Whether a record has the layout, by the rule of `LayoutsByRow.of`."""
    belongs, fits_another = F.lit(False), F.lit(False)
    for known, end, at in zip(among.layouts, among.ends, among.sequence_places, strict=False):
        row = _taken_apart(known, options)
        sequence = row[f"_{at}"]
        fits = row["_corrupt"].isNull() & (sequence != "") & (sequence < end)
        fits = F.coalesce(fits, F.lit(False)) & ~fits_another
        belongs = belongs | fits if known == layout else belongs
        fits_another = fits_another | fits
    return belongs | ~fits_another if among.layouts[-1] == layout else belongs
