"""Parquet files that Spark reads as they are, because their columns have silver's types and values.

Staging their rows would write and read once more what is there already. This process looks at operations, times,
sequences and keys (`silver/changes/staged_rows.py`); Spark sees the images only when it writes them, so a count of
the rows that it could not use decides whether they were as supposed. Here: which files these are, and their changes.
Not here: all other files, which this process decodes (`bronze/decode/`). DataFrame API only.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructType

from lake_assets.bronze.decode.changes import checked_as_values, marks_unsupplied, matched_columns
from lake_assets.bronze.decode.dms_columns import SYNTHETIC_TAIL
from lake_assets.bronze.files.formats import Layout, before_image
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.files.parquet_columns import parquet_columns
from lake_assets.bronze.layouts.file_layouts import parquet_layout
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.reader.parquet_types import READ_OPTIONS, read_schema
from lake_assets.bronze.values.image_types import has_same_values
from lake_assets.config import DmsSettings, Mode, TableConfig
from lake_assets.local_times import LocalClock
from lake_assets.spark.sql import Sql, joined, literal, quoted, sql
from lake_assets.spark.types import spark_type
from lake_assets.storage.object_store import ObjectStore
from lake_assets.storage.spark_paths import literal_path

UNLIKE = "it is not as the look at its file supposed"
"""`_bad` of a row that has to be decoded."""


def may_be_as_is(name: str, file: LoggedFile, table: TableConfig, dms: DmsSettings) -> bool:
    """Whether the columns of a file have silver's types. Raises TableStopped when they do not fit the contract."""
    if file.format != "parquet" or file.columns is None or table.mode is Mode.FULL_ROW:
        return False
    layout, types, then = parquet_layout(name, file, table, dms)
    if marks_unsupplied(table, then) or table.clock(then) != LocalClock():
        return False
    ordering = {then.change_sequence_column, then.timestamp_column_name}
    if file.kind is FileKind.CDC and ordering.isdisjoint(layout.columns):
        return False  # its sequences are made of the times in names
    before = {before_image(then, column.name): column for column in matched_columns(table)}
    wanted = {column.name: column for column in table.columns} | {
        image: column for image, column in before.items() if image is not None and image in layout.columns
    }
    if table.defaults or len(wanted) < len(table.columns) + sum(image in types for image in before):
        return False  # a value that the file lacks, or a column that is also a before image
    return all(has_same_values(types.get(column), wanted[column].type) for column in wanted)


def as_is(
    spark: SparkSession,
    store: ObjectStore,
    files: Sequence[LoggedFile],
    *,
    name: str,
    table: TableConfig,
    dms: DmsSettings,
) -> Iterator[DataFrame]:
    """The changes of checked files of `may_be_as_is`, as `decoded_frame`."""
    # One schema for each read: Spark fails on, or misreads, files with other schemas.
    groups: dict[tuple[FileKind, Sequence[str] | None, int], list[LoggedFile]] = defaultdict(list)
    for file in files:
        groups[file.kind, file.columns, table.era(file.written_at)].append(file)
    for (kind, logged, _), members in groups.items():
        layout, _, then = parquet_layout(name, members[0], table, dms)
        schema = read_schema(parquet_columns(logged or ()))
        paths = [literal_path(store.spark_uri(file.path)) for file in members]
        raw = spark.read.schema(schema).options(**READ_OPTIONS).parquet(*paths)
        metadata = raw.metadataColumn("_metadata")
        placed = raw.select("*", metadata["file_path"].alias("_file"), metadata["row_index"].alias("_row"))
        # Renamed by position, because a column's name may be the empty text, which Spark does not accept as a name.
        fields = [f"_{place}" for place in range(len(layout.columns))]
        yield placed.toDF(*fields, "_file", "_row").selectExpr(*_changes(layout, schema, kind, table, then))


def _changes(
    layout: Layout, schema: StructType, kind: FileKind, table: TableConfig, dms: DmsSettings
) -> Iterator[Sql]:
    at = {column: quoted(f"_{place}") for place, column in enumerate(layout.columns)}
    operation = _operation(at, kind, dms)
    yield sql("{value} AS _op", value=operation)
    stamp = at.get(dms.timestamp_column_name or "", Sql("NULL"))
    yield sql("CAST({stamp} AS timestamp) AS _commit_ts", stamp=stamp)
    yield sql("{value} AS _sequence", value=_sequence(at, kind, dms))
    yield Sql("_file")
    yield Sql("_row")
    unlike = joined(" OR ", _faults(at, schema, table, dms, operation))
    yield sql("CASE WHEN {unlike} THEN {reason} END AS _bad", unlike=unlike, reason=literal(UNLIKE))
    yield _struct("_image", {c.name: (at.get(c.name), c.type) for c in table.columns})
    before = {c.name: (at.get(before_image(dms, c.name) or ""), c.type) for c in matched_columns(table)}
    if before:
        yield _struct("_before", before)


def _operation(at: Mapping[str, Sql], kind: FileKind, dms: DmsSettings) -> Sql:
    written = at.get(dms.operation_column or "")
    if written is None:
        return literal("U" if kind is FileKind.CDC and dms.cdc_inserts_and_updates else "I")
    if not dms.operations:
        return written
    words = (
        sql("WHEN {word} THEN {op}", word=literal(word), op=literal(op))
        for word, op in dms.operations.items()
    )
    return sql("CASE {written} {words} ELSE {written} END", written=written, words=joined(" ", words))


def _sequence(at: Mapping[str, Sql], kind: FileKind, dms: DmsSettings) -> Sql:
    if kind is FileKind.LOAD:
        return literal("")
    if (own := at.get(dms.change_sequence_column or "")) is not None:
        return own
    digits = sql("rpad(translate({stamp}, '-: .', ''), 16, '0')", stamp=at[dms.timestamp_column_name or ""])
    return sql("concat(left({digits}, 16), {tail})", digits=digits, tail=literal(SYNTHETIC_TAIL))


def _faults(
    at: Mapping[str, Sql], schema: StructType, table: TableConfig, dms: DmsSettings, operation: Sql
) -> Iterator[Sql]:
    """What only a look at the images shows."""
    yield Sql("false")
    for column in table.columns:
        if column.name in table.primary_key:
            yield sql("{value} IS NULL", value=at[column.name])
        elif column.required:
            yield sql("({value} IS NULL AND {op} <> 'D')", value=at[column.name], op=operation)
    # Parquet does not check that a text is UTF-8, and Spark would replace broken bytes by U+FFFD. The look at the file
    # has seen the texts of DMS and of the key.
    seen = {*checked_as_values(dms), *table.primary_key}
    for name, field in zip(at, schema.fields, strict=True):
        if isinstance(field.dataType, StringType) and name not in seen:
            yield sql("NOT coalesce(is_valid_utf8({value}), true)", value=at[name])


def _struct(name: str, fields: Mapping[str, tuple[Sql | None, str]]) -> Sql:
    values = (
        sql(
            "{name}, CAST({value} AS {type})",
            name=literal(column),
            value=Sql("NULL") if value is None else value,
            type=spark_type(declared),
        )
        for column, (value, declared) in fields.items()
    )
    return sql("named_struct({values}) AS {name}", values=joined(", ", values), name=name)
