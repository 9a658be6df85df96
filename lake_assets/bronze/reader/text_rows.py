"""Text files in Spark: the text of each field, before it gets a type.

Here: Spark's own readers for regular CSV and JSON lines. Not here: irregular files (`strict_rows.py`), null tokens
(`null_tokens.py`), types (`typed_rows.py`), which files (`read_changes.py`). DataFrame API only.

The readers' frames have the columns `_0`, `_1`… in the order of the layout, `_file` (the address in Spark's spelling),
`_row` (rises with the line within a file) and `_bad` (why the row cannot be used, else NULL).
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lake_assets.bronze.decode.records import width_fault
from lake_assets.bronze.files.csv_structure import WIDEST
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.reader.json_text import STRICT
from lake_assets.config import DmsSettings
from lake_assets.spark.sql import quoted

UNUSED = "\x00\x1f"
"""Spark's `nullValue`: Spark turns this token into NULL, and empty fields too. So only a token that no regular file
contains keeps the empty string, NULL and the endpoint's own null token apart."""
CORRUPT = "\x00corrupt"
PLACE = ("_file", "_row", "_bad")
_JSON_OPTIONS = STRICT | {"lineSep": "\n", "mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}


def field_names(layout: Layout) -> list[str]:
    """`_0`, `_1`…"""
    return [f"_{position}" for position in range(len(layout.columns))]


def width_faults(width: int, record: Column, dms: DmsSettings, *, explain: bool) -> Column:
    """The same for raw records of a regular file; with the number of their fields only if `explain`, because Spark
    counts them slowly."""
    fault = F.lit(width_fault(width))
    if not explain:
        return fault
    # In a regular file quotes are paired, and delimiters between two quotes do not separate fields.
    bare = F.regexp_replace(record, '"[^"]*"', "") if dms.rfc_4180 else record
    separators = F.length(bare) - F.length(F.replace(bare, F.lit(dms.csv_delimiter), F.lit("")))
    return F.concat(fault, F.lit(", but "), separators + 1)


def csv_options(dms: DmsSettings) -> dict[str, str]:
    """The options with which Spark parses a record. An empty field without quotes becomes NULL."""
    quote = '"' if dms.rfc_4180 else ""
    return {
        # Spark reads a backslash as the start of an escape.
        "sep": "\\\\" if dms.csv_delimiter == "\\" else dms.csv_delimiter,
        "quote": quote,
        "escape": quote,
        "multiLine": str(dms.rfc_4180),
        # Set explicitly: Spark's detection would take a carriage return in the first row for the end of every row, and
        # rewrite line ends inside quotes.
        "lineSep": dms.csv_row_delimiter,
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": "_corrupt",
        "nullValue": UNUSED,
        "emptyValue": "",
        "maxColumns": str(WIDEST),
    }


def regular_csv(
    spark: SparkSession, paths: list[str], layout: Layout, dms: DmsSettings, *, explain: bool = False
) -> DataFrame:
    """The fields of regular CSV files, an empty one as NULL."""
    fields = field_names(layout)
    schema = ", ".join(f"{field} string" for field in (*fields, "_corrupt"))
    # Without pruning, Spark detects a row of the wrong width whichever columns are selected.
    reader = spark.read.schema(schema).options(**csv_options(dms)).option("columnPruning", False)
    frame = reader.csv(paths, header=dms.add_column_name)
    fault = width_faults(len(layout.columns), F.col("_corrupt"), dms, explain=explain)
    bad = F.when(F.col("_corrupt").isNotNull(), fault)
    return frame.select("*", *place(bad)).drop("_corrupt")


def regular_json(spark: SparkSession, paths: list[str], layout: Layout) -> DataFrame:
    """The texts of the layout's keys in regular JSON lines: strings without quotes, other values with their exact text;
    NULL for null and for a missing key."""
    schema = StructType([StructField(name, StringType()) for name in (*layout.columns, CORRUPT)])
    frame = spark.read.schema(schema).options(**_JSON_OPTIONS).json(paths)
    # A line that passed the inspection and that Spark refuses: never observed, but it must not be lost.
    bad = F.when(F.col(quoted(CORRUPT)).isNotNull(), F.lit("it is not a JSON object for Spark"))
    # Renamed by position, because a key may be the empty text, which Spark does not accept as a name.
    placed = frame.select("*", *place(bad)).toDF(*field_names(layout), "_corrupt", *PLACE)
    return placed.drop("_corrupt")


def place(bad: Column) -> tuple[Column, Column, Column]:
    """`PLACE`: `_file`, `_row` and `_bad` of a row of a text file."""
    return (
        F.col("_metadata.file_path").alias("_file"),
        F.monotonically_increasing_id().alias("_row"),
        bad.alias("_bad"),
    )
