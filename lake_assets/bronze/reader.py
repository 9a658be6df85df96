"""DMS files as a DataFrame of typed changes.

Here: reading CSV and Parquet in as few jobs as there are layouts, null tokens, and what makes a row unusable. Not here:
which files (`silver/plan.py`), what a single value means (`values.py`), or what becomes of the changes. DataFrame API
only, so that it runs on a Spark Connect session too.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType

from lake_assets.bronze.file_log import LoggedFile
from lake_assets.bronze.formats import OPERATION, Layout, before_image, file_layout
from lake_assets.bronze.keys import FileKind
from lake_assets.bronze.object_store import ObjectStore
from lake_assets.bronze.values import exactly, instant
from lake_assets.config import Column as ColumnConfig
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.spark.types import spark_type

UNUSED = "\x00\x1f"
"""Stands for an empty CSV field: Spark turns its `nullValue` into NULL, and empty fields too, so that only a token
that no file contains keeps the empty string, NULL and the endpoint's own null token apart."""
SYNTHETIC_TAIL = "0" * 19
"""Ends the sequence of a change that DMS gave none: its counters are never zero."""


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
            found, types = raw.columns, {field.name: field.dataType for field in raw.schema.fields}
        else:
            found, types = first.columns, None
        layout = file_layout(name=name, key=first.key, kind=first.kind, found=found, table=table, dms=dms)
        rows = _csv(spark, paths, layout, table, dms) if types is None else _parquet(raw, layout)
        parts.append(_typed(rows, first.kind, layout, types, table, dms))
    return reduce(DataFrame.unionByName, parts)


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


def _typed(
    rows: DataFrame,
    kind: FileKind,
    layout: Layout,
    types: Mapping[str, DataType] | None,
    table: TableConfig,
    dms: DmsSettings,
) -> DataFrame:
    """`types` by column, None for text."""
    at = {column: F.col(f"_{position}") for position, column in enumerate(layout.columns)}

    def typed(name: str, value: Column, column: ColumnConfig) -> Column:
        return exactly(value, StringType() if types is None else types[name], column.type, dms.timestamp_zone)

    operation = at[OPERATION].cast("string") if layout.has_operation else F.lit("I")
    key = set(table.primary_key)
    values = {
        c.name: _certain(at[c.name], c, operation, c.name in key, dms) if types is None else at[c.name]
        for c in table.columns
    }
    images = {c.name: typed(c.name, values[c.name], c) for c in table.columns}
    before = []
    for c in (c for c in table.columns if c.name in key):
        present = before_image(dms, c.name)
        old = F.lit(None).cast(spark_type(c.type))
        if present is not None and present in at:
            # One that was not written is an empty field in CSV, whatever the null token is.
            old = typed(present, F.when(at[present] != "", at[present]) if types is None else at[present], c)
        before.append(old.alias(c.name))
    commit_ts = F.lit(None).cast("timestamp")
    # A value that is there but does not fit must not become NULL in silence.
    unreadable = [_unreadable(c, values[c.name], images[c.name], text=types is None) for c in table.columns]
    # A delete carries its key only, so the other columns' NOT NULL does not bind it.
    missing = [
        F.when(images[c.name].isNull() & (F.lit(c.name in key) | (operation != "D")), F.lit(f"{c.name} is NULL"))
        for c in table.columns
        if c.required or c.name in key
    ]
    if dms.timestamp_column_name is not None and dms.timestamp_column_name in at:
        commit_ts = instant(at[dms.timestamp_column_name].cast("string"), dms.timestamp_zone)
        missing.append(F.when(commit_ts.isNull(), F.lit(f"{dms.timestamp_column_name} is not a timestamp")))
    return rows.select(
        operation.alias("_op"),
        commit_ts.alias("_commit_ts"),
        _sequence(kind, at, dms, commit_ts).alias("_sequence"),
        "_file",
        "_row",
        F.coalesce(F.col("_bad"), *_unknown(operation), *unreadable, *missing).alias("_bad"),
        F.struct(*(image.alias(name) for name, image in images.items())).alias("_image"),
        *([F.struct(*before).alias("_before")] if before else []),
    )


def _certain(text: Column, column: ColumnConfig, operation: Column, in_key: bool, dms: DmsSettings) -> Column:
    """Where NULL is written as an empty field, the empty field of a required text can only be the empty text."""
    if dms.csv_null_value == "" and column.required and column.type == "string":
        return F.when(text.isNull() & (F.lit(in_key) | (operation != "D")), F.lit("")).otherwise(text)
    return text


def _unknown(operation: Column) -> tuple[Column, Column]:
    # isin() of a NULL operation is NULL, not false.
    known = F.coalesce(operation.isin("I", "U", "D"), F.lit(False))
    named = F.when(~known, F.concat(F.lit("unknown operation "), operation.substr(1, 20)))
    return named, F.when(~known, F.lit("no operation"))


def _unreadable(column: ColumnConfig, value: Column, image: Column, *, text: bool) -> Column:
    lost = value.isNotNull() & image.isNull()
    reason = F.lit(f"{column.name} is not {column.type}")
    if text:
        hint = F.lit(f"{column.name} is empty, which is not {column.type} (is csv_null_value the endpoint's?)")
        reason = F.when(value == "", hint).otherwise(reason)
    return F.when(lost, reason)


def _sequence(kind: FileKind, at: Mapping[str, Column], dms: DmsSettings, commit_ts: Column) -> Column:
    """A string by which the table's changes sort. DMS's own where there is one; else 16 digits of the commit time
    (else of the flush time in the file's name) in centiseconds and zeros, the form DMS's own has."""
    if kind is FileKind.LOAD:
        return F.lit("")
    if dms.timestamp_column_name in at:
        digits = F.date_format(commit_ts, "yyyyMMddHHmmssSSS")
    else:
        digits = F.regexp_replace(F.regexp_extract("_file", r"(\d{8}-\d{8})\d{1,2}\.[^/]*$", 1), "-", "")
    synthetic = F.concat(F.substring(digits, 1, 16), F.lit(SYNTHETIC_TAIL))
    if dms.change_sequence_column is not None and dms.change_sequence_column in at:
        own = at[dms.change_sequence_column].cast("string")
        return F.when(own != "", own).otherwise(synthetic)
    return synthetic
