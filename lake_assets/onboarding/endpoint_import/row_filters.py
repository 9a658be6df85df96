"""The SQL condition of the rows that the filters of a selection rule leave.

Here: the operators, and the quoting of the source's engine. Not here: which rules select a table (`table_mappings.py`).
The guide's chapter is "Using source filters": AND joins the filters of a rule, OR the conditions of a filter.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mssql, mysql, oracle, postgresql

from lake_assets.config import UNDECIDED

Column = sa.ColumnClause[Any]
Value = sa.BindParameter[Any]

_ONE: Mapping[str, Callable[[Column, Value], sa.ColumnElement[bool]]] = {
    "eq": lambda column, value: column == value,
    "noteq": lambda column, value: column != value,
    "gte": lambda column, value: column >= value,
    "ste": lambda column, value: column <= value,
    "lte": lambda column, value: column <= value,  # the guide's examples call `ste` so
}
_TWO: Mapping[str, Callable[[Column, Value, Value], sa.ColumnElement[bool]]] = {
    "between": lambda column, first, last: column.between(first, last),
    "notbetween": lambda column, first, last: sa.not_(column.between(first, last)),
}
_NONE: Mapping[str, Callable[[Column], sa.ColumnElement[bool]]] = {
    "null": lambda column: column.is_(None),
    "notnull": lambda column: column.is_not(None),
}
_DIALECTS: Mapping[str, Any] = {
    "postgresql": postgresql.dialect,
    "mysql": mysql.dialect,
    "oracle": oracle.dialect,
    "mssql": mssql.dialect,
}
_DATE = re.compile(r"\d{4}-\d\d-\d\d.*", re.DOTALL)


class _Untranslatable(ValueError):
    """The end of the sentence `the filter …`."""


def dialect_of(engine: str | None) -> str | None:
    """SQLAlchemy's name of the engine that DMS calls so; None for one that is not known."""
    name = (engine or "").lower()
    if name.startswith(("postgres", "aurora-postgresql")):
        return "postgresql"
    if name.startswith(("mysql", "mariadb", "aurora")):
        return "mysql"
    if name.startswith(("sqlserver", "azuredb", "azure-sql", "babelfish")):
        return "mssql"
    return "oracle" if name.startswith("oracle") else None


def source_filter(filters: Sequence[Any], engine: str | None) -> tuple[str | None, list[str]]:
    """The condition of a rule's filters in the source's SQL, and notes about it. None without a filter, `undecided` if
    one cannot be translated: a condition without it would have more rows than DMS reads."""
    if not filters:
        return None, []
    dialect = dialect_of(engine)
    wrong, found = list[str](), list[sa.ColumnElement[bool]]()
    for given in filters:
        try:
            found.append(_filter(given))
        except _Untranslatable as error:
            wrong.append(f"a filter of the mapping {error}, so it could not be translated to SQL")
    if wrong:
        return UNDECIDED, wrong
    # `named`: other styles of parameters would double each %.
    sql = _DIALECTS[dialect or "postgresql"](paramstyle="named")
    condition = sa.and_(*found).compile(dialect=sql, compile_kwargs={"literal_binds": True})
    return str(condition), list(_notes(filters, dialect))


def _notes(filters: Sequence[Any], dialect: str | None) -> list[str]:
    notes = [
        "DMS reads only the rows for which source_filter is true, so silver has a part of the source's rows. DMS does "
        "not apply the filter to what an update changes: a row that leaves the filter may stay in silver, and one that "
        "enters it may be missing. Filter by columns that never change"
    ]
    if dialect is None:
        notes.append(
            'source_filter has names in "…", because the documents do not describe the source\'s endpoint: write them '
            "as the source's engine quotes them"
        )
    if dialect == "oracle" and any(_DATE.fullmatch(text) for text in _values(filters)):
        notes.append(
            "Oracle compares a date with a text by NLS_DATE_FORMAT: write DATE '2026-01-31' in source_filter for a "
            "column that is a date"
        )
    return notes


def _values(filters: Sequence[Any]) -> list[str]:
    conditions = [condition for given in filters for condition in given["filter-conditions"]]
    return [str(v) for c in conditions for k, v in c.items() if k != "filter-operator"]


def _filter(given: Any) -> sa.ColumnElement[bool]:
    if not isinstance(given, dict):
        raise _Untranslatable("is not a JSON object")
    if (kind := given.get("filter-type", "source")) != "source":
        raise _Untranslatable(f"has the filter-type {kind!r}, which is not known")
    name, conditions = given.get("column-name"), given.get("filter-conditions")
    if not (isinstance(name, str) and name):
        raise _Untranslatable("names no column")
    if not (isinstance(conditions, list) and conditions):
        raise _Untranslatable(f"of the column {name} has no conditions")
    column: Column = sa.column(sa.sql.quoted_name(name, quote=True), sa.String())
    return sa.or_(*(_condition(column, condition) for condition in conditions))


def _condition(column: Column, given: Any) -> sa.ColumnElement[bool]:
    operator = str(given.get("filter-operator")) if isinstance(given, dict) else ""
    if operator in _NONE:
        return _NONE[operator](column)
    if operator in _ONE:
        return _ONE[operator](column, _value(column, given, "value"))
    if operator in _TWO:
        first, last = (_value(column, given, key) for key in ("start-value", "end-value"))
        return _TWO[operator](column, first, last)
    raise _Untranslatable(f"of the column {column.name} has the operator {operator!r}, which is not known")


def _value(column: Column, given: Mapping[str, Any], key: str) -> Value:
    """A text: the source converts it to the column's type, as the documents do not name that."""
    value = given.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        operator = given["filter-operator"]
        raise _Untranslatable(f"of the column {column.name} has no {key} for the operator {operator}")
    return sa.literal(str(value), sa.String())
