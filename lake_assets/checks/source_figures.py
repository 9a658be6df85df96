"""Figures of a table that a source database and Spark compute alike: counts, sums, lengths, smallest and largest.

Here: the two queries, and their results in one form. Not here: comparing them (`source_rules.py`). Each figure is a
standard aggregate, because no hash of a row is the same in every database.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import sqlalchemy as sa

from lake_assets.config import Column, TableName
from lake_assets.spark.sql import Sql, joined, quoted, sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession  # a sync with nothing pending does not import it

WHOLE = ("int", "long")
LENGTH = {"oracle": "length", "mssql": "len"}
"""By SQLAlchemy dialect, the function that counts the characters of a text, if it is not char_length."""

Figures = dict[str, Any]
"""By name, such as `sum(fare)`: a number, a time, or None."""


@dataclass(frozen=True, slots=True)
class Slices:
    """Ranges of a key of whole numbers, each of `width`; the slice of a row is the first number of its range."""

    key: str
    width: int


def figures_at_source(
    connection: sa.Connection,
    table: str,
    columns: Sequence[Column],
    slices: Slices | None,
    condition: str | None = None,
    renamed_from: Mapping[str, str] = MappingProxyType({}),
) -> dict[int, Figures]:
    """By slice, the figures of the table `schema.table` in the source database; without `slices`, of all rows as slice
    0. `condition`: the rows that count, in the database's SQL. `renamed_from`: the table's own, of which the database
    may have the new name or the old one."""
    schema, name = TableName.parse(table)
    given_names = _names_at_source(connection, schema, name, renamed_from) if renamed_from else {}
    length = getattr(sa.func, LENGTH.get(connection.dialect.name, "char_length"))
    of: dict[str, sa.ColumnElement[Any]] = {"count(*)": sa.func.count()}
    for column in columns:
        # Quoted, because the contract has the source's own spelling.
        own = given_names.get(column.name, column.name)
        given: sa.ColumnClause[Any] = sa.column(sa.sql.quoted_name(own, quote=True))
        for figure in _figures(column):
            if figure == "sum":
                of[f"sum({column.name})"] = sa.func.sum(sa.cast(given, sa.Numeric(38, _scale(column))))
            elif figure == "length":
                of[f"length({column.name})"] = sa.func.sum(length(given))
            else:
                of[f"{figure}({column.name})"] = getattr(sa.func, figure)(given)
    source = sa.table(sa.sql.quoted_name(name, quote=True), schema=sa.sql.quoted_name(schema, quote=True))
    query = sa.select(*of.values()).select_from(source)
    if condition is not None:
        # In a literal column, a colon is no parameter. On a line of its own, so that a comment in it ends there.
        query = query.where(sa.literal_column(f"(\n{condition}\n)"))
    if slices is not None:
        own = given_names.get(slices.key, slices.key)
        key: sa.ColumnClause[Any] = sa.column(sa.sql.quoted_name(own, quote=True), sa.BigInteger)
        first = key - key % slices.width
        query = query.add_columns(first).group_by(first)
    rows = [tuple(row) for row in connection.execute(query)]
    return _by_slice(list(of), rows, sliced=slices is not None)


def _names_at_source(
    connection: sa.Connection, schema: str, table: str, renamed_from: Mapping[str, str]
) -> dict[str, str]:
    """By column of silver, the old name if the database has no column of the new one: DMS or lake.yaml renames it."""
    dialect = connection.dialect
    spelt = str
    if dialect.requires_name_normalize:
        schema, table = str(dialect.normalize_name(schema)), str(dialect.normalize_name(table))
        spelt = cast("Any", dialect.denormalize_name)
    known = {spelt(column["name"]) for column in sa.inspect(connection).get_columns(table, schema=schema)}
    return {new: old for new, old in renamed_from.items() if new not in known and old in known}


def figures_in_silver(
    spark: "SparkSession", rows: Sql, columns: Sequence[Column], slices: Slices | None
) -> dict[int, Figures]:
    """The same figures of the rows of a query in Spark."""
    of: dict[str, Sql] = {"count(*)": Sql("count(*)")}
    for column in columns:
        given = quoted(column.name)
        for figure in _figures(column):
            if figure == "sum":
                scale = _scale(column)
                of[f"sum({column.name})"] = sql(
                    "sum(CAST({given} AS decimal(38, {scale})))", given=given, scale=scale
                )
            elif figure == "length":
                of[f"length({column.name})"] = sql("sum(char_length({given}))", given=given)
            else:
                value = sql("{figure}({given})", figure=Sql(figure), given=given)
                if column.type == "timestamptz" and figure != "count":
                    # In UTC, the session's zone; Python would get the zone of its machine.
                    value = sql("CAST({value} AS timestamp_ntz)", value=value)
                of[f"{figure}({column.name})"] = value
    wanted = joined(", ", of.values())
    if slices is None:
        query = sql("SELECT {wanted} FROM ({rows})", wanted=wanted, rows=rows)
    else:
        first = sql("{key} - {key} % {width}", key=slices.key, width=slices.width)
        query = sql(
            "SELECT {wanted}, {first} FROM ({rows}) GROUP BY {first}", wanted=wanted, first=first, rows=rows
        )
    found = [tuple(row) for row in spark.sql(query).collect()]
    return _by_slice(list(of), found, sliced=slices is not None)


def _figures(column: Column) -> Iterator[str]:
    """The names of the figures of a column. Sums of doubles depend on the order of the rows, so they are left out."""
    yield "count"
    if column.type in WHOLE or column.type.startswith("decimal"):
        yield "sum"
    elif column.type == "string":
        yield "length"
    elif column.type in ("date", "timestamp", "timestamptz", "double"):
        yield from ("min", "max")


def _scale(column: Column) -> int:
    return 0 if column.type in WHOLE else int(column.type.rstrip(")").rpartition(",")[2])


def _by_slice(names: Sequence[str], rows: Sequence[tuple[Any, ...]], *, sliced: bool) -> dict[int, Figures]:
    return {
        int(row[-1]) if sliced else 0: dict(zip(names, map(_plain, row[: len(names)]), strict=True))
        for row in rows
        if not sliced or row[-1] is not None
    }


def _plain(value: Any) -> Any:
    """The value in a form in which equal numbers and equal times are equal, whoever computed them."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, bool | float | date):
        return value
    return Decimal(value) if isinstance(value, int | Decimal) else value
