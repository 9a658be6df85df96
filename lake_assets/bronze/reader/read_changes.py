"""DMS files as a DataFrame of typed changes.

Here: reading files in as few jobs as there are layouts. Not here: which files (`silver/plan/planner.py`), how text
files are read (`text_rows.py`, `strict_rows.py`), what a row means (`typed_rows.py`), or what becomes of the changes.
DataFrame API only, so that it runs on a Spark Connect session too.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from lake_assets.bronze.files.formats import Layout, added_names, file_layout
from lake_assets.bronze.files.keys import TRANSACTIONS
from lake_assets.bronze.files.parquet_columns import ParquetColumn, parquet_columns, spark_name
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.reader.file_facts import file_facts
from lake_assets.bronze.reader.headerless import (
    agreed_layout,
    headerless_layouts,
    layouts_by_row,
    refuse_open_layout,
)
from lake_assets.bronze.reader.parquet_types import READ_OPTIONS, read_schema
from lake_assets.bronze.reader.places import plain
from lake_assets.bronze.reader.recount import counted
from lake_assets.bronze.reader.strict_rows import strict_rows
from lake_assets.bronze.reader.text_rows import (
    csv_values,
    field_names,
    literal_path,
    regular_csv,
    regular_json,
)
from lake_assets.bronze.reader.transaction_rows import table_rows
from lake_assets.bronze.reader.typed_rows import typed_rows
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.errors import TableStopped
from lake_assets.storage.object_store import ObjectStore

MANY, SMALL = 64, 2048
"""From so many files of one layout on, those up to so many bytes, as stored, are read in this process."""


def read_changes(
    spark: SparkSession,
    store: ObjectStore,
    files: Sequence[LoggedFile],
    *,
    name: str,
    table: TableConfig,
    dms: DmsSettings,
    partial: bool = False,
    explain: bool = False,
) -> DataFrame:
    """The rows of `files`, one per DMS row, none dropped; of a transaction file, those of the table `name`
    (`schema.table`).

    Columns: `_op` string (I, U or D; I in full loads that carry none), `_commit_ts` timestamp (UTC instant; NULL
    without a timestamp column), `_sequence` string (sortable; empty for full-load rows, which come before every
    change), `_file` string (address of the file), `_row` long (rises with the line within a file), `_bad` string
    (why the row cannot be used, else NULL), `_image` struct of the table's columns with their declared types, and
    for a table with a key `_before` struct of the key columns before an update (NULL where DMS wrote none); with
    csv_no_sup_value also `_unsupplied`, an array of the names of columns whose values the source did not supply. An
    insert without all its values is bad, and so is an update unless the caller can use it (`partial`). With
    `explain`, `_bad` names all faults of a row, with its values, as `typed_rows` says.
    Structs, because a source column may have any name. Regular files of one layout are one read; irregular ones, and
    those into which a change of the source's columns falls, are read here, record by record (`strict_rows.py`), and so
    are many small ones. Raises TableStopped when a file's columns do not fit the contract, UnreadableFile for a file to
    be read here that is too large.
    """
    groups: dict[Hashable, list[LoggedFile]] = defaultdict(list)
    parts = []
    layouts = _text_layouts(spark, store, files, name, table, dms)
    for file in files:
        if (by_row := layouts_by_row(file, table, dms)) is not None:
            # Layouts that differ in names alone are one by today's.
            for layout in dict.fromkeys(by_row.layouts):
                then = table.settings_in(layout.era, dms)
                if file.format == TRANSACTIONS:
                    rows = table_rows(
                        spark, _paths(store, [file]), layout, name, dms, by_row, explain=explain
                    )
                else:
                    rows = strict_rows(spark, store, [file], layout, table, dms, by_row, explain=explain)
                rows = csv_values(rows, layout, table, then)
                parts.append(typed_rows(rows, file.kind, layout, None, table, then, explain=explain))
        elif file.format == "parquet":
            # One schema a read: Spark fails on, or misreads, files of others.
            file = counted(store, file, dms, ())
            groups[file.format, file.kind, file.columns, table.era(file.written_at)].append(file)
        else:
            groups[file.format, file.kind, layouts[file.offset]].append(file)
    for members in groups.values():
        first = members[0]
        if first.format == "parquet":
            then = table.settings_in(table.era(first.written_at), dms)
            columns = parquet_columns(first.columns or ())
            layout = file_layout(
                name=name,
                key=first.key,
                kind=first.kind,
                found=[column.name for column in columns],
                table=table,
                dms=then,
            )
            _refuse_unreadable(name, first.key, columns)
            paths = _paths(store, members)
            schema = read_schema(columns)
            raw = spark.read.schema(schema).options(**READ_OPTIONS).parquet(*paths)
            types = {today: column.arrow for today, column in zip(layout.columns, columns, strict=True)}
            rows = _parquet(raw, schema, layout)
            parts.append(typed_rows(rows, first.kind, layout, types, table, then, explain=explain))
        else:
            layout = layouts[first.offset]
            then = table.settings_in(layout.era, dms)
            # The text of JSON is exact: neither null tokens nor empty fields need an interpretation.
            texts = dict.fromkeys(layout.columns, "string") if first.format == "json" else None
            if first.format == TRANSACTIONS:
                rows = csv_values(
                    table_rows(spark, _paths(store, members), layout, name, dms, explain=explain),
                    layout,
                    table,
                    then,
                )
            else:
                rows = _texts(spark, store, members, layout, table, then, explain=explain)
            parts.append(typed_rows(rows, first.kind, layout, texts, table, then, explain=explain))
    changes = reduce(DataFrame.unionByName, parts)
    return changes if dms.csv_no_sup_value is None else _without_partial_rows(changes, partial)


def _text_layouts(
    spark: SparkSession,
    store: ObjectStore,
    files: Sequence[LoggedFile],
    name: str,
    table: TableConfig,
    dms: DmsSettings,
) -> dict[int, Layout]:
    """By offset, the layouts of text files that have one. Files that may have several are read for what their values
    say of it."""
    found = {}
    open_ones: dict[tuple[Layout, ...], list[LoggedFile]] = defaultdict(list)
    for file in files:
        if file.format == "parquet" or layouts_by_row(file, table, dms) is not None:
            continue
        if file.columns is not None:
            found[file.offset] = _named_layout(file, file.columns, name, table, dms)
            continue
        layouts = headerless_layouts(name, file, table, dms)
        if (layout := agreed_layout(layouts, file.kind, None, dms)) is not None:
            found[file.offset] = layout
        else:
            open_ones[layouts].append(file)
    for layouts, members in open_ones.items():
        then = table.settings_in(layouts[0].era, dms)
        facts = file_facts(_texts(spark, store, members, layouts[0], table, then), layouts, table, then)
        for file in members:
            seen = facts.get(plain(store.spark_uri(file.path)))
            # Without a row that can be used, nothing depends on it.
            layout = layouts[0] if seen is None else agreed_layout(layouts, file.kind, seen, then)
            if layout is None:
                raise refuse_open_layout(name, file, layouts, then)
            found[file.offset] = layout
    return found


def _named_layout(
    file: LoggedFile, found: tuple[str, ...], name: str, table: TableConfig, dms: DmsSettings
) -> Layout:
    era = table.era(file.written_at)
    then = table.settings_in(era, dms)
    if file.format == "json":
        # In any order, so that one order of all keys makes one read; a key that no object of a file has is NULL, and
        # one that means nothing is not read (Spark would refuse two that differ by case).
        own = {column.name for column in table.columns}
        former = set(table.renamed_from.values()) & set(found)
        renamed = {new for new, old in table.renamed_from.items() if old in former and new not in found}
        found = tuple(sorted((own - renamed) | former | (added_names(table.columns, then) & set(found))))
    layout = file_layout(name=name, key=file.key, kind=file.kind, found=found, table=table, dms=then)
    return replace(layout, era=era)


def _refuse_unreadable(name: str, key: str, columns: Sequence[ParquetColumn]) -> None:
    for column in columns:
        if spark_name(column.arrow) is None:
            raise TableStopped(
                name,
                f"{key} has the column {column.name} of Parquet type {column.arrow}, which no type of lake.yaml holds.",
                "Have the column written as a text, a number or a time, or remove it from the DMS task's mapping.",
            )


def _paths(store: ObjectStore, files: Sequence[LoggedFile]) -> list[str]:
    return [literal_path(store.spark_uri(file.path)) for file in files]


def _texts(
    spark: SparkSession,
    store: ObjectStore,
    files: Sequence[LoggedFile],
    layout: Layout,
    table: TableConfig,
    dms: DmsSettings,
    *,
    explain: bool = False,
) -> DataFrame:
    """The text of each field, NULL for what stands for NULL, of files of one layout."""
    here = _read_here(files)
    known = {file.offset for file in here}
    there = [file for file in files if file.offset not in known]
    json = files[0].format == "json"
    parts = []
    if there:
        paths = _paths(store, there)
        parts.append(
            regular_json(spark, paths, layout)
            if json
            else regular_csv(spark, paths, layout, dms, explain=explain)
        )
    if here:
        parts.append(strict_rows(spark, store, here, layout, table, dms, explain=explain))
    rows = reduce(DataFrame.unionByName, parts)
    return rows if json else csv_values(rows, layout, table, dms)


def _read_here(files: Sequence[LoggedFile]) -> list[LoggedFile]:
    """Irregular files, and small ones if there are many: Spark takes longer to open each than to read it."""
    many = sum(file.size <= SMALL for file in files) >= MANY
    return [file for file in files if file.irregular is not None or (many and file.size <= SMALL)]


def _without_partial_rows(changes: DataFrame, partial: bool) -> DataFrame:
    """A value that was not supplied is none: in an insert, and in an update that cannot leave the column as it is, the
    row is bad. A delete needs its key only."""
    lacking = (F.size("_unsupplied") > 0) & F.col("_op").isin("I", *(() if partial else "U"))
    reason = F.concat(
        F.array_join("_unsupplied", ", "),
        F.lit(" was not supplied by the source: have its supplemental log carry every column"),
    )
    return changes.withColumn("_bad", F.when(lacking, reason).otherwise(F.col("_bad")))


def _parquet(raw: DataFrame, schema: StructType, layout: Layout) -> DataFrame:
    """The values of each column, `_0`, `_1`… in the file's order; and what `read_changes` says of the row's place."""
    metadata = raw.metadataColumn("_metadata")
    placed = raw.select("*", metadata["file_path"].alias("_file"), metadata["row_index"].alias("_row"))
    # By their places, since a column may have the empty text for a name, which no name in Spark is.
    named = placed.toDF(*field_names(layout), "_file", "_row")
    # Parquet does not check what it calls a string, and Spark would show broken bytes as U+FFFD.
    broken = [
        F.when(~F.is_valid_utf8(F.col(place)), F.lit(f"{field.name} is not UTF-8"))
        for place, field in zip(field_names(layout), schema.fields, strict=True)
        if isinstance(field.dataType, StringType)
    ]
    return named.withColumn("_bad", F.coalesce(*broken, F.lit(None).cast("string")))
