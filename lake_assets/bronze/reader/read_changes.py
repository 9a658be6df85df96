"""DMS files as a DataFrame of typed changes.

Here: reading files in one job for each layout. Not here: which files (`silver/plan/planner.py`), how text files are
read (`text_rows.py`, `strict_rows.py`), what a row means (`typed_rows.py`), applying the changes. DataFrame API only,
so that it also runs on a Spark Connect session.
"""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from lake_assets.bronze.checked.staging import StagedTable, Staging
from lake_assets.bronze.decode import files as decoding
from lake_assets.bronze.decode.changes import BEFORE, IMAGE, checked_as_values, matched_columns
from lake_assets.bronze.decode.faults import NOT_SUPPLIED
from lake_assets.bronze.decode.recount import counted
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.files.keys import TRANSACTIONS, FileKind
from lake_assets.bronze.files.parquet_columns import parquet_columns
from lake_assets.bronze.layouts.file_layouts import named_layout, parquet_layout
from lake_assets.bronze.layouts.headerless import (
    LayoutsByRow,
    agreed_layout,
    decided_layout,
    headerless_layouts,
    layouts_by_row,
)
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.bronze.reader.arrow_frame import arrow_frame, staged_rows
from lake_assets.bronze.reader.file_facts import file_facts
from lake_assets.bronze.reader.null_tokens import csv_values
from lake_assets.bronze.reader.parquet_types import READ_OPTIONS, read_schema
from lake_assets.bronze.reader.places import plain
from lake_assets.bronze.reader.strict_rows import strict_rows
from lake_assets.bronze.reader.text_rows import (
    field_names,
    regular_csv,
    regular_json,
)
from lake_assets.bronze.reader.transaction_rows import table_rows
from lake_assets.bronze.reader.typed_rows import typed_rows
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.spark.sql import Sql, joined, literal, sql
from lake_assets.storage.object_store import ObjectStore
from lake_assets.storage.spark_paths import literal_path

DMS = ("_op", "_commit_ts", "_sequence", "_file", "_row", "_bad")


def changes_by_spark(
    spark: SparkSession,
    store: ObjectStore,
    files: Sequence[LoggedFile],
    *,
    name: str,
    table: TableConfig,
    dms: DmsSettings,
    partial: bool,
    explain: bool,
    checked: bool = False,
) -> DataFrame:
    """The rows of `files` as Spark reads them, one per DMS row, none dropped; from a transaction file, those that its
    record is of.

    Columns: `_op` string (I, U or D; I in full loads without operations), `_commit_ts` timestamp (UTC instant; NULL
    without a timestamp column), `_sequence` string (sortable; empty for full-load rows, which sort before every
    change), `_file` string (address of the file), `_row` long (rises with the line within a file), `_bad` string (why
    the row cannot be used, else NULL), `_image` struct of the table's columns with their declared types, and for a
    table with a key `_before` struct of the key columns before an update (NULL where DMS wrote none); with
    csv_no_sup_value or kept_when_null also `_unsupplied`, an array of the names of columns whose values the source did
    not supply. An insert without all its values is bad, and so is an update unless the caller can use it (`partial`)
    or it lacks only columns of kept_when_null. With `explain`, `_bad` names all faults of a row, with the values (see
    `typed_rows`). Images are structs, because a source column may have any name. `checked`: every operation, time and
    sequence is known to be usable.

    Spark reads regular files of one layout together. This process reads irregular files, and files that contain a
    change of the source's columns, record by record (`strict_rows.py`). Raises TableStopped when a file's columns do
    not fit the contract, UnreadableFile for a file that is too large to be read in this process."""
    batch = _Batch(spark, store, name, table, dms, explain, checked)
    mixed: list[tuple[LoggedFile, LayoutsByRow]] = []
    parquet: dict[Hashable, list[LoggedFile]] = defaultdict(list)
    texts: list[LoggedFile] = []
    for file in files:
        if (by_row := layouts_by_row(file, table, dms)) is not None:
            mixed.append((file, by_row))
        elif file.format == "parquet":
            # One schema for each read: Spark fails on, or misreads, files with other schemas.
            counted_file = counted(store, file, dms, ())
            parquet[file.kind, counted_file.columns, table.era(file.written_at)].append(counted_file)
        else:
            texts.append(file)
    parts = [
        # Layouts that differ only in former names are equal by present names.
        batch.text_changes([file], layout, by_row)
        for file, by_row in mixed
        for layout in dict.fromkeys(by_row.layouts)
    ]
    parts += [batch.parquet_changes(group) for group in parquet.values()]
    parts += [batch.text_changes(group, layout) for layout, group in batch.by_layout(texts)]
    changes = reduce(DataFrame.unionByName, parts)
    return changes if dms.csv_no_sup_value is None else _without_partial_rows(changes, table, partial)


def decoded_frame(spark: SparkSession, changes: pa.Table, table: TableConfig, staging: Staging) -> DataFrame:
    """Decoded changes as `changes_by_spark` returns them. `staging`: where many rows are left for Spark."""
    rows = arrow_frame(spark, changes.rename_columns(list(_places(changes.schema).values())), staging)
    return _as_changes(rows, changes.schema, table)


def staged_frame(
    spark: SparkSession, schema: pa.Schema, staged: StagedTable, table: TableConfig
) -> DataFrame:
    """Staged changes as `changes_by_spark` returns them. `schema`: as decoded."""
    return _as_changes(staged_rows(spark, staged), schema, table)


def _places(schema: pa.Schema) -> dict[str, str]:
    """A name that no column of a source has, by a column of decoded changes."""
    return {name: f"c{at}" for at, name in enumerate(schema.names)}


def _as_changes(rows: DataFrame, schema: pa.Schema, table: TableConfig) -> DataFrame:
    place = _places(schema)
    columns, before = table.columns, matched_columns(table)
    structs = {
        "_image": {c.name: place[IMAGE.format(place=at)] for at, c in enumerate(columns)},
        "_before": {c.name: place[BEFORE.format(place=at)] for at, c in enumerate(before)},
    }
    fields = [sql("{place} AS {name}", place=Sql(place[name]), name=name) for name in place if name in DMS]
    for name, values in structs.items():
        if values:
            pairs = (sql("{name}, {place}", name=literal(n), place=Sql(at)) for n, at in values.items())
            fields.append(sql("named_struct({pairs}) AS {name}", pairs=joined(", ", pairs), name=name))
    if "_unsupplied" in place:
        fields.append(sql("{place} AS _unsupplied", place=Sql(place["_unsupplied"])))
    return rows.selectExpr(*fields)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Reads files of one table."""

    spark: SparkSession
    store: ObjectStore
    name: str
    table: TableConfig
    dms: DmsSettings
    explain: bool
    checked: bool

    def text_changes(
        self, files: Sequence[LoggedFile], layout: Layout, among: LayoutsByRow | None = None
    ) -> DataFrame:
        """The changes of text files of one format, kind and layout; with `among`, only rows of this layout."""
        # JSON is unambiguous: it has neither null tokens nor empty fields to interpret.
        types = dict.fromkeys(layout.columns, "string") if files[0].format == "json" else None
        return self._typed(self._texts(files, layout, among), files[0].kind, layout, types)

    def _transactions(
        self, files: Sequence[LoggedFile], layout: Layout, then: DmsSettings, among: LayoutsByRow | None
    ) -> list[DataFrame]:
        """The table's own rows of regular transaction files. Its `folders` are other tables there, and a full load of
        one of them supersedes only its own rows."""
        groups: dict[frozenset[str], list[LoggedFile]] = defaultdict(list)
        for file in files:
            groups[file.names].append(file)
        return [
            table_rows(
                self.spark,
                self._paths(group),
                layout,
                group[0].schema,
                sorted(names),
                then,
                among,
                explain=self.explain,
            )
            for names, group in groups.items()
        ]

    def parquet_changes(self, files: Sequence[LoggedFile]) -> DataFrame:
        """The changes of Parquet files of one kind, time and schema."""
        first = files[0]
        layout, types, then = parquet_layout(self.name, first, self.table, self.dms)
        columns = parquet_columns(first.columns or ())
        decoding.refuse_unreadable(self.name, first.key, columns)
        schema = read_schema(columns)
        raw = self.spark.read.schema(schema).options(**READ_OPTIONS).parquet(*self._paths(files))
        rows = _parquet(raw, schema, layout, checked_as_values(then))
        return self._typed(rows, first.kind, layout, types)

    def by_layout(self, files: Sequence[LoggedFile]) -> list[tuple[Layout, list[LoggedFile]]]:
        """Text files in groups of one format, kind and layout. Where several layouts are possible, the files' values
        decide, which costs a read."""
        groups: dict[tuple[str, FileKind, Layout], list[LoggedFile]] = defaultdict(list)
        for file, layout in self._layouts(files):
            groups[file.format, file.kind, layout].append(file)
        return [(layout, members) for (_, _, layout), members in groups.items()]

    def _layouts(self, files: Sequence[LoggedFile]) -> Iterator[tuple[LoggedFile, Layout]]:
        open_ones: dict[tuple[Layout, ...], list[LoggedFile]] = defaultdict(list)
        for file in files:
            if file.columns is not None:
                yield file, named_layout(file, file.columns, self.name, self.table, self.dms)
                continue
            layouts = headerless_layouts(self.name, file, self.table, self.dms)
            then = self._settings(layouts[0])
            if (layout := agreed_layout(layouts, file.kind, None, then)) is not None:
                yield file, layout
            else:
                open_ones[layouts].append(file)
        for layouts, members in open_ones.items():
            then = self._settings(layouts[0])
            facts = file_facts(self._texts(members, layouts[0]), layouts, self.table, then)
            for file in members:
                seen = facts.get(plain(self.store.spark_uri(file.path)))
                yield file, decided_layout(self.name, file, layouts, seen, self.table, then)

    def _texts(
        self, files: Sequence[LoggedFile], layout: Layout, among: LayoutsByRow | None = None
    ) -> DataFrame:
        """The text of each field, with NULL for the null token."""
        then = self._settings(layout)
        rows = self._rows(files, layout, then, among)
        return rows if files[0].format == "json" else csv_values(rows, layout, self.table, then)

    def _rows(
        self, files: Sequence[LoggedFile], layout: Layout, dms: DmsSettings, among: LayoutsByRow | None
    ) -> DataFrame:
        """The rows of text files; Spark's readers read the regular ones."""
        of_many = files[0].format == TRANSACTIONS
        if of_many:
            here = [file for file in files if file.irregular is not None]
        else:
            here = [file for file in files if among is not None or file.irregular is not None]
        known = {file.offset for file in here}
        there = [file for file in files if file.offset not in known]
        parts = []
        if there and of_many:
            parts += self._transactions(there, layout, dms, among)
        elif there and files[0].format == "json":
            parts.append(regular_json(self.spark, self._paths(there), layout))
        elif there:
            parts.append(regular_csv(self.spark, self._paths(there), layout, dms, explain=self.explain))
        if here:
            parts.append(
                strict_rows(
                    self.spark, self.store, here, layout, self.table, dms, among, explain=self.explain
                )
            )
        return reduce(DataFrame.unionByName, parts)

    def _typed(
        self, rows: DataFrame, kind: FileKind, layout: Layout, types: Mapping[str, str] | None
    ) -> DataFrame:
        then = self._settings(layout)
        return typed_rows(
            rows, kind, layout, types, self.table, then, explain=self.explain, checked=self.checked
        )

    def _settings(self, layout: Layout) -> DmsSettings:
        """The settings of the layout's time."""
        return self.table.settings_in(layout.era, self.dms)

    def _paths(self, files: Sequence[LoggedFile]) -> list[str]:
        return [literal_path(self.store.spark_uri(file.path)) for file in files]


def _without_partial_rows(changes: DataFrame, table: TableConfig, partial: bool) -> DataFrame:
    """Marks rows with values that were not supplied as bad: inserts, and updates that cannot keep the column's value. A
    delete needs its key only."""
    kept = F.array(*map(F.lit, table.kept_when_null)).cast("array<string>")
    in_update = F.array_except("_unsupplied", kept)
    missing = F.when(F.col("_op") == "I", F.col("_unsupplied"))
    if not partial:
        missing = missing.when(F.col("_op") == "U", in_update)
    lacking = F.coalesce(F.size(missing) > 0, F.lit(False))
    reason = F.concat(
        F.array_join(missing, ", "),
        F.lit(NOT_SUPPLIED),
    )
    return changes.withColumn("_bad", F.when(lacking, reason).otherwise(F.col("_bad")))


def _parquet(raw: DataFrame, schema: StructType, layout: Layout, checked: Collection[str]) -> DataFrame:
    """The values of each column, `_0`, `_1`… in the file's order; and `_file`, `_row` and `_bad` of `read_changes`.
    `checked`: columns of which any value that is not UTF-8 has another fault."""
    metadata = raw.metadataColumn("_metadata")
    placed = raw.select("*", metadata["file_path"].alias("_file"), metadata["row_index"].alias("_row"))
    # Renamed by position, because a column's name may be the empty text, which Spark does not accept as a name.
    named = placed.toDF(*field_names(layout), "_file", "_row")
    # Parquet does not check that a string is UTF-8, and Spark would replace broken bytes by U+FFFD.
    broken = [
        F.when(~F.is_valid_utf8(F.col(place)), F.lit(f"{field.name} is not UTF-8"))
        for place, field, column in zip(field_names(layout), schema.fields, layout.columns, strict=True)
        if isinstance(field.dataType, StringType) and column not in checked
    ]
    return named.withColumn("_bad", F.coalesce(*broken, F.lit(None).cast("string")))
