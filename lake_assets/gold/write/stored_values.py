"""The types of computed columns and of the table's: rows that the table would not store as they are.

Spark casts a column to the table's type when it writes, and then 1.7 becomes 1 in a column of whole numbers, and a time
becomes its day. Here: refusing such values. Not here: columns that one side lacks (`write_mart.py`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

from pyiceberg.table import Table
from pyiceberg.types import IcebergType, ListType, MapType, PrimitiveType, StructType, UnknownType
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType
from pyspark.sql.types import MapType as SparkMap
from pyspark.sql.types import StructType as SparkStruct

from lake_assets.config import Column
from lake_assets.errors import ColumnMismatch
from lake_assets.spark.sql import Sql, quoted, sql
from lake_assets.spark.types import spark_type
from lake_assets.words import many

NO_TYPE = "void"
"""Spark's type of a column in which every value is NULL."""
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_COMPARED = (*_WHOLE, "float", "double", *_TIMES)


def untyped_columns(table: Table) -> set[str]:
    """The columns of the table in lower case that had no value when they were added, and so have no type."""
    return {
        field.name.lower() for field in table.schema().fields if isinstance(field.field_type, UnknownType)
    }


def has_no_types(kinds: Mapping[str, str]) -> bool:
    """Whether a column has no type, as in an empty frame of pandas. `kinds`: Iceberg types by column."""
    return any(NO_TYPE in kind for kind in kinds.values())


def typed_as_in(table: Table | None, computed: Sequence[Column]) -> tuple[Column, ...]:
    """The computed columns; those without a type, because every value is NULL, have the type of the table's column."""
    held = (
        {field.name.lower(): field.field_type for field in table.schema().fields} if table is not None else {}
    )
    return tuple(
        column.model_copy(update={"type": str(kind)})
        if column.type == NO_TYPE
        and isinstance(kind := held.get(column.name.lower()), PrimitiveType)
        and not isinstance(kind, UnknownType)
        else column
        for column in computed
    )


def require_types(
    identifier: str, table: Table | None, kinds: Mapping[str, str], partitioned_by: Collection[str]
) -> None:
    """Raises ColumnMismatch for columns without a type that have to have one: those that say which partition a row is
    in, and those that the table lacks if its files cannot have them. `kinds`: Iceberg types by column."""
    held = {field.name.lower() for field in table.schema().fields} if table is not None else set()
    new = {column: kind for column, kind in kinds.items() if column.lower() not in held}
    untyped = [column for column, kind in new.items() if NO_TYPE in kind and kind != NO_TYPE]
    untyped += [column for column in partitioned_by if kinds.get(column) == NO_TYPE]
    if not held and set(new.values()) == {NO_TYPE}:
        untyped = list(new)
    if untyped:
        raise ColumnMismatch(
            f"{identifier}: no value of {' and of '.join(untyped)} in the computed rows says which type it has. "
            "Nothing was written. Cast it in the asset, as to text or to a date."
        )


def require_storable(rows: DataFrame, identifier: str, table: Table, kinds: Mapping[str, str]) -> None:
    """Raises ColumnMismatch for a column whose type the table's cannot hold, or whose values it would change. `rows`
    are computed already; `kinds` are their Iceberg types by column."""
    held = {
        field.name.lower(): _plain(str(field.field_type))
        for field in table.schema().fields
        if isinstance(field.field_type, PrimitiveType) and not isinstance(field.field_type, UnknownType)
    }
    _require_nested(rows, identifier, table)
    changed: dict[str, tuple[str, str]] = {}
    for column, kind in kinds.items():
        given, stored = _plain(kind), held.get(column.lower())
        if stored is None or _holds(stored, given):
            continue
        if _family(given) is None or _family(given) != _family(stored):
            raise _mismatch(identifier, column, given, stored, "")
        changed[column] = given, stored
    if not changed:
        return
    figures = []
    for column, (given, stored) in changed.items():
        name = quoted(column)
        back = sql(
            "CAST(try_cast({column} AS {stored}) AS {given})",
            column=name,
            stored=Sql(stored),
            given=Sql(given),
        )
        differs = F.expr(sql("NOT ({back} <=> {column})", back=back, column=name))
        figures += [F.count_if(differs), F.min(F.when(differs, F.col(name).cast("string")))]
    (found,) = rows.agg(*figures).collect()
    for place, (column, (given, stored)) in enumerate(changed.items()):
        if number := found[2 * place]:
            why = f", which would change {many(number, 'value')} such as {found[2 * place + 1]}"
            raise _mismatch(identifier, column, given, stored, why)


def _require_nested(rows: DataFrame, identifier: str, table: Table) -> None:
    """Raises ColumnMismatch for a list, map or struct with a type inside that the table's cannot hold."""
    held = {field.name.lower(): field.field_type for field in table.schema().fields}
    for column in rows.schema:
        stored = held.get(column.name.lower())
        if stored is not None and not isinstance(stored, PrimitiveType):
            for given, kind in _leaves(column.dataType, stored):
                if not _holds(kind, given):
                    raise _mismatch(identifier, column.name, given, kind, " within it")


def _leaves(given: DataType, stored: IcebergType) -> Iterator[tuple[str, str]]:
    """The types of the values inside, of the rows and of the table. Spark refuses other forms itself."""
    if isinstance(given, ArrayType) and isinstance(stored, ListType):
        yield from _leaves(given.elementType, stored.element_type)
    elif isinstance(given, SparkMap) and isinstance(stored, MapType):
        yield from _leaves(given.keyType, stored.key_type)
        yield from _leaves(given.valueType, stored.value_type)
    elif isinstance(given, SparkStruct) and isinstance(stored, StructType):
        fields = {field.name.lower(): field.field_type for field in stored.fields}
        for field in given:
            if (kind := fields.get(field.name.lower())) is not None:
                yield from _leaves(field.dataType, kind)
    elif isinstance(stored, PrimitiveType):
        yield given.simpleString(), _plain(str(stored))


def _mismatch(identifier: str, column: str, given: str, stored: str, why: str) -> ColumnMismatch:
    return ColumnMismatch(
        f"{identifier}: the column {column} is {given} in the computed rows and {stored} in the table{why}. Nothing "
        f"was written. Cast it to {stored} in the asset, or drop {identifier}: the next run creates it with the new "
        "type."
    )


def _plain(kind: str) -> str:
    return spark_type(kind).replace(" ", "")


def _holds(stored: str, given: str) -> bool:
    """Whether every value of the type `given` is the same in the type `stored`."""
    if stored in (given, "string") or given == NO_TYPE:
        return True
    if given in _WHOLE and stored in _WHOLE:
        return _WHOLE.index(given) <= _WHOLE.index(stored)
    return (given, stored) == ("float", "double") or (given == "date" and stored in _TIMES)


def _family(kind: str) -> str | None:
    """Types of one family can be compared by value; None for types that Spark casts to no other."""
    if kind not in _COMPARED and not kind.startswith("decimal"):
        return None
    return "time" if kind in _TIMES else "number"
