"""One row of a DMS file as a typed change, or why it cannot be one.

Here: operation, commit time, sequence, images, and what makes a row unusable. Not here: how fields come out of a file
(`read_changes.py`), or what a single value means (`values.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from lake_assets.bronze.files.formats import Layout, before_image
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.reader.parquet_types import from_parquet
from lake_assets.bronze.reader.values import exactly, utc_wall_clock
from lake_assets.bronze.reader.wide_rows import Fault, is_wide, typed_by_kind
from lake_assets.config import Column as ColumnConfig
from lake_assets.config import DmsSettings, Mode, TableConfig
from lake_assets.spark.sql import Sql, joined, literal, quoted, sql
from lake_assets.spark.types import spark_type

_YEARS = (datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))
_SHOWN = 100
"""Characters of a value that a message repeats."""
SYNTHETIC_TAIL = "0" * 19
"""Ends the sequence of a change that DMS gave none: its own counters are never zero."""


def has_own_sequence(sequence: Column) -> Column:
    """Whether a change has a sequence that DMS gave it, by which it is known when it comes again."""
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
) -> DataFrame:
    """The changes as `reader.read_changes` describes them. `rows` have the fields `_0`, `_1`… of the layout's columns,
    and `_file`, `_row`, `_bad`, of CSV with a no-supplemental-value marker also `_unsupplied`; `types` are the Arrow
    names of the fields' Parquet types by column (`string` for JSON), None for the text of a CSV file. `explain`: `_bad`
    names every fault of a row with the value that has it, rather than the first; for the few rows that are shown."""
    fields = {column: quoted(f"_{position}") for position, column in enumerate(layout.columns)}
    absent = {column.name for column in table.columns} - set(fields)
    if absent:
        fields |= {name: quoted(f"_absent_{number}") for number, name in enumerate(sorted(absent))}
        given = (F.lit(table.defaults.get(name)).cast("string") for name in sorted(absent))
        rows = rows.select("*", *(value.alias(f"_absent_{number}") for number, value in enumerate(given)))
    at = _Fields(fields)
    if types is not None:
        types = {**types, **dict.fromkeys(absent, "string")}

    def typed(name: str, value: Column, declared: str) -> Column:
        if types is None:
            return exactly(value, StringType(), declared, dms.timestamp_zone)
        return from_parquet(value, types[name], declared, dms.timestamp_zone)

    rows = rows.withColumn("_op", _operation(kind, at, dms))
    operation = F.col("_op")
    key = set(table.primary_key)
    had_before = matched_by(table)

    def said(fault: Column, value: Column, written: str) -> Column:
        """What a message says of a value, whose type in the file is `written`, that has the fault."""
        return _shown(fault, F.hex(value) if "binary" in written else value) if explain else fault

    def kind_of(name: str) -> str:
        return types.get(name, "string") if types is not None else "string"

    faults = _unknown(operation)
    values = {c.name: fields[c.name] for c in table.columns}
    if types is None:
        values = {c.name: _certain(fields[c.name], c, c.name in had_before, dms) for c in table.columns}
    # A text as a text is itself.
    read = [c for c in table.columns if types is not None or c.type != "string"]
    images: dict[str, Sql | Column] = {**values}
    if is_wide(read):
        kinds = {c.name: (c.type, kind_of(c.name)) for c in read}
        rows, found, fault = typed_by_kind(
            rows, read, values, kinds, typed, text=types is None, said=said if explain else None
        )
        images |= found
        faults.append(fault)
    else:
        for c in read:
            value = F.expr(values[c.name])
            images[c.name] = image = typed(c.name, value, c.type)
            reason = said(F.lit(f"{c.name} is not a valid {c.type}"), value, kind_of(c.name))
            faults.append(_unreadable(c, value, image, reason, text=types is None))
    before = []
    written = _before_images(at, table, dms, text=types is None)
    for c in (c for c in table.columns if c.name in had_before):
        present = before_image(dms, c.name)
        old = F.lit(None).cast(spark_type(c.type))
        if present is not None and present in written:
            value = written[present]
            old = typed(present, value, c.type)
            lost = (operation == "U") & value.isNotNull() & old.isNull()
            wrong = F.lit(f"{present} is not a valid {c.type}")
            faults.append((lost, said(wrong, value, kind_of(present))))
        before.append(old.alias(c.name))
    # A delete carries its key only, so the other columns' NOT NULL does not bind it; nor what was not supplied.
    for c in table.columns:
        if c.name in key:
            absent_key = _column(images[c.name]).isNull() & (at[c.name].isNull() if explain else F.lit(True))
            faults.append((absent_key, F.lit(f"{c.name} is NULL")))
        elif c.required:
            missing = _column(images[c.name]).isNull() & (operation != "D")
            if explain:
                missing &= at[c.name].isNull()
            if "_unsupplied" in rows.columns:
                missing &= ~F.array_contains("_unsupplied", c.name)
            faults.append((missing, F.lit(f"{c.name} is NULL")))
    if table.mode is Mode.FULL_ROW:
        unknown = reduce(and_, (old.isNull() for old in before))
        if types is None and dms.csv_null_value == "":
            # As in images: the empty field of a required text can only be the empty text.
            empty = [c.required and c.type == "string" for c in table.columns]
            before = [
                F.when(old.isNull() & ~unknown, F.lit("")).otherwise(old).alias(c.name) if may_be else old
                for old, c, may_be in zip(before, table.columns, empty, strict=True)
            ]
        faults.append(
            (
                (operation == "U") & unknown,
                F.lit("an update without a before image, whose row cannot be found"),
            )
        )
    commit_ts = F.lit(None).cast("timestamp")
    if dms.timestamp_column_name is not None and dms.timestamp_column_name in at:
        stamp = at[dms.timestamp_column_name]
        commit_ts = typed(dms.timestamp_column_name, stamp, "timestamptz")
        # Spark knows the year 202026, and nothing else that is told the time does.
        commit_ts = F.when(commit_ts.between(*_YEARS), commit_ts)
        untimed = F.lit(f"{dms.timestamp_column_name} is not a timestamp")
        faults.append((commit_ts.isNull(), said(untimed, stamp, kind_of(dms.timestamp_column_name))))
    own = None
    if dms.change_sequence_column is not None and dms.change_sequence_column in at:
        own = at[dms.change_sequence_column].cast("string")
        if kind is not FileKind.LOAD:
            # As texts, only those of one form sort by time.
            unsortable = (own != "") & ~own.rlike(r"^\d{35}$")
            wrong = F.lit(f"{dms.change_sequence_column} is not 35 digits")
            faults.append((unsortable, said(wrong, own, kind_of(dms.change_sequence_column))))
    return rows.select(
        "_op",
        commit_ts.alias("_commit_ts"),
        _sequence(kind, own, at, dms, commit_ts).alias("_sequence"),
        "_file",
        "_row",
        (_all_reasons(faults) if explain else _reason(faults)).alias("_bad"),
        _struct(images).alias("_image"),
        *([F.struct(*before).alias("_before")] if before else []),
        *([_unsupplied(rows)] if dms.csv_no_sup_value is not None else []),
    )


def matched_by(table: TableConfig) -> frozenset[str]:
    """The columns whose before images tell which row an update changes."""
    if table.mode is Mode.FULL_ROW:
        return frozenset(column.name for column in table.columns)
    return frozenset(table.primary_key)


class _Fields(Mapping[str, Column]):
    """Columns by the name of what is in them, made when they are asked for: of a thousand, few are."""

    def __init__(self, places: Mapping[str, Sql]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> Column:
        return F.col(self._places[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _column(value: Sql | Column) -> Column:
    return F.expr(value) if isinstance(value, Sql) else value


def _struct(values: Mapping[str, Sql | Column]) -> Column:
    """A struct of these fields. As text where it can be: see `wide_rows.array_of`."""
    texts = [(name, value) for name, value in values.items() if isinstance(value, Sql)]
    if len(texts) == len(values):
        fields = (sql("{name}, {value}", name=literal(name), value=value) for name, value in texts)
        return F.expr(sql("named_struct({fields})", fields=joined(", ", fields)))
    return F.struct(*(_column(value).alias(name) for name, value in values.items()))


def _reason(faults: Sequence[Fault]) -> Column:
    """Why the row cannot be used, if it cannot: the first of the faults that it has.

    Nearly every row has none. So whether there is any is asked first, and the reason after that. Neither is nested: an
    expression a thousand deep is more than Spark's stack holds.
    """
    bad = F.col("_bad")
    reasons = (F.when(fault, reason) for fault, reason in faults)
    any_fault = F.greatest(F.lit(False), *(fault for fault, _ in faults))
    return F.when(any_fault, F.coalesce(bad, *reasons)).otherwise(bad)


def _all_reasons(faults: Sequence[Fault]) -> Column:
    """All that is wrong with a row; of one that was not taken apart, that alone."""
    bad = F.col("_bad")
    found = F.concat_ws("; ", *(F.when(fault, reason) for fault, reason in faults))
    return F.coalesce(bad, F.nullif(found, F.lit("")))


def _shown(fault: Column, value: Column) -> Column:
    """The fault with the value, cut where it is long."""
    text = value.cast("string")
    cut = F.when(F.length(text) > _SHOWN, F.concat(F.substring(text, 1, _SHOWN), F.lit("…"))).otherwise(text)
    return F.concat(fault, F.coalesce(F.concat(F.lit(": '"), cut, F.lit("'")), F.lit("")))


def _unsupplied(rows: DataFrame) -> Column:
    """Only CSV has a marker for it."""
    nothing = F.array().cast("array<string>").alias("_unsupplied")
    return F.col("_unsupplied") if "_unsupplied" in rows.columns else nothing


def _operation(kind: FileKind, at: Mapping[str, Column], dms: DmsSettings) -> Column:
    """I, U or D; or whatever else the file has, and NULL."""
    if dms.operation_column not in at:
        # Of an endpoint that does not say which of inserts and updates a change is, an update is what fits both.
        return F.lit("U" if kind is FileKind.CDC and dms.cdc_inserts_and_updates else "I")
    written = at[dms.operation_column].cast("string")
    return F.coalesce(*(F.when(written == word, F.lit(op)) for word, op in dms.operations.items()), written)


def _before_images(
    at: Mapping[str, Column], table: TableConfig, dms: DmsSettings, *, text: bool
) -> dict[str, Column]:
    """The before images that the file has of the columns by which a row is found; NULL where none was written."""
    names = {before_image(dms, c.name): c for c in table.columns if c.name in matched_by(table)}
    found = {name: (at[name], column) for name, column in names.items() if name is not None and name in at}
    if not text:
        return {name: value for name, (value, _) in found.items()}
    # What was not written may be an empty field, whatever the null token is. So an empty text is a key's empty text
    # only beside another part of the key that was written.
    any_written = F.coalesce(*(F.when(value != "", F.lit(True)) for value, _ in found.values()), F.lit(False))
    return {
        name: F.when(any_written if column.type == "string" else value != "", value)
        for name, (value, column) in found.items()
    }


def _certain(text: Sql, column: ColumnConfig, in_key: bool, dms: DmsSettings) -> Sql:
    """Where NULL is written as an empty field, the empty field of a required text can only be the empty text."""
    if dms.csv_null_value != "" or not column.required or column.type != "string":
        return text
    binds = sql("true") if in_key else sql("_op != 'D'")
    return sql("CASE WHEN {text} IS NULL AND {binds} THEN '' ELSE {text} END", text=text, binds=binds)


def _unknown(operation: Column) -> list[Fault]:
    # isin() of a NULL operation is NULL, not false.
    written = F.coalesce(operation, F.lit(""))
    named = F.concat(F.lit("unknown operation "), operation.substr(1, 20))
    reason = F.when(written == "", F.lit("no operation")).otherwise(named)
    return [(~written.isin("I", "U", "D"), reason)]


def _unreadable(column: ColumnConfig, value: Column, image: Column, reason: Column, *, text: bool) -> Fault:
    """A value that is there but does not fit must not become NULL in silence."""
    lost = value.isNotNull() & image.isNull()
    if text:
        hint = F.lit(
            f"{column.name} is empty, which is not a valid {column.type} (is csv_null_value the endpoint's?)"
        )
        reason = F.when(value == "", hint).otherwise(reason)
    return lost, reason


def _sequence(
    kind: FileKind, own: Column | None, at: Mapping[str, Column], dms: DmsSettings, commit_ts: Column
) -> Column:
    """A string by which the table's changes sort. DMS's own where there is one; else 16 digits of the commit time
    (else of the flush time in the file's name) in centiseconds and zeros, the form DMS's own has."""
    if kind is FileKind.LOAD:
        return F.lit("")
    if dms.timestamp_column_name in at:
        # Not date_format: it shows an instant in the session's zone.
        digits = F.rpad(F.regexp_replace(utc_wall_clock(commit_ts).cast("string"), r"\D", ""), 17, "0")
    else:
        digits = F.regexp_replace(F.regexp_extract("_file", r"(\d{8}-?\d{8})\d{1,2}\.[^/]*$", 1), "-", "")
    synthetic = F.concat(F.substring(digits, 1, 16), F.lit(SYNTHETIC_TAIL))
    return synthetic if own is None else F.when(own != "", own).otherwise(synthetic)
