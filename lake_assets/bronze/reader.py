"""DMS files as a DataFrame of typed changes.

Here: reading CSV and Parquet in as few jobs as there are layouts, and casting by contract. Not here: which files
(`silver/plan.py`), or what becomes of the changes. DataFrame API only, so that it runs on a Spark Connect session too.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.file_log import LoggedFile
from lake_assets.bronze.formats import OPERATION, Layout, before_image, file_layout
from lake_assets.bronze.keys import FileKind
from lake_assets.bronze.object_store import ObjectStore
from lake_assets.config import Column as ColumnConfig
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.spark.types import spark_type

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
    (why the row cannot be used, else NULL), the table's columns with their declared types, and
    `_before_<key>` for each key column. Raises TableStopped when a file's columns do not fit the contract.
    """
    groups: dict[tuple[str, FileKind, Layout], list[LoggedFile]] = defaultdict(list)
    for file in files:
        found = None if file.columns is None else _names(file)
        layout = file_layout(name=name, key=file.key, kind=file.kind, found=found, table=table, dms=dms)
        groups[file.format, file.kind, layout].append(file)
    parts = []
    for (file_format, kind, layout), members in groups.items():
        paths = [store.spark_uri(file.key) for file in members]
        raw = _read_csv(spark, paths, layout, dms) if file_format == "csv" else _read_parquet(spark, paths)
        parts.append(_typed(raw, kind, layout, table, dms, text=file_format == "csv"))
    return reduce(DataFrame.unionByName, parts)


def _names(file: LoggedFile) -> tuple[str, ...]:
    """Column names as the inspection recorded them: `name` from a CSV header, `name:type` from a Parquet schema."""
    assert file.columns is not None
    return file.columns if file.format == "csv" else tuple(c.split(":", 1)[0] for c in file.columns)


def _read_csv(spark: SparkSession, paths: list[str], layout: Layout, dms: DmsSettings) -> DataFrame:
    quoting = {"quote": '"', "escape": '"'} if dms.rfc_4180 else {"quote": "", "escape": ""}
    schema = ", ".join(f"`{column}` string" for column in (*layout.columns, "_corrupt"))
    # Without pruning, a row of the wrong width is noticed whichever columns are asked for.
    frame = spark.read.schema(schema).option("columnPruning", False).csv(
        paths,
        sep=dms.csv_delimiter,
        header=dms.add_column_name,
        multiLine=dms.rfc_4180,
        lineSep=None if dms.rfc_4180 else "\n",
        mode="PERMISSIVE",
        columnNameOfCorruptRecord="_corrupt",
        nullValue=UNUSED,
        emptyValue="",
        **quoting,
    )
    frame = frame.select(
        "*",
        F.col("_metadata.file_path").alias("_file"),
        F.monotonically_increasing_id().alias("_row"),
        F.when(F.col("_corrupt").isNotNull(), F.lit(f"not {len(layout.columns)} fields")).alias("_bad"),
    ).drop("_corrupt")
    empty = F.lit(None) if dms.csv_null_value == "" else F.lit("")
    return frame.select(
        "_file",
        "_row",
        "_bad",
        *(
            F.when(F.col(f"`{column}`").isNull(), empty)
            .when(F.col(f"`{column}`") == dms.csv_null_value, F.lit(None))
            .otherwise(F.col(f"`{column}`"))
            .alias(column)
            for column in layout.columns
        ),
    )


def _read_parquet(spark: SparkSession, paths: list[str]) -> DataFrame:
    return spark.read.parquet(*paths).select(
        "*",
        F.col("_metadata.file_path").alias("_file"),
        F.col("_metadata.row_index").alias("_row"),
        F.lit(None).cast("string").alias("_bad"),
    )


def _typed(
    raw: DataFrame, kind: FileKind, layout: Layout, table: TableConfig, dms: DmsSettings, *, text: bool
) -> DataFrame:
    operation: Column = F.col(OPERATION) if layout.has_operation else F.lit("I")
    commit_ts: Column = F.lit(None).cast("timestamp")
    if dms.timestamp_column_name in layout.columns:
        commit_ts = _instant(F.col(f"`{dms.timestamp_column_name}`"), dms.timestamp_zone)
    images = {column.name: _cast(F.col(f"`{column.name}`"), column, dms, text=text) for column in table.columns}
    before = {}
    for column in table.columns:
        if column.name in table.primary_key:
            present = before_image(dms, column.name)
            before[column.name] = (
                _cast(_empty_as_null(F.col(f"`{present}`"), text), column, dms, text=text)
                if present in layout.columns
                else F.lit(None).cast(spark_type(column.type))
            )
    # A value that is there but cannot be cast must not become NULL in silence.
    unreadable = [
        F.when(F.col(f"`{c.name}`").isNotNull() & images[c.name].isNull(), F.lit(f"{c.name} is not {c.type}"))
        for c in table.columns
    ]
    # A delete carries its key only, so the other columns' NOT NULL does not bind it.
    missing = [
        F.when(images[c.name].isNull() & (F.lit(c.name in table.primary_key) | (operation != "D")), F.lit(f"{c.name} is NULL"))
        for c in table.columns
        if c.required or c.name in table.primary_key
    ]
    # isin() of a NULL operation is NULL, not false.
    known = F.coalesce(operation.isin("I", "U", "D"), F.lit(False))
    bad = F.coalesce(F.col("_bad"), F.when(~known, F.concat(F.lit("unknown operation "), operation.substr(1, 20))), F.when(~known, F.lit("no operation")), *unreadable, *missing)
    if dms.timestamp_column_name in layout.columns:
        bad = F.coalesce(bad, F.when(commit_ts.isNull(), F.lit(f"{dms.timestamp_column_name} is not a timestamp")))
    return raw.select(
        operation.alias("_op"),
        commit_ts.alias("_commit_ts"),
        _sequence(kind, layout, dms, commit_ts).alias("_sequence"),
        F.col("_file"),
        F.col("_row"),
        bad.alias("_bad"),
        *(image.alias(column) for column, image in images.items()),
        *(image.alias(f"_before_{column}") for column, image in before.items()),
    )


def _sequence(kind: FileKind, layout: Layout, dms: DmsSettings, commit_ts: Column) -> Column:
    """A string by which the table's changes sort. DMS's own where there is one; else 16 digits of the commit time
    (else of the flush time in the file's name) in centiseconds and zeros, the form DMS's own has."""
    if kind is FileKind.LOAD:
        return F.lit("")
    if dms.timestamp_column_name in layout.columns:
        digits = F.substring(F.date_format(commit_ts, "yyyyMMddHHmmssSSS"), 1, 16)
    else:
        digits = F.substring(F.regexp_replace(F.regexp_extract("_file", r"(\d{8}-\d{8})\d{1,2}\.[^/]*$", 1), "-", ""), 1, 16)
    synthetic = F.concat(digits, F.lit("0" * 19))
    if dms.change_sequence_column in layout.columns:
        own = F.col(f"`{dms.change_sequence_column}`")
        return F.when(own.isNotNull() & (own != ""), own).otherwise(synthetic)
    return synthetic


def _instant(value: Column, zone: str) -> Column:
    """DMS writes wall-clock times; the zone is the endpoint's, not the session's."""
    text = value.cast("string")
    zoned = text.rlike(r"(Z|[+-]\d{2}(:?\d{2})?)$") & text.rlike(":")
    return F.when(zoned, text).otherwise(F.concat(text, F.lit(f" {zone}"))).try_cast("timestamp")


def _empty_as_null(value: Column, text: bool) -> Column:
    """A before image that was not written is an empty field in CSV, whatever the null token is."""
    return F.when(value != "", value) if text else value


def _cast(value: Column, column: ColumnConfig, dms: DmsSettings, *, text: bool) -> Column:
    if column.type == "timestamptz" and text:
        return _instant(value, dms.timestamp_zone)
    if column.type == "binary" and text:
        # DMS writes binary columns to CSV as hexadecimal digits.
        return F.expr(f"try_to_binary(`{column.name}`, 'hex')")
    return value.try_cast(spark_type(column.type))
