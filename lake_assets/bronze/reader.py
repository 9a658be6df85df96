"""DMS files as a DataFrame of typed changes.

Here: reading CSV and Parquet in as few jobs as there are layouts, and null tokens. Not here: which files
(`silver/plan.py`), what a row means (`typed_rows.py`), or what becomes of the changes. DataFrame API only, so that it
runs on a Spark Connect session too.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.file_log import LoggedFile
from lake_assets.bronze.formats import Layout, file_layout
from lake_assets.bronze.keys import TRANSACTIONS
from lake_assets.bronze.object_store import ObjectStore
from lake_assets.bronze.transaction_rows import table_rows
from lake_assets.bronze.typed_rows import typed_rows
from lake_assets.config import DmsSettings, TableConfig

UNUSED = "\x00\x1f"
"""Stands for an empty CSV field: Spark turns its `nullValue` into NULL, and empty fields too, so that only a token
that no file contains keeps the empty string, NULL and the endpoint's own null token apart."""


def read_changes(
    spark: SparkSession,
    store: ObjectStore,
    files: Sequence[LoggedFile],
    *,
    name: str,
    table: TableConfig,
    dms: DmsSettings,
) -> DataFrame:
    """The rows of `files`, one per DMS row, none dropped; of a transaction file, those of the table `name`
    (`schema.table`).

    Columns: `_op` string (I, U or D; I in full loads that carry none), `_commit_ts` timestamp (UTC instant; NULL
    without a timestamp column), `_sequence` string (sortable; empty for full-load rows, which come before every
    change), `_file` string (address of the file), `_row` long (rises with the line within a file), `_bad` string
    (why the row cannot be used, else NULL), `_image` struct of the table's columns with their declared types, and
    for a table with a key `_before` struct of the key columns before an update (NULL where DMS wrote none). Structs,
    because a source column may have any name. Raises TableStopped when a file's columns do not fit the contract.
    """
    groups: dict[Hashable, list[LoggedFile]] = defaultdict(list)
    for file in files:
        if file.format == "parquet":
            # One schema a read: Spark takes the types from one file, and fails on (or misreads) others.
            groups[file.format, file.kind, file.columns].append(file)
        else:
            layout = file_layout(
                name=name, key=file.key, kind=file.kind, found=file.columns, table=table, dms=dms
            )
            groups[file.format, file.kind, layout].append(file)
    parts = []
    for members in groups.values():
        first, paths = members[0], [_literal(store.spark_uri(file.key)) for file in members]
        if first.format == "parquet":
            raw = spark.read.parquet(*paths)
            types = {field.name: field.dataType for field in raw.schema.fields}
            layout = file_layout(
                name=name, key=first.key, kind=first.kind, found=raw.columns, table=table, dms=dms
            )
            parts.append(typed_rows(_parquet(raw, layout), first.kind, layout, types, table, dms))
        else:
            layout = file_layout(
                name=name, key=first.key, kind=first.kind, found=first.columns, table=table, dms=dms
            )
            width = len(layout.columns)
            if first.format == TRANSACTIONS:
                frame, width = table_rows(spark, paths, layout, name, csv_options(dms)), width + 2
            else:
                frame = _csv(spark, paths, layout, dms)
            fields = _fields(frame, layout, width, table, dms)
            parts.append(typed_rows(fields, first.kind, layout, None, table, dms))
    return reduce(DataFrame.unionByName, parts)


def _literal(path: str) -> str:
    """A path in which Spark finds nothing to expand."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", path)


def csv_options(dms: DmsSettings) -> dict[str, str]:
    """How Spark takes a record apart, wherever it comes from. A field that is empty without quotes is NULL then."""
    quote = '"' if dms.rfc_4180 else ""
    return {
        "sep": dms.csv_delimiter,
        "quote": quote,
        "escape": quote,
        "multiLine": str(dms.rfc_4180),
        # Not left to detection, which takes a carriage return in the first row for the end of every row, and
        # rewrites line ends inside of quotes.
        "lineSep": "\n",
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": "_corrupt",
        "nullValue": UNUSED,
        "emptyValue": "",
    }


def _csv(spark: SparkSession, paths: list[str], layout: Layout, dms: DmsSettings) -> DataFrame:
    """The fields `_0`, `_1`… in the file's order, `_corrupt` (not NULL in a row of another width) and `_file`."""
    schema = ", ".join(f"_{position} string" for position in range(len(layout.columns)))
    # Without pruning, a row of the wrong width is noticed whichever columns are asked for.
    reader = spark.read.schema(f"{schema}, _corrupt string").options(**csv_options(dms))
    frame = reader.option("columnPruning", False).csv(paths, header=dms.add_column_name)
    return frame.select("*", F.col("_metadata.file_path").alias("_file"))


def _fields(frame: DataFrame, layout: Layout, width: int, table: TableConfig, dms: DmsSettings) -> DataFrame:
    """The text of each field, `_0`, `_1`… in the file's order, with NULL for the null token; and what `read_changes`
    says of the row's place."""
    fields = [f"_{position}" for position in range(len(layout.columns))]
    bad = F.when(F.col("_corrupt").isNotNull(), F.lit(f"not {width} fields"))
    *most, last = (F.col(field) for field in fields)
    if {column.name: column.type for column in table.columns}.get(layout.columns[-1]) == "string":
        bad = bad.when(last.endswith("\r"), F.lit("ends with a carriage return; set CsvRowDelimiter to \\n"))
    else:
        last = F.regexp_replace(last, "\r$", "")
    empty = F.lit(None) if dms.csv_null_value == "" else F.lit("")
    return frame.select(
        *(
            F.when(text.isNull(), empty).when(text != dms.csv_null_value, text).alias(field)
            for field, text in zip(fields, (*most, last), strict=True)
        ),
        "_file",
        F.monotonically_increasing_id().alias("_row"),
        bad.alias("_bad"),
    )


def _parquet(raw: DataFrame, layout: Layout) -> DataFrame:
    """The values of each column, `_0`, `_1`… in the file's order; and what `read_changes` says of the row's place."""
    metadata = raw.metadataColumn("_metadata")
    return raw.select(
        *(F.col(f"`{column}`").alias(f"_{position}") for position, column in enumerate(layout.columns)),
        metadata["file_path"].alias("_file"),
        metadata["row_index"].alias("_row"),
        F.lit(None).cast("string").alias("_bad"),
    )
