"""Text files in Spark: the text of each field, before it gets a type.

Here: Spark's own readers for regular CSV and JSON lines, and null tokens. Not here: irregular files
(`strict_rows.py`), types (`typed_rows.py`), which files (`read_changes.py`). DataFrame API only.

The readers' frames have the columns `_0`, `_1`… in the order of the layout, `_file` (the address in Spark's spelling),
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
"""Spark's `nullValue`: Spark turns this token into NULL, and empty fields too. So only a token that no regular file
contains keeps the empty string, NULL and the endpoint's own null token apart."""
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
    """The fault of a row of another width; `found`: its number of fields."""
    return f"not {many(width, 'field')}" + ("" if found is None else f", but {found}")


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


def literal_path(path: str) -> str:
    """A path in which Spark finds nothing to expand."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", path)


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


def csv_values(rows: DataFrame, layout: Layout, table: TableConfig, dms: DmsSettings) -> DataFrame:
    """The same rows with NULL for the null token and the empty text for an empty field; and, where the endpoint marks
    values that were not supplied, `_unsupplied`, an array of the names of the source columns without a value."""
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
