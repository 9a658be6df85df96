"""The values of wide rows, typed by one expression for each type rather than for each column.

Spark's planning takes time for each node of an expression, and a column's value takes about a hundred of them: with a
thousand columns the plan of one row took a minute. So the columns of one type become an array, which one expression
converts. Here: that conversion, and which values do not fit. Not here: converting a single value (`casts.py`), other
faults (`typed_rows.py`). DataFrame API only.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lake_assets.config import Column as ColumnConfig
from lake_assets.spark.sql import Sql, joined, literal, quoted, sql

WIDE = 100
"""Rows of more columns are converted by arrays. For fewer columns, code that Spark compiles for each column is
faster."""
Fault = tuple[Column, Column]
"""Whether a row has the fault, and its description."""
Describe = Callable[[Column, Column, str, str], Column]
"""Describes a value that does not fit, from the column's name, the value, its type in lake.yaml and in the file."""


def is_wide(columns: Sequence[object]) -> bool:
    """Whether rows of these columns are converted by arrays."""
    return len(columns) > WIDE


def array_of(values: Iterable[Sql]) -> Sql:
    """The values, all of one type, as an array. Built as SQL text, like all expressions for each column here: an API
    call for each column takes longer than Spark's own work."""
    return sql("array({values})", values=joined(", ", values))


def texts_of(texts: Iterable[str | None]) -> Sql:
    """An array of these texts."""
    return array_of(sql("NULL") if text is None else literal(text) for text in texts)


def unpacked(rows: DataFrame, array: str, fields: Sequence[str], *beside: str) -> DataFrame:
    """The rows with the elements of the array as these fields, and the columns beside it."""
    elements = (
        sql("{array}[{at}] AS {field}", array=array, at=at, field=field) for at, field in enumerate(fields)
    )
    return rows.selectExpr(*elements, *map(quoted, beside))


def typed_by_kind(
    rows: DataFrame,
    columns: Sequence[ColumnConfig],
    values: Mapping[str, Sql],
    kinds: Mapping[str, tuple[str, str]],
    typed: Callable[[str, Column, str], Column],
    describe: Describe,
    *,
    text: bool,
    explain: bool,
) -> tuple[DataFrame, dict[str, Sql], Fault]:
    """The rows with the arrays; by column its typed value; and the fault of values that do not fit, with the
    description of the first one, or of all if `explain`. `kinds`: by column, the type in lake.yaml and the one in the
    file, by which columns are grouped."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for position, column in enumerate(columns):
        groups[kinds[column.name]].append(position)
    named = [[columns[position] for position in group] for group in groups.values()]
    written = [
        F.expr(array_of(values[c.name] for c in group)).alias(f"_written_{n}")
        for n, group in enumerate(named)
    ]
    rows = rows.select("*", *written)
    typed_arrays = [
        F.transform(f"_written_{n}", _typing(group[0], typed)).alias(f"_typed_{n}")
        for n, group in enumerate(named)
    ]
    rows = rows.select("*", *typed_arrays)
    rows = rows.select("*", *(_any_lost(n).alias(f"_lost_{n}") for n in range(len(named))))
    images = {
        column.name: sql("{array}[{at}]", array=f"_typed_{n}", at=at)
        for n, group in enumerate(named)
        for at, column in enumerate(group)
    }
    lost = F.greatest(F.lit(False), F.lit(False), *(F.col(f"_lost_{n}") for n in range(len(named))))
    reasons = _reasons(columns, groups, describe, text=text)
    return rows, images, (lost, F.array_join(reasons, "; ") if explain else F.get(reasons, F.lit(0)))


def _typing(column: ColumnConfig, typed: Callable[[str, Column, str], Column]) -> Callable[[Column], Column]:
    return lambda value: typed(column.name, value, column.type)


def _lost(value: Column, image: Column) -> Column:
    """Whether a value is present but does not fit."""
    return value.isNotNull() & image.isNull()


def _any_lost(group: int) -> Column:
    return F.array_contains(F.zip_with(f"_written_{group}", f"_typed_{group}", _lost), True)


def _reasons(
    columns: Sequence[ColumnConfig],
    groups: Mapping[tuple[str, str], Sequence[int]],
    describe: Describe,
    *,
    text: bool,
) -> Column:
    """The description of each value that does not fit, in the order of the table; for the few rows with such values."""
    parts = []
    for number, ((kind, written), group) in enumerate(groups.items()):
        known = array_of(
            sql("named_struct('at', {at}, 'name', {name})", at=at, name=literal(columns[at].name))
            for at in group
        )
        values = F.zip_with(f"_written_{number}", f"_typed_{number}", _lost_value)
        parts.append(
            F.transform(
                F.arrays_zip(values.alias("value"), F.expr(known).alias("known")),
                _explained(kind, written, describe, text=text),
            )
        )
    found = F.array_sort(F.array_compact(F.concat(*parts)))
    return F.transform(found, lambda one: one["why"])


def _lost_value(value: Column, image: Column) -> Column:
    return F.when(_lost(value, image), value)


def _explained(kind: str, written: str, describe: Describe, *, text: bool) -> Callable[[Column], Column]:
    def explained(one: Column) -> Column:
        value, name = one["value"], one["known"]["name"]
        why = describe(name, value, kind, written)
        if text:
            empty = f" is empty, which is not a valid {kind} (is csv_null_value the endpoint's?)"
            why = F.when(value == "", F.concat(name, F.lit(empty))).otherwise(why)
        return F.when(value.isNotNull(), F.struct(one["known"]["at"].alias("at"), why.alias("why")))

    return explained
