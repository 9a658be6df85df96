"""The rows of some partitions of a table: as a condition for Spark and for PyIceberg, and read into Spark.

Here: that translation, and the one way in which marts and the IO manager read a table. Not here: which partitions a run
has (`orchestration/io_managers/run_partitions.py`), writing (`write/write_mart.py`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import AlwaysFalse, And, BooleanExpression, GreaterThanOrEqual, In, LessThan, Or
from pyiceberg.table import Table

from lake_assets.errors import PartitionMismatch
from lake_assets.iceberg.partitioning import has_former_partitions, partitions_of
from lake_assets.iceberg.table_io import table_at
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.sql import Sql, joined, literal, quoted, sql, table_address

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DATE, STAMPS = "date", ("timestamp", "timestamptz")
NUMBERS: Mapping[str, Callable[[str], object]] = {
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "decimal": Decimal,
}
NO_ROWS = Sql("false")


@dataclass(frozen=True, slots=True)
class ColumnRows:
    """The values of one column that belong to the partitions."""

    column: str
    keys: tuple[str, ...]
    """Partition keys: the column's values, if they are not dates or timestamps."""
    window: tuple[datetime, datetime] | None = None
    """For partitions of time: first instant and exclusive end, in their time zone."""

    def bounds(self, kind: str) -> tuple[Any, Any] | None:
        """First value and exclusive end, in a column of the Iceberg type `kind`; None if the keys are the values."""
        if self.window is None or kind not in (DATE, *STAMPS):
            self._require_values(kind)
            return None
        if kind == DATE:
            if not all(map(is_midnight, self.window)):
                raise PartitionMismatch(
                    f"{self.column} is a date, and the partition {self.keys[0]} begins or ends within a day. Name a "
                    "column of timestamps as its partition column."
                )
            return self.window[0].date(), self.window[1].date()
        first, end = (moment.astimezone(UTC) for moment in self.window)
        # A timestamp without a zone is a time of UTC.
        return (
            (first, end) if kind == "timestamptz" else (first.replace(tzinfo=None), end.replace(tzinfo=None))
        )

    def _require_values(self, kind: str) -> None:
        """Raises PartitionMismatch for a key that is no value of a column of numbers."""
        number = next((read for name, read in NUMBERS.items() if kind.startswith(name)), None)
        if number is None:
            return
        for key in self.keys:
            try:
                number(key)
            except (ValueError, ArithmeticError):
                raise PartitionMismatch(
                    f"{self.column} is of type {kind}, and the partition {key} is no such value. Name a column of "
                    f"{'timestamps or dates' if self.window else 'text'} as the asset's partition column."
                ) from None

    def transforms(self, kind: str) -> list[str]:
        """The partition transforms of a table with which each file has only rows of the partitions, or none of them."""
        if (bounds := self.bounds(kind)) is None:
            return [self.column]
        moments = [
            bound if isinstance(bound, datetime) else datetime.combine(bound, time()) for bound in bounds
        ]
        floor: dict[str, Any] = {"minute": 0, "second": 0, "microsecond": 0}
        found = [self.column]
        for unit, part in (("hour", {}), ("day", {"hour": 0}), ("month", {"day": 1}), ("year", {"month": 1})):
            floor |= part
            if all(moment == moment.replace(**floor) for moment in moments):
                found.append(f"{unit}({self.column})")
        return found

    def kind(self, kinds: Mapping[str, str]) -> str:
        """The Iceberg type of the column. Raises PartitionMismatch if there is none."""
        if self.column not in kinds:
            raise PartitionMismatch(
                f"There is no column {self.column}, by which the asset's metadata partitions it; there are "
                f"{', '.join(kinds)}."
            )
        return kinds[self.column]


def is_midnight(moment: datetime) -> bool:
    """Whether the time is the beginning of a day."""
    return moment.time() == time()


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The rows that meet all conditions of one of the `parts`."""

    parts: tuple[tuple[ColumnRows, ...], ...]
    name: str
    """The partitions as messages name them."""

    @property
    def columns(self) -> list[str]:
        """The columns that say which partition a row is in."""
        return [rows.column for rows in self.parts[0]]

    def in_spark(self, kinds: Mapping[str, str]) -> "Column":
        """The condition in Spark; `kinds` are Iceberg types by column."""
        from pyspark.sql import functions as F

        return F.expr(self.in_sql(kinds))

    def in_sql(self, kinds: Mapping[str, str]) -> Sql:
        """The condition in SQL."""
        parts = (joined(" AND ", (_sql(rows, kinds) for rows in part)) for part in self.parts)
        return joined(" OR ", (sql("({part})", part=part) for part in parts)) or NO_ROWS

    def are_whole_files(self, table: Table, kinds: Mapping[str, str]) -> bool:
        """Whether each file of the table has only rows of these partitions, or none of them."""
        held = set(partitions_of(table))
        conditions = (rows for part in self.parts for rows in part)
        return not has_former_partitions(table) and all(
            held.intersection(rows.transforms(rows.kind(kinds))) for rows in conditions
        )

    def in_pyiceberg(self, kinds: Mapping[str, str]) -> BooleanExpression:
        """The condition in PyIceberg."""
        return _joined(Or, [_joined(And, [_pyiceberg(rows, kinds) for rows in part]) for part in self.parts])


def table_frame(
    runtime: LakeRuntime,
    identifier: str,
    snapshot_id: int | None,
    *,
    columns: Sequence[str] = (),
    rows: PartitionRows | None = None,
    kinds: Mapping[str, str] | None = None,
    few_rows: bool = False,
) -> "DataFrame":
    """The table at a snapshot, or at its head for None, not computed yet: all columns or some, all rows or those of
    some partitions. `kinds`: Iceberg types by column, for `rows`; `few_rows`: see `SparkSessions.root`."""
    spark, catalog = runtime.sessions.root(few_rows=few_rows), runtime.lake.catalog.name
    if snapshot_id is None:
        frame = spark.table(table_address(catalog, identifier))
    else:
        frame = spark.sql(table_at(catalog, identifier, snapshot_id))
    if rows is not None:
        frame = frame.filter(rows.in_spark(kinds or {}))
    return frame.select(*map(quoted, columns)) if columns else frame


def _sql(rows: ColumnRows, kinds: Mapping[str, str]) -> Sql:
    from lake_assets.spark.types import spark_type

    kind = rows.kind(kinds)

    def value(text: str) -> Sql:
        return sql("CAST({text} AS {type})", text=literal(text), type=spark_type(kind))

    if (bounds := rows.bounds(kind)) is None:
        if not rows.keys:
            return NO_ROWS
        return sql("{column} IN ({keys})", column=rows.column, keys=joined(", ", map(value, rows.keys)))
    first, end = (value(bound.isoformat()) for bound in bounds)
    return sql("{column} >= {first} AND {column} < {end}", column=rows.column, first=first, end=end)


def _pyiceberg(rows: ColumnRows, kinds: Mapping[str, str]) -> BooleanExpression:
    if (bounds := rows.bounds(rows.kind(kinds))) is None:
        return In(term=rows.column, literals=set(rows.keys))
    first, end = (bound.isoformat() for bound in bounds)
    return And(GreaterThanOrEqual(term=rows.column, value=first), LessThan(term=rows.column, value=end))


def _joined(operator: type[And] | type[Or], expressions: Sequence[BooleanExpression]) -> BooleanExpression:
    if not expressions:
        return AlwaysFalse()
    first, *others = expressions
    return operator(first, *others) if others else first
