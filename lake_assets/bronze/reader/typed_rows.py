"""One row of a DMS file as a typed change, or the reason why it is bad.

Here: operation, commit time, sequence, images, and the faults of a row. Not here: reading fields from a file
(`read_changes.py`), or converting a single value (`casts.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TypeGuard

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.bronze.checked.dms_columns import SYNTHETIC_TAIL
from lake_assets.bronze.decode.changes import (
    OWN_SEQUENCE,
    TIME_IN_NAME,
    YEARS,
    marks_unsupplied,
    matched_columns,
)
from lake_assets.bronze.decode.faults import NO_INSTANT, SHOWN
from lake_assets.bronze.files.formats import MAY_BE_EMPTY, Layout, before_image
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.reader.casts import utc_wall_clock
from lake_assets.bronze.reader.null_tokens import unsupplied, with_empty_value
from lake_assets.bronze.reader.parquet_types import from_parquet
from lake_assets.bronze.reader.wide_rows import Fault, is_wide, typed_by_kind
from lake_assets.config import REDACTED, DmsSettings, Mode, TableConfig
from lake_assets.config import Column as ColumnConfig
from lake_assets.spark.sql import Sql, joined, literal, quoted, sql
from lake_assets.spark.types import spark_type


def has_own_sequence(sequence: Column) -> Column:
    """Whether a change has a sequence of DMS, which identifies it when it is delivered again."""
    return (sequence != "") & ~sequence.endswith(SYNTHETIC_TAIL)


def typed_rows(
    rows: DataFrame,
    kind: FileKind,
    layout: Layout,
    types: Mapping[str, str] | None,
    table: TableConfig,
    dms: DmsSettings,
    *,
    explain: bool = False,
    checked: bool = False,
) -> DataFrame:
    """The changes as `changes_by_spark` describes them. `rows` have the fields `_0`, `_1`… of the layout's columns,
    and `_file`, `_row`, `_bad`; for CSV with a no-supplemental-value marker also `_unsupplied`; `types` are the Arrow
    names of the fields' Parquet types by column (`string` for JSON), None for the text of a CSV file. `explain`: `_bad`
    names every fault of a row with its value, rather than the first fault; for the few rows that are shown. No value of
    a table with masks is shown. `checked`: all operations, times and sequences are known to be usable."""
    rows, fields = _with_absent_columns(rows, layout, table)
    file = _File(kind, fields, types, table, dms, explain, frozenset(layout.columns))
    rows = rows.withColumn("_op", _operation(file))
    rows, images, lost = _images(rows, file)
    before, lost_before = _before(file)
    rows, untimed = _commit_time(rows, file)
    own_sequence, unsortable = _own_sequence(file)
    faults = [*lost, *lost_before, *_nulls(file, images), *_unidentified(file, before)]
    if not checked:
        faults = [_unknown_operation(file), *faults, *untimed, *unsortable]
    return rows.select(
        "_op",
        "_commit_ts",
        _sequence(file, own_sequence, checked=checked).alias("_sequence"),
        "_file",
        "_row",
        (_all_reasons(faults) if explain else _reason(faults)).alias("_bad"),
        _struct(images).alias("_image"),
        *([F.struct(*_whole_rows(file, before)).alias("_before")] if before else []),
        *([_unsupplied(file)] if marks_unsupplied(table, dms) else []),
    )


@dataclass(frozen=True, slots=True)
class _File:
    """Converts the fields of a file to values, and describes those that do not fit."""

    kind: FileKind
    fields: Mapping[str, Sql]
    """By the column's name."""
    types: Mapping[str, str] | None
    table: TableConfig
    dms: DmsSettings
    explain: bool
    written: frozenset[str]
    """The columns that the file has; the fields of others have their defaults."""

    def has(self, name: str | None) -> TypeGuard[str]:
        return name in self.fields

    def at(self, name: str) -> Column:
        """Built on demand: of a thousand fields, few are needed."""
        return F.col(self.fields[name])

    def type_of(self, name: str) -> str:
        """The type of a field in the file; the default of a missing column is a text."""
        return "string" if self.types is None else self.types.get(name, "string")

    def typed(self, name: str, value: Column, declared: str) -> Column:
        """The value of a field as a type of lake.yaml; NULL where that would change it."""
        return from_parquet(value, self.type_of(name), declared, self.table.clock(self.dms))

    @property
    def is_marked(self) -> bool:
        """Whether the rows have `_unsupplied`: only CSV files have the marker."""
        return self.types is None and self.dms.csv_no_sup_value is not None

    def misfit(self, name: str, value: Column, declared: str, what: str = "") -> Column:
        """The fault of a value that has to be `what`, by default a valid `declared`, and is not."""
        return self.unfit(F.lit(name), value, declared, self.type_of(name), what)

    def unfit(self, name: Column, value: Column, declared: str, written: str, what: str = "") -> Column:
        """The same for a column whose name is a value, too; with `explain`, also the value. `written`: its type in the
        file."""
        fault = F.concat(name, F.lit(f" is not {what or f'a valid {declared}'}"))
        if declared == "timestamptz":
            clock = self.table.clock(self.dms)
            for takes, why in NO_INSTANT.items():
                found = from_parquet(value, written, declared, replace(clock, takes=takes)).isNotNull()
                fault = F.when(found, F.concat(name, F.lit(why.format(zone=clock.zone)))).otherwise(fault)
        if not self.explain or self.table.mask:
            return fault  # in a row with a missing or surplus delimiter, a masked value is in the place of another
        return _shown(fault, F.hex(value) if "binary" in written else value)


def _with_absent_columns(
    rows: DataFrame, layout: Layout, table: TableConfig
) -> tuple[DataFrame, dict[str, Sql]]:
    """The rows with the defaults of the missing columns; and by name, the field of each column."""
    fields = {column: quoted(f"_{position}") for position, column in enumerate(layout.columns)}
    absent = sorted({column.name for column in table.columns} - set(fields))
    if not absent:
        return rows, fields
    given = []
    for number, name in enumerate(absent):
        given.append(F.lit(table.defaults.get(name)).cast("string").alias(f"_absent_{number}"))
        fields[name] = quoted(f"_absent_{number}")
    return rows.select("*", *given), fields


def _images(rows: DataFrame, file: _File) -> tuple[DataFrame, dict[str, Sql | Column], list[Fault]]:
    """The rows with the columns that the images need; by column its typed value; and the faults of values that do not
    fit."""
    columns, text = file.table.columns, file.types is None
    values = {
        c.name: with_empty_value(file.fields[c.name], c, file.table, file.dms)
        if text
        else file.fields[c.name]
        for c in columns
    }
    images: dict[str, Sql | Column] = {**values}
    # A text column of a text file needs no conversion.
    read = [c for c in columns if not text or c.type != "string"]
    if is_wide(read):
        kinds = {c.name: (c.type, file.type_of(c.name)) for c in read}
        rows, found, fault = typed_by_kind(
            rows, read, values, kinds, file.typed, file.unfit, text=text, explain=file.explain
        )
        return rows, images | found, [fault]
    faults: list[Fault] = []
    converted: list[Column] = []
    for c in read:
        value = F.expr(values[c.name])
        image = file.typed(c.name, value, c.type)
        if image is value:
            continue  # it has that type already
        name = f"_typed_{len(converted)}"
        converted.append(image.alias(name))
        images[c.name] = quoted(name)
        reason = file.misfit(c.name, value, c.type)
        faults.append(_unreadable(c, value, F.col(name), reason, text=text))
    # As columns, because faults and images would repeat the expressions. That shortens the plan, but saves no
    # computation.
    return rows.select("*", *converted), images, faults


def _before(file: _File) -> tuple[list[Column], list[Fault]]:
    """The typed before images of the columns that identify a row, under their names; and the faults of values that do
    not fit."""
    before, faults = [], []
    written = _before_images(file)
    for c in matched_columns(file.table):
        name = before_image(file.dms, c.name)
        old = F.lit(None).cast(spark_type(c.type))
        if name is not None and name in written:
            value = written[name]
            old = file.typed(name, value, c.type)
            lost = (F.col("_op") == "U") & value.isNotNull() & old.isNull()
            faults.append((lost, file.misfit(name, value, c.type)))
        before.append(old.alias(c.name))
    return before, faults


def _nulls(file: _File, images: Mapping[str, Sql | Column]) -> Iterator[Fault]:
    """The faults of NULLs. NOT NULL of columns outside the key does not apply to deletes, which have only their key,
    nor to values that were not supplied."""
    kept = file.table.kept_when_null
    for c in file.table.columns:
        in_key = c.name in file.table.primary_key
        if not in_key and not c.required:
            continue
        missing = _column(images[c.name]).isNull()
        if not in_key:
            missing &= ~F.col("_op").isin("D", *("U" if c.name in kept else ()))
        if file.explain:
            # A value that is present and does not fit is reported by another fault.
            missing &= file.at(c.name).isNull()
        if not in_key and file.is_marked:
            missing &= ~F.array_contains("_unsupplied", c.name)
        yield missing, F.lit(f"{c.name} is NULL")


def _none_of(before: Sequence[Column]) -> Column:
    return reduce(and_, (old.isNull() for old in before))


def _unidentified(file: _File, before: Sequence[Column]) -> Iterator[Fault]:
    if file.table.mode is Mode.FULL_ROW:
        unknown = (F.col("_op") == "U") & _none_of(before)
        yield unknown, F.lit("an update without a before image, whose row cannot be found")


def _whole_rows(file: _File, before: Sequence[Column]) -> Sequence[Column]:
    """The before images. Where an empty field means NULL, the empty field of a required column of text or bytes is an
    empty value, as in images."""
    if file.table.mode is not Mode.FULL_ROW or file.types is not None or file.dms.csv_null_value != "":
        return before
    unknown = _none_of(before)
    return [
        F.when(old.isNull() & ~unknown, F.lit("").cast(spark_type(c.type))).otherwise(old).alias(c.name)
        if c.required and c.type in MAY_BE_EMPTY
        else old
        for old, c in zip(before, file.table.columns, strict=True)
    ]


def _commit_time(rows: DataFrame, file: _File) -> tuple[DataFrame, list[Fault]]:
    """The rows with `_commit_ts`."""
    name = file.dms.timestamp_column_name
    if not file.has(name):
        return rows.withColumn("_commit_ts", F.lit(None).cast("timestamp")), []
    stamp = file.at(name)
    rows = rows.withColumn("_stamp", file.typed(name, stamp, "timestamptz"))
    # Spark accepts the year 202026; other readers of the timestamp do not.
    rows = rows.withColumn("_commit_ts", F.when(F.col("_stamp").between(*YEARS), F.col("_stamp")))
    return rows, [(F.col("_commit_ts").isNull(), file.misfit(name, stamp, "timestamptz", "a timestamp"))]


def _own_sequence(file: _File) -> tuple[Column | None, list[Fault]]:
    """The change sequence of DMS, if the file has one."""
    name = file.dms.change_sequence_column
    if not file.has(name):
        return None, []
    own = file.at(name).cast("string")
    if file.kind is FileKind.LOAD:
        return own, []
    # As texts, only sequences of one form sort by time.
    unsortable = (own != "") & ~own.rlike(OWN_SEQUENCE)
    return own, [(unsortable, file.misfit(name, own, "string", "35 digits"))]


def _column(value: Sql | Column) -> Column:
    return F.expr(value) if isinstance(value, Sql) else value


def _struct(values: Mapping[str, Sql | Column]) -> Column:
    """A struct of these fields. Built as SQL text where possible: see `wide_rows.array_of`."""
    texts = [(name, value) for name, value in values.items() if isinstance(value, Sql)]
    if len(texts) == len(values):
        fields = (sql("{name}, {value}", name=literal(name), value=value) for name, value in texts)
        return F.expr(sql("named_struct({fields})", fields=joined(", ", fields)))
    return F.struct(*(_column(value).alias(name) for name, value in values.items()))


def _reason(faults: Sequence[Fault]) -> Column:
    """The row's first fault; NULL for a row without one.

    Nearly every row has none. So the expression first tests whether there is any fault, and then finds the reason.
    Neither part is nested: an expression a thousand levels deep overflows Spark's stack.
    """
    bad = F.col("_bad")
    if not faults:
        return bad
    reasons = (F.when(fault, reason) for fault, reason in faults)
    any_fault = F.greatest(F.lit(False), *(fault for fault, _ in faults))
    return F.when(any_fault, F.coalesce(bad, *reasons)).otherwise(bad)


def _all_reasons(faults: Sequence[Fault]) -> Column:
    """All faults of a row; for a row that could not be parsed, that fault alone."""
    bad = F.col("_bad")
    found = F.concat_ws("; ", *(F.when(fault, reason) for fault, reason in faults))
    return F.coalesce(bad, F.nullif(found, F.lit("")))


def _shown(fault: Column, value: Column) -> Column:
    """The fault with the value, which is cut if long."""
    text = value.cast("string")
    cut = F.when(F.length(text) > SHOWN, F.concat(F.substring(text, 1, SHOWN), F.lit("…"))).otherwise(text)
    return F.concat(fault, F.coalesce(F.concat(F.lit(": '"), cut, F.lit("'")), F.lit("")))


def _unsupplied(file: _File) -> Column:
    kept = [c.name for c in file.table.columns if c.name in file.table.kept_when_null]
    nulls = {name: file.at(name).isNull() if name in file.written else F.lit(True) for name in kept}
    return unsupplied(nulls, is_marked=file.is_marked)


def _operation(file: _File) -> Column:
    """I, U or D; or the file's other text, or NULL."""
    dms = file.dms
    if not file.has(dms.operation_column):
        # If the endpoint does not distinguish inserts from updates, an update is right for both.
        return F.lit("U" if file.kind is FileKind.CDC and dms.cdc_inserts_and_updates else "I")
    written = file.at(dms.operation_column).cast("string")
    return F.coalesce(*(F.when(written == word, F.lit(op)) for word, op in dms.operations.items()), written)


def _before_images(file: _File) -> dict[str, Column]:
    """The file's before images of the columns that identify a row; NULL where DMS wrote none."""
    names = {before_image(file.dms, c.name): c for c in matched_columns(file.table)}
    found = {name: (file.at(name), c) for name, c in names.items() if file.has(name)}
    if file.types is not None:
        return {name: value for name, (value, _) in found.items()}
    # A missing image may be an empty field, whatever the null token is. So an empty field is an empty text, or empty
    # bytes, only if another part of the key was written.
    any_written = F.coalesce(*(F.when(value != "", F.lit(True)) for value, _ in found.values()), F.lit(False))
    return {
        name: F.when(any_written if column.type in MAY_BE_EMPTY else value != "", value)
        for name, (value, column) in found.items()
    }


def _unknown_operation(file: _File) -> Fault:
    operation = F.col("_op")
    # isin() of a NULL operation is NULL, not false.
    written = F.coalesce(operation, F.lit(""))
    shown = F.lit(REDACTED) if file.table.mask else operation.substr(1, 20)
    named = F.concat(F.lit("unknown operation "), shown)
    reason = F.when(written == "", F.lit("no operation")).otherwise(named)
    return ~written.isin("I", "U", "D"), reason


def _unreadable(column: ColumnConfig, value: Column, image: Column, reason: Column, *, text: bool) -> Fault:
    """A value that is present but does not fit must not silently become NULL."""
    lost = value.isNotNull() & image.isNull()
    if text:
        hint = F.lit(
            f"{column.name} is empty, which is not a valid {column.type} (is csv_null_value the endpoint's?)"
        )
        reason = F.when(value == "", hint).otherwise(reason)
    return lost, reason


def _sequence(file: _File, own: Column | None, *, checked: bool) -> Column:
    """A string by which the table's changes sort: DMS's own sequence where there is one; else, in the same form, 16
    digits of the commit time (else of the flush time in the file's name) down to centiseconds, and zeros."""
    if file.kind is FileKind.LOAD:
        return F.lit("")
    if checked and own is not None:
        return own
    if file.has(file.dms.timestamp_column_name):
        # Not date_format: it formats an instant in the session's zone.
        digits = F.rpad(
            F.regexp_replace(utc_wall_clock(F.col("_commit_ts")).cast("string"), r"\D", ""), 17, "0"
        )
    else:
        digits = F.regexp_replace(F.regexp_extract("_file", TIME_IN_NAME, 1), "-", "")
    synthetic = F.concat(F.substring(digits, 1, 16), F.lit(SYNTHETIC_TAIL))
    return synthetic if own is None else F.when(own != "", own).otherwise(synthetic)
