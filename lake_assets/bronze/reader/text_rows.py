"""Text files in Spark: the text of each field, before anything is known of its type.

Here: Spark's own readers for regular CSV and JSON lines, and null tokens. Not here: irregular files
(`strict_rows.py`), types (`typed_rows.py`), which files (`read_changes.py`). DataFrame API only.

The frames that the readers make have `_0`, `_1`… in the order of the layout, `_file` (the address as Spark spells it),
`_row` (rises with the line within a file) and `_bad` (why the row cannot be used, else NULL).
"""

import re

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lake_assets.bronze.files.csv_structure import WIDEST
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.reader.wide_rows import array_of, is_wide, texts_of, unpacked
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.spark.sql import quoted
from lake_assets.words import many

UNUSED = "\x00\x1f"
"""Stands for an empty CSV field: Spark turns its `nullValue` into NULL, and empty fields too, so that only a token
that no regular file contains keeps the empty string, NULL and the endpoint's own null token apart."""
CORRUPT = "\x00corrupt"
PLACE = ("_file", "_row", "_bad")
_NO_LIMIT = str(2**31 - 1)
_JSON_OPTIONS = {
    "lineSep": "\n",
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": CORRUPT,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
    # Spark's own limits are 1,000 digits and 1,000 nested values.
    "maxNumLen": _NO_LIMIT,
    "maxNestingDepth": _NO_LIMIT,
    "maxStringLen": _NO_LIMIT,
}


def field_names(layout: Layout) -> list[str]:
    """`_0`, `_1`…"""
    return [f"_{position}" for position in range(len(layout.columns))]


def width_fault(width: int, found: int | None = None) -> str:
    """Why a row of another width is bad; `found`: the fields that it has."""
    return f"not {many(width, 'field')}" + ("" if found is None else f", but {found}")


def width_faults(width: int, record: Column, dms: DmsSettings, *, explain: bool) -> Column:
    """The same of records as they stand in a regular file; the number of their fields only where it is to `explain`,
    because Spark is slow to count them."""
    fault = F.lit(width_fault(width))
    if not explain:
        return fault
    # Quotes come in pairs, and what is between two of them separates nothing.
    bare = F.regexp_replace(record, '"[^"]*"', "") if dms.rfc_4180 else record
    separators = F.length(bare) - F.length(F.replace(bare, F.lit(dms.csv_delimiter), F.lit("")))
    return F.concat(fault, F.lit(", but "), separators + 1)


def literal_path(path: str) -> str:
    """A path in which Spark finds nothing to expand."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", path)


def csv_options(dms: DmsSettings) -> dict[str, str]:
    """How Spark takes a record apart, wherever it comes from. A field that is empty without quotes is NULL then."""
    quote = '"' if dms.rfc_4180 else ""
    return {
        # Spark reads a backslash as the start of an escape.
        "sep": "\\\\" if dms.csv_delimiter == "\\" else dms.csv_delimiter,
        "quote": quote,
        "escape": quote,
        "multiLine": str(dms.rfc_4180),
        # Not left to detection, which takes a carriage return in the first row for the end of every row, and
        # rewrites line ends inside of quotes.
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
    # Without pruning, a row of the wrong width is noticed whichever columns are asked for.
    reader = spark.read.schema(schema).options(**csv_options(dms)).option("columnPruning", False)
    frame = reader.csv(paths, header=dms.add_column_name)
    fault = width_faults(len(layout.columns), F.col("_corrupt"), dms, explain=explain)
    bad = F.when(F.col("_corrupt").isNotNull(), fault)
    return frame.select("*", *place(bad)).drop("_corrupt")


def regular_json(spark: SparkSession, paths: list[str], layout: Layout) -> DataFrame:
    """The texts of the layout's keys of regular JSON lines: strings as they are, all else as it stands in the file;
    NULL for null and for a key that is not there."""
    schema = StructType([StructField(name, StringType()) for name in (*layout.columns, CORRUPT)])
    frame = spark.read.schema(schema).options(**_JSON_OPTIONS).json(paths)
    # What the inspection let pass and Spark does not: never seen, and not to be lost if it is.
    bad = F.when(F.col(quoted(CORRUPT)).isNotNull(), F.lit("it is not a JSON object for Spark"))
    # By their places, since a key may be the empty text, which no name in Spark is.
    placed = frame.select("*", *place(bad)).toDF(*field_names(layout), "_corrupt", *PLACE)
    return placed.drop("_corrupt")


def place(bad: Column) -> tuple[Column, Column, Column]:
    """`PLACE`: `_file`, `_row` and `_bad` of a row of a text file."""
    return (
        F.col("_metadata.file_path").alias("_file"),
        F.monotonically_increasing_id().alias("_row"),
        bad.alias("_bad"),
    )


def csv_values(rows: DataFrame, layout: Layout, table: TableConfig, dms: DmsSettings) -> DataFrame:
    """The same rows with NULL for the null token and the empty text for an empty field; and, where the endpoint marks
    values that were not supplied, `_unsupplied`, an array of the names of the source columns that have none."""
    fields, types = field_names(layout), {column.name: column.type for column in table.columns}
    bad, last = F.col("_bad"), F.col(fields[-1])
    if dms.csv_row_delimiter == "\n":
        if types.get(layout.columns[-1]) == "string":
            windows = F.lit("ends with a carriage return; set CsvRowDelimiter to \\n")
            bad = F.coalesce(bad, F.when(last.endswith("\r"), windows))
        else:
            last = F.when(last.contains("\r"), F.regexp_replace(last, "\r$", "")).otherwise(last)
    empty = F.lit(None) if dms.csv_null_value == "" else F.lit("")

    def is_marked(text: Column) -> Column:
        return F.coalesce(text, F.lit("")) == F.lit(dms.csv_no_sup_value)

    def known_of(text: Column) -> Column:
        known = F.when(text.isNull(), empty).when(text != dms.csv_null_value, text)
        return known if dms.csv_no_sup_value is None else F.when(~is_marked(text), known)

    names = [name if name in types else None for name in layout.columns]
    beside = [F.col("_file"), F.col("_row"), bad.alias("_bad")]
    marks = dms.csv_no_sup_value is not None
    if is_wide(fields):
        texts = F.concat(F.expr(array_of(map(quoted, fields[:-1]))), F.array(last))
        if marks:
            missing = F.zip_with(
                texts, F.expr(texts_of(names)), lambda text, name: F.when(is_marked(text), name)
            )
            beside.append(F.array_compact(missing).alias("_unsupplied"))
        rows = rows.select(F.transform(texts, known_of).alias("_known"), *beside)
        return unpacked(rows, "_known", fields, *PLACE, *(["_unsupplied"] if marks else []))
    columns = [*map(F.col, fields[:-1]), last]
    if marks:
        marked = (F.when(is_marked(text), F.lit(name)) for text, name in zip(columns, names, strict=True))
        beside.append(F.array_compact(F.array(*marked)).alias("_unsupplied"))
    known = (known_of(text).alias(field) for text, field in zip(columns, fields, strict=True))
    return rows.select(*known, *beside)
