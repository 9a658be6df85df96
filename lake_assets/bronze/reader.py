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
from lake_assets.bronze.inspect import counted
from lake_assets.bronze.object_store import ObjectStore
from lake_assets.bronze.parquet_types import (
    READ_OPTIONS,
    ParquetColumn,
    parquet_columns,
    read_schema,
    read_type,
)
from lake_assets.bronze.typed_rows import typed_rows
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.errors import TableStopped

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
    """The rows of `files`, one per DMS row, none dropped.

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
            # One schema a read: Spark fails on, or misreads, files of others.
            file = counted(store, file, dms)
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
            columns = parquet_columns(first.columns or ())
            layout = file_layout(
                name=name,
                key=first.key,
                kind=first.kind,
                found=[column.name for column in columns],
                table=table,
                dms=dms,
            )
            _refuse_unreadable(name, first.key, columns)
            raw = spark.read.schema(read_schema(columns)).options(**READ_OPTIONS).parquet(*paths)
            types = {column.name: column.arrow for column in columns}
            parts.append(typed_rows(_parquet(raw, layout), first.kind, layout, types, table, dms))
        else:
            layout = file_layout(
                name=name, key=first.key, kind=first.kind, found=first.columns, table=table, dms=dms
            )
            parts.append(
                typed_rows(_csv(spark, paths, layout, table, dms), first.kind, layout, None, table, dms)
            )
    return reduce(DataFrame.unionByName, parts)


def _refuse_unreadable(name: str, key: str, columns: Sequence[ParquetColumn]) -> None:
    for column in columns:
        if read_type(column.arrow) is None:
            raise TableStopped(
                name,
                f"{key} has the column {column.name} of Parquet type {column.arrow}, which no type of lake.yaml holds.",
                "Have the column written as a text, a number or a time, or remove it from the DMS task's mapping.",
            )


def _literal(path: str) -> str:
    """A path in which Spark finds nothing to expand."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", path)


def _csv(
    spark: SparkSession, paths: list[str], layout: Layout, table: TableConfig, dms: DmsSettings
) -> DataFrame:
    """The text of each field, `_0`, `_1`… in the file's order, with NULL for the null token; and what `read_changes`
    says of the row's place."""
    quoting = {"quote": '"', "escape": '"'} if dms.rfc_4180 else {"quote": "", "escape": ""}
    fields = [f"_{position}" for position in range(len(layout.columns))]
    schema = ", ".join(f"{field} string" for field in (*fields, "_corrupt"))
    # Without pruning, a row of the wrong width is noticed whichever columns are asked for.
    frame = (
        spark.read.schema(schema)
        .option("columnPruning", False)
        .csv(
            paths,
            sep=dms.csv_delimiter,
            header=dms.add_column_name,
            multiLine=dms.rfc_4180,
            # Not left to detection, which takes a carriage return in the first row for the end of every row, and
            # rewrites line ends inside of quotes.
            lineSep="\n",
            mode="PERMISSIVE",
            columnNameOfCorruptRecord="_corrupt",
            nullValue=UNUSED,
            emptyValue="",
            **quoting,
        )
    )
    bad = F.when(F.col("_corrupt").isNotNull(), F.lit(f"not {len(fields)} fields"))
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
        F.col("_metadata.file_path").alias("_file"),
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
